"""Whether this database is one of production: recorded by the owner, so that guards can ask for it (T1)."""

from __future__ import annotations

from django.conf import settings
from django.db import connections, models
from django.db.models import Q

from fencing.environment import Mode
from fencing.models import fields, triggers

RECORD = """
INSERT INTO fencing_deployment (id, mode) VALUES (1, %s)
ON CONFLICT (id) DO UPDATE SET mode = EXCLUDED.mode, recorded_at = clock_timestamp()
WHERE EXCLUDED.mode = 'production' AND fencing_deployment.mode <> 'production'
"""


class Deployment(models.Model):
    """The one row that tells the mode. Written by migrations alone; once production, always production."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    mode = models.CharField(max_length=10, choices=[(mode.value, mode.value) for mode in Mode])
    recorded_at = fields.recorded_at()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="deployment_is_one")]
        triggers = [
            *triggers.kept("mode", "recorded_at"),
            triggers.Unchanged(
                name="deployment_stays_production",
                fields=["mode"],
                sentence="T1, a database of production does not become another one",
                where="OLD.mode = 'production'",
            ),
        ]


def is_production() -> bool:
    """Tell whether the rules of production hold: by this process's settings, or by what the database recorded."""
    return settings.FENCE_MODE is Mode.PRODUCTION or not Deployment.objects.filter(mode=Mode.LOCAL.value).exists()


def record_mode(*, using: str = "default", **_: object) -> None:
    """Record the mode that the owner runs migrations in. A receiver of `post_migrate`; safe to repeat."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('public.fencing_deployment') IS NOT NULL")
        ((is_there,),) = cursor.fetchall()
        if is_there:  # in the middle of the migrations it is not
            cursor.execute(RECORD, [settings.FENCE_MODE.value])
