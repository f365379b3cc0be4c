"""Keys of people and machines: rotation with overlap; plain names of people; what the door shares between processes."""

from __future__ import annotations

from datetime import timedelta

import django.db.models.deletion
import django.db.models.expressions
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.triggers

# Django's own cache in the database: codes that were used must be known to every web process (`CACHES`).
CACHE = """
CREATE TABLE IF NOT EXISTS django_cache (
    cache_key varchar(255) PRIMARY KEY,
    value text NOT NULL,
    expires timestamp with time zone NOT NULL
);
CREATE INDEX IF NOT EXISTS django_cache_expires ON django_cache (expires);
"""
# Whatever makes a person, their name is a plain one, and no two differ by capitals alone (`fencing.protocol.usernames`).
NAMES = """
UPDATE auth_user SET username = lower(username) WHERE username <> lower(username);
ALTER TABLE auth_user ADD CONSTRAINT auth_user_plain_name CHECK (username ~ '^[a-z0-9][a-z0-9._@-]{0,63}$');
"""


class Migration(migrations.Migration):
    dependencies = [("fencing", "0004_tools"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations: list[migrations.operations.base.Operation] = [
        migrations.RunSQL(CACHE, "DROP TABLE IF EXISTS django_cache"),
        migrations.RunSQL(NAMES, "ALTER TABLE auth_user DROP CONSTRAINT auth_user_plain_name"),
        pgtrigger.migrations.RemoveTrigger(
            model_name="credential",
            name="fixed",
        ),
        migrations.AddField(
            model_name="credential",
            name="rotated_from",
            field=models.OneToOneField(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="rotated_to",
                to="fencing.credential",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="credential",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."role" IS DISTINCT FROM NEW."role" OR OLD."key_hash" IS DISTINCT FROM NEW."key_hash" OR OLD."hint" IS DISTINCT FROM NEW."hint" OR OLD."path" IS DISTINCT FROM NEW."path" OR OLD."person_id" IS DISTINCT FROM NEW."person_id" OR OLD."rotated_from_id" IS DISTINCT FROM NEW."rotated_from_id" OR OLD."created_at" IS DISTINCT FROM NEW."created_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: expires_at, group, lanes, last_used_at, rate_per_s, revoked_at, tools';",
                    hash="7103990766b512caa6bd027045918a950488e095",
                    operation='UPDATE OF "id", "name", "role", "key_hash", "hint", "path", "person_id", "rotated_from_id", "created_at"',
                    pgid="pgtrigger_fixed_6426b",
                    table="fencing_credential",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="credential",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("expires_at__isnull", False),
                        (
                            "expires_at__lte",
                            django.db.models.expressions.CombinedExpression(
                                models.F("created_at"), "+", models.Value(timedelta(seconds=43260))
                            ),
                        ),
                        ("role__in", ["oncall", "reviewer"]),
                    ),
                    models.Q(("role__in", ["oncall", "reviewer"]), _negated=True),
                    _connector="OR",
                ),
                name="credential_person_life",
            ),
        ),
    ]
