"""Seals over the audit, their witnesses, and verifications."""

import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.contrib.postgres.indexes
import django.db.models.expressions
import django.db.models.functions.text
import django.db.models.lookups
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0007_side_log"),
    ]

    operations = [
        migrations.CreateModel(
            name="Verification",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("asked", "Asked"), ("running", "Running"), ("held", "Held"), ("failed", "Failed")],
                        default="asked",
                        max_length=7,
                    ),
                ),
                ("asked_by", models.CharField(max_length=250)),
                ("asked_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("seal", models.BigIntegerField(default=0)),
                ("up_to", models.BigIntegerField(default=0)),
                ("rows", models.BigIntegerField(default=0)),
                ("unsealed", models.BigIntegerField(default=0)),
                ("worked_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "fault_kind",
                    models.CharField(
                        choices=[
                            ("edited", "edited"),
                            ("deleted", "deleted"),
                            ("inserted", "inserted"),
                            ("reordered", "reordered"),
                            ("cut", "cut"),
                            ("forked", "forked"),
                            ("bad_signature", "bad_signature"),
                            ("head_missing", "head_missing"),
                            ("nothing", "nothing"),
                        ],
                        default="",
                        max_length=20,
                    ),
                ),
                ("fault_row", models.BigIntegerField(null=True)),
                ("fault_seal", models.BigIntegerField(null=True)),
                ("says", models.TextField(default="")),
            ],
        ),
        migrations.CreateModel(
            name="Witness",
            fields=[
                ("url", models.CharField(max_length=500, primary_key=True, serialize=False)),
                ("number", models.BigIntegerField(default=0)),
                ("told_at", models.DateTimeField(null=True)),
                ("failure", models.CharField(default="", max_length=200)),
                ("failures", models.IntegerField(default=0)),
                ("next_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AlterField(
            model_name="signingkey",
            name="use",
            field=models.CharField(
                choices=[("commit", "commit"), ("permit", "permit"), ("seal", "seal")], max_length=6
            ),
        ),
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("previous", fencing.models.fields.ExactCharField(max_length=71, unique=True)),
                ("hash", fencing.models.fields.ExactCharField(max_length=71, unique=True)),
                ("after", models.BigIntegerField()),
                ("last", models.BigIntegerField()),
                ("count", models.IntegerField()),
                ("root", fencing.models.fields.ExactCharField(max_length=71)),
                ("sealed_at", models.DateTimeField()),
                ("kid", models.CharField(max_length=64)),
                ("signature", models.CharField(max_length=100)),
                ("entries", models.BinaryField()),
                ("facets", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("moments", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("last"), descending=True), name="seal_of_row"),
                    django.contrib.postgres.indexes.GinIndex(fields=["facets"], name="seal_by_facet"),
                    django.contrib.postgres.indexes.GistIndex(fields=["moments"], name="seal_by_moment"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("count__gte", 1), ("last__gt", models.F("after")), ("number__gte", 1)),
                        name="seal_of_rows",
                    ),
                    models.CheckConstraint(
                        condition=django.db.models.lookups.Exact(
                            django.db.models.functions.text.Length("entries"),
                            django.db.models.expressions.CombinedExpression(models.F("count"), "*", models.Value(40)),
                        ),
                        name="seal_has_its_entries",
                    ),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="seal",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="f9aec52ba78af13ee1a26d96c220219e11141c79",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_79db8",
                    table="fencing_seal",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="seal",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="52e74338b2fd258b118e2fca4eb6506c6720e90b",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_4751a",
                    table="fencing_seal",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="seal",
            trigger=pgtrigger.compiler.Trigger(
                name="seal_in_its_chain",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min('seal_in_its_chain: U2, a seal begins where the one before it ends, and names its hash') INTO wrong\nFROM new_rows AS seal\nLEFT JOIN LATERAL (SELECT hash, last FROM fencing_seal WHERE number = seal.number - 1 LIMIT 1) AS its ON true\nWHERE seal.previous <> coalesce(its.hash, 'sha256:' || repeat('0', 64)) OR seal.after <> coalesce(its.last, 0)\n    OR (its.hash IS NULL AND seal.number <> 1);\n",
                    hash="b789f62cddf41c650844edac3a98ede453fe94d0",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_seal_in_its_chain_59a4e",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_seal",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="verification",
            index=models.Index(
                models.OrderBy(models.F("asked_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="verification_newest",
            ),
        ),
        migrations.AddConstraint(
            model_name="verification",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", True), ("state__in", ["asked", "running"])),
                    models.Q(("fault_kind", ""), ("finished_at__isnull", False), ("state", "held")),
                    models.Q(
                        ("finished_at__isnull", False), ("state", "failed"), models.Q(("fault_kind", ""), _negated=True)
                    ),
                    _connector="OR",
                ),
                name="verification_ends_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="verification",
            constraint=models.UniqueConstraint(
                models.Value(1), condition=models.Q(("finished_at__isnull", True)), name="verification_one_open"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="verification",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="c3419818168fb391e5c4ccb6d2729e73d6f49863",
                    operation="DELETE",
                    pgid="pgtrigger_kept_9d277",
                    table="fencing_verification",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="verification",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="85cf7615c127e851638eea5e738b4a72c3207ec1",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_f1054",
                    table="fencing_verification",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="verification",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."asked_by" IS DISTINCT FROM NEW."asked_by" OR OLD."asked_at" IS DISTINCT FROM NEW."asked_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: fault_kind, fault_row, fault_seal, finished_at, rows, says, seal, state, unsealed, up_to, worked_at';",
                    hash="7cf93e61999d17b6b9fe22aa23f5dacf8eeb82d0",
                    operation='UPDATE OF "id", "asked_by", "asked_at"',
                    pgid="pgtrigger_fixed_8d210",
                    table="fencing_verification",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="verification",
            trigger=pgtrigger.compiler.Trigger(
                name="verification_stays",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((OLD.finished_at IS NOT NULL) AND (OLD."state" IS DISTINCT FROM NEW."state" OR OLD."rows" IS DISTINCT FROM NEW."rows" OR OLD."finished_at" IS DISTINCT FROM NEW."finished_at" OR OLD."fault_kind" IS DISTINCT FROM NEW."fault_kind" OR OLD."fault_row" IS DISTINCT FROM NEW."fault_row" OR OLD."fault_seal" IS DISTINCT FROM NEW."fault_seal" OR OLD."says" IS DISTINCT FROM NEW."says"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'verification_stays: I6, what a verification found stays as it is';",
                    hash="e3c14fa55da59b4ca50f654fca3a54549ab1fccc",
                    operation='UPDATE OF "state", "rows", "finished_at", "fault_kind", "fault_row", "fault_seal", "says"',
                    pgid="pgtrigger_verification_stays_1e8ab",
                    table="fencing_verification",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="witness",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="8931f94a7361dcb83e284a4af695486523d5e308",
                    operation="DELETE",
                    pgid="pgtrigger_kept_6960f",
                    table="fencing_witness",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="witness",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="9848b76e830fa6a27dd499315517aa48505bac62",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_ff7d3",
                    table="fencing_witness",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="witness",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."url" IS DISTINCT FROM NEW."url"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: failure, failures, next_at, number, told_at';",
                    hash="b1adaf1af4db40aa8f1368b540eef21ce4db2b11",
                    operation='UPDATE OF "url"',
                    pgid="pgtrigger_fixed_8b51e",
                    table="fencing_witness",
                    when="BEFORE",
                ),
            ),
        ),
    ]
