"""Readings of tools' own ledgers."""

from __future__ import annotations

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0012_notices"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations: list[migrations.operations.base.Operation] = [
        migrations.CreateModel(
            name="Ledger",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool", fencing.models.fields.ExactCharField(max_length=200)),
                ("source", models.CharField(choices=[("upload", "Upload"), ("pull", "Pull")], max_length=6)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("matching", "Matching"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("file_name", models.TextField(default="")),
                ("place", models.TextField(default="")),
                ("cursor", models.TextField(default="")),
                ("size", models.BigIntegerField(default=0)),
                ("complete_from", models.DateTimeField(null=True)),
                ("complete_until", models.DateTimeField(null=True)),
                ("rows", models.BigIntegerField(default=0)),
                ("matched", models.BigIntegerField(default=0)),
                ("undone", models.BigIntegerField(default=0)),
                ("escapes", models.BigIntegerField(default=0)),
                ("doubled", models.BigIntegerField(default=0)),
                ("known", models.BigIntegerField(default=0)),
                ("refused", models.BigIntegerField(default=0)),
                ("wanted", models.BigIntegerField(default=0)),
                ("missing", models.BigIntegerField(default=0)),
                ("says", models.TextField(default="")),
                ("asked_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        models.OrderBy(models.F("asked_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        name="ledger_newest",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ["waiting", "matching"])),
                        fields=["asked_at"],
                        name="ledger_to_match",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("complete_from__isnull", True), ("complete_until__isnull", True)),
                            models.Q(
                                ("complete_from__isnull", False), ("complete_until__gt", models.F("complete_from"))
                            ),
                            _connector="OR",
                        ),
                        name="ledger_complete_for_a_span",
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledger",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="c54d8240c3943af46efbe42ae2e4bcc18b44f823",
                    operation="DELETE",
                    pgid="pgtrigger_kept_99245",
                    table="fencing_ledger",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledger",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="2c32637e42ddea06a5f89cfc585024056ce97003",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_a3c7e",
                    table="fencing_ledger",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledger",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."source" IS DISTINCT FROM NEW."source" OR OLD."file_name" IS DISTINCT FROM NEW."file_name" OR OLD."size" IS DISTINCT FROM NEW."size" OR OLD."complete_from" IS DISTINCT FROM NEW."complete_from" OR OLD."complete_until" IS DISTINCT FROM NEW."complete_until" OR OLD."person_id" IS DISTINCT FROM NEW."person_id" OR OLD."asked_at" IS DISTINCT FROM NEW."asked_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: cursor, doubled, escapes, finished_at, known, matched, missing, place, refused, rows, says, state, undone, wanted';",
                    hash="1fdd4e7976d220619fa112ed1d0226bf4556a93b",
                    operation='UPDATE OF "id", "tool", "source", "file_name", "size", "complete_from", "complete_until", "person_id", "asked_at"',
                    pgid="pgtrigger_fixed_7fd8e",
                    table="fencing_ledger",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledger",
            trigger=pgtrigger.compiler.Trigger(
                name="ledger_finished_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((OLD.finished_at IS NOT NULL) AND (OLD."state" IS DISTINCT FROM NEW."state" OR OLD."rows" IS DISTINCT FROM NEW."rows" OR OLD."matched" IS DISTINCT FROM NEW."matched" OR OLD."escapes" IS DISTINCT FROM NEW."escapes" OR OLD."doubled" IS DISTINCT FROM NEW."doubled" OR OLD."missing" IS DISTINCT FROM NEW."missing"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'ledger_finished_once: I6, what was found in a ledger stays';",
                    hash="79f6607563e386f1e6232c83df4995cfab6c39f8",
                    operation='UPDATE OF "state", "rows", "matched", "escapes", "doubled", "missing"',
                    pgid="pgtrigger_ledger_finished_once_ec604",
                    table="fencing_ledger",
                    when="BEFORE",
                ),
            ),
        ),
    ]
