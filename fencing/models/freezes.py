"""Freezes: on-call stops a tool, a run, or everything at once; another person lifts it (L10)."""

from __future__ import annotations

import uuid
from typing import Any

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce

from fencing.models import fields, triggers
from fencing.models.runs import Run

NO_RUN = uuid.UUID(int=0)


class Freeze(models.Model):
    """That nothing of a scope is admitted, from `set_at` until it is lifted. Without tool and run it is everything.

    `answer` is what it stopped and what was out already, as it was told: asked again, it is told the same (N2).
    """

    id = fields.key()
    tool = fields.identifier(null=True)
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    reason = models.TextField()
    set_by: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    set_at = fields.recorded_at()
    answer = models.JSONField()
    lifted_at = models.DateTimeField(null=True)
    lifted_by: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    lift_reason = models.TextField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(lifted_by__isnull=True) | ~Q(lifted_by=F("set_by")), name="freeze_lifted_by_another"
            ),
            models.CheckConstraint(
                condition=Q(lifted_at__isnull=True, lifted_by__isnull=True, lift_reason__isnull=True)
                | Q(lifted_at__isnull=False, lifted_by__isnull=False, lift_reason__isnull=False),
                name="freeze_lifted_with_a_reason",
            ),
            # A second tap finds what the first one made.
            models.UniqueConstraint(
                F("set_by"),
                Coalesce(F("tool"), Value("")),
                Coalesce(F("run_id"), Value(NO_RUN, output_field=models.UUIDField())),
                condition=Q(lifted_at__isnull=True),
                name="freeze_once",
            ),
        ]
        indexes = [
            # Asked by every admission: those that stand, which are hardly any.
            models.Index(fields=["run"], condition=Q(lifted_at__isnull=True), name="freeze_standing"),
            models.Index(F("set_at").desc(), F("id").desc(), name="freeze_newest"),
        ]
        triggers = [
            *triggers.kept("lifted_at", "lifted_by", "lift_reason"),
            triggers.WrittenOnce("lifted_at", "lifted_by", "lift_reason"),
            triggers.Guard(
                name="freeze_begins_standing",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.lifted_at IS NOT NULL"),
                func=triggers.refused("freeze_begins_standing", "L10, a freeze is lifted after it was set"),
            ),
        ]
