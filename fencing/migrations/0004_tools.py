"""Changes of tools that wait for a second administrator, and the mode that the owner recorded."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0003_grants"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Deployment",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("mode", models.CharField(choices=[("local", "local"), ("production", "production")], max_length=10)),
                ("recorded_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="ToolChange",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool", fencing.models.fields.ExactCharField(max_length=200)),
                ("definition", models.BinaryField()),
                ("digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("weakens", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("lookback", models.JSONField(null=True)),
                ("approvals_needed", models.SmallIntegerField()),
                ("reason", models.TextField()),
                ("proposed_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("expires_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "closed_as",
                    models.CharField(
                        choices=[
                            ("approved", "Approved"),
                            ("refused", "Refused"),
                            ("withdrawn", "Withdrawn"),
                            ("expired", "Expired"),
                        ],
                        max_length=9,
                        null=True,
                    ),
                ),
                ("close_reason", models.TextField(default="")),
            ],
        ),
        migrations.CreateModel(
            name="ToolChangeApproval",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("reason", models.TextField()),
                ("approved_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.AddField(
            model_name="toolversion",
            name="person",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="toolversion",
            name="reason",
            field=models.TextField(default=""),
        ),
        migrations.AddField(
            model_name="toolversion",
            name="weakens",
            field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolversion",
            trigger=pgtrigger.compiler.Trigger(
                name="tool_version_admissible",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text; its_last record; its_change record; fresh json; last json;",
                    func="\nfresh := convert_from(NEW.definition, 'UTF8')::json;\nSELECT id, version, definition INTO its_last FROM fencing_toolversion WHERE tool = NEW.tool ORDER BY id DESC LIMIT 1;\n\n-- What the other guards read of a version are its columns: they say what the definition says.\nwrong := CASE\n    WHEN NEW.version > coalesce(its_last.version, 0) + 1\n        THEN 'tool_versions_in_order: T1, the next version has the next number'\n    WHEN (NEW.tool, NEW.is_read_only, NEW.is_idempotent, NEW.is_optimistic, NEW.mode, NEW.trusted_path)\n        IS DISTINCT FROM (fresh ->> 'tool', fresh ->> 'effect' = 'read_only', (fresh ->> 'idempotent')::boolean,\n            (fresh ->> 'optimistic')::boolean, fresh ->> 'mode', fresh -> 'policy' ->> 'trusted_path')\n        OR (NEW.grant_approvals, NEW.max_grant_ttl_s) IS DISTINCT FROM\n            ((fresh -> 'policy' ->> 'grant_approvals')::smallint, (fresh -> 'policy' ->> 'max_grant_ttl_s')::integer)\n        OR NEW.required_paths::text[] IS DISTINCT FROM\n            ARRAY(SELECT json_array_elements_text(fresh -> 'policy' -> 'required_paths'))\n        THEN 'tool_columns_say_the_definition: T1, a column and the definition do not agree'\nEND;\n\nIF wrong IS NULL AND NEW.change_id IS NOT NULL THEN\n    -- So that nobody refuses, withdraws or approves it meanwhile.\n    SELECT tool, base_id, digest, proposer_id, approvals_needed, expires_at, closed_at INTO its_change\n    FROM fencing_toolchange WHERE id = NEW.change_id FOR NO KEY UPDATE;\n    wrong := CASE\n        WHEN (its_change.tool, its_change.base_id, its_change.digest)\n            IS DISTINCT FROM (NEW.tool, its_last.id, NEW.digest)\n            THEN 'tool_change_as_approved: T1, what was approved is another definition, or a change of another version'\n        WHEN its_change.closed_at IS NOT NULL OR its_change.expires_at <= clock_timestamp()\n            THEN 'tool_change_open: T1, the change no longer waits'\n        WHEN its_change.approvals_needed > (SELECT count(*) FROM fencing_toolchangeapproval\n                WHERE change_id = NEW.change_id AND person_id IS DISTINCT FROM its_change.proposer_id)\n            THEN 'tool_change_approved: T1, a change that weakens the fence waits for a second administrator'\n    END;\nELSIF wrong IS NULL AND its_last.id IS NOT NULL\n    -- Outside production `load_tools` weakens at once. Where nobody recorded the mode, it is production.\n    AND NOT EXISTS (SELECT FROM fencing_deployment WHERE mode = 'local')\nTHEN\n    last := convert_from(its_last.definition, 'UTF8')::json;\n    -- What cannot be compared weakens.\n    IF NEW.weakens <> '{}' OR coalesce(fresh ->> 'effect' = 'read_only' AND last ->> 'effect' <> 'read_only'\n    OR (fresh ->> 'idempotent')::boolean AND NOT (last ->> 'idempotent')::boolean\n    OR (fresh ->> 'optimistic')::boolean AND NOT (last ->> 'optimistic')::boolean\n    OR (fresh -> 'mode')::text IS DISTINCT FROM (last -> 'mode')::text\n    OR (fresh -> 'endpoint')::text IS DISTINCT FROM (last -> 'endpoint')::text\n    OR (fresh -> 'credential')::text IS DISTINCT FROM (last -> 'credential')::text\n    OR (fresh -> 'compensator')::text IS DISTINCT FROM (last -> 'compensator')::text\n    OR (last -> 'args_schema')::text <> 'null' AND (fresh -> 'args_schema')::text IS DISTINCT FROM (last -> 'args_schema')::text\n    OR NOT ARRAY(SELECT value::text FROM json_array_elements(fresh -> 'advisory')) <@ ARRAY(SELECT value::text FROM json_array_elements(last -> 'advisory'))\n    OR NOT ARRAY(SELECT value::text FROM json_array_elements(last -> 'sensitive')) <@ ARRAY(SELECT value::text FROM json_array_elements(fresh -> 'sensitive'))\n    OR NOT ARRAY(SELECT value::text FROM json_array_elements(last -> 'resources')) <@ ARRAY(SELECT value::text FROM json_array_elements(fresh -> 'resources'))\n    OR NOT ARRAY(SELECT value::text FROM json_array_elements(last -> 'policy' -> 'required_paths')) <@ ARRAY(SELECT value::text FROM json_array_elements(fresh -> 'policy' -> 'required_paths'))\n    OR (fresh -> 'policy' -> 'trusted_path')::text IS DISTINCT FROM (last -> 'policy' -> 'trusted_path')::text\n    OR NOT ARRAY(SELECT value::text FROM json_array_elements(fresh -> 'policy' -> 'nothing_done')) <@ ARRAY(SELECT value::text FROM json_array_elements(last -> 'policy' -> 'nothing_done'))\n    OR (fresh -> 'policy' ->> 'grace_s')::bigint < (last -> 'policy' ->> 'grace_s')::bigint\n    OR (fresh -> 'policy' ->> 'grant_approvals')::bigint < (last -> 'policy' ->> 'grant_approvals')::bigint\n    OR (fresh -> 'policy' ->> 'compensation_approvals')::bigint < (last -> 'policy' ->> 'compensation_approvals')::bigint\n    OR (fresh -> 'policy' ->> 'lease_s')::bigint < (last -> 'policy' ->> 'lease_s')::bigint\n    OR (fresh -> 'policy' ->> 'timeout_s')::bigint < (last -> 'policy' ->> 'timeout_s')::bigint\n    OR (fresh -> 'policy' ->> 'max_grant_ttl_s')::bigint > (last -> 'policy' ->> 'max_grant_ttl_s')::bigint\n    OR (fresh -> 'policy' ->> 'max_deliveries')::bigint > (last -> 'policy' ->> 'max_deliveries')::bigint\n    OR EXISTS (SELECT FROM json_object_keys(fresh ) AS name WHERE name NOT IN ('tool', 'effect', 'idempotent', 'optimistic', 'mode', 'advisory', 'sensitive', 'resources', 'compensator', 'args_schema', 'endpoint', 'credential', 'hints', 'policy'))\n    OR EXISTS (SELECT FROM json_object_keys(fresh -> 'policy') AS name WHERE name NOT IN ('required_paths', 'trusted_path', 'deadline_s', 'grace_s', 'max_grant_ttl_s', 'grant_approvals', 'compensation_approvals', 'lease_s', 'max_deliveries', 'timeout_s', 'nothing_done')), true) THEN\n        wrong := 'tool_change_approved: T1, a change that weakens the fence waits for a second administrator';\n    END IF;\nEND IF;\n",
                    hash="1382aa996fd082b5dd90c47947a9509156fabff1",
                    operation="INSERT",
                    pgid="pgtrigger_tool_version_admissible_534c3",
                    table="fencing_toolversion",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="deployment",
            constraint=models.CheckConstraint(condition=models.Q(("id", 1)), name="deployment_is_one"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deployment",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="9e513c75cc12d2da3d0d770562f8aa2200654fcc",
                    operation="DELETE",
                    pgid="pgtrigger_kept_9b37e",
                    table="fencing_deployment",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deployment",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="19eb6dfa118cf8fc400accbbdfe30eff20fa733e",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_8380c",
                    table="fencing_deployment",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deployment",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: mode, recorded_at';",
                    hash="c4547b21fbe1c68988ad870e0d05274b0a151e35",
                    operation='UPDATE OF "id"',
                    pgid="pgtrigger_fixed_5bfaa",
                    table="fencing_deployment",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deployment",
            trigger=pgtrigger.compiler.Trigger(
                name="deployment_stays_production",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((OLD.mode = \'production\') AND (OLD."mode" IS DISTINCT FROM NEW."mode"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'deployment_stays_production: T1, a database of production does not become another one';",
                    hash="291bcbcd989e376d0384973319b02ddc55ae5292",
                    operation='UPDATE OF "mode"',
                    pgid="pgtrigger_deployment_stays_production_60906",
                    table="fencing_deployment",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddField(
            model_name="toolchange",
            name="base",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.toolversion"
            ),
        ),
        migrations.AddField(
            model_name="toolchange",
            name="closed_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="toolchange",
            name="proposer",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="toolversion",
            name="change",
            field=models.OneToOneField(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="version", to="fencing.toolchange"
            ),
        ),
        migrations.AddConstraint(
            model_name="toolversion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "digest",
                        django.db.models.functions.text.Concat(
                            models.Value("sha256:"),
                            models.Func(
                                models.Func(models.F("definition"), function="sha256"),
                                models.Value("hex"),
                                function="encode",
                                output_field=models.TextField(),
                            ),
                        ),
                    )
                ),
                name="tool_digest_is_its_own",
            ),
        ),
        migrations.AddField(
            model_name="toolchangeapproval",
            name="change",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="approvals",
                to="fencing.toolchange",
            ),
        ),
        migrations.AddField(
            model_name="toolchangeapproval",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddIndex(
            model_name="toolchange",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", True)), fields=["expires_at"], name="tool_change_open"
            ),
        ),
        migrations.AddIndex(
            model_name="toolchange",
            index=models.Index(
                models.F("tool"), models.OrderBy(models.F("proposed_at"), descending=True), name="tool_change_of_tool"
            ),
        ),
        migrations.AddConstraint(
            model_name="toolchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "digest",
                        django.db.models.functions.text.Concat(
                            models.Value("sha256:"),
                            models.Func(
                                models.Func(models.F("definition"), function="sha256"),
                                models.Value("hex"),
                                function="encode",
                                output_field=models.TextField(),
                            ),
                        ),
                    )
                ),
                name="tool_change_digest_is_its_own",
            ),
        ),
        migrations.AddConstraint(
            model_name="toolchange",
            constraint=models.CheckConstraint(condition=models.Q(("weakens__len__gte", 1)), name="tool_change_weakens"),
        ),
        migrations.AddConstraint(
            model_name="toolchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("approvals_needed__gte", 2),
                    models.Q(("approvals_needed", 1), ("proposer__isnull", False)),
                    _connector="OR",
                ),
                name="tool_change_needs_a_second",
            ),
        ),
        migrations.AddConstraint(
            model_name="toolchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed_as__isnull", True), ("closed_at__isnull", True)),
                    models.Q(("closed_as__isnull", False), ("closed_at__isnull", False)),
                    _connector="OR",
                ),
                name="tool_change_closed_as_something",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchange",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="6151ed81fd15dc1c37ae8b0c880409589e4d0acb",
                    operation="DELETE",
                    pgid="pgtrigger_kept_8ea88",
                    table="fencing_toolchange",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchange",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="e333e01f150135192d1b520f3b06f6472b61b0a3",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_a50be",
                    table="fencing_toolchange",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchange",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."base_id" IS DISTINCT FROM NEW."base_id" OR OLD."definition" IS DISTINCT FROM NEW."definition" OR OLD."digest" IS DISTINCT FROM NEW."digest" OR OLD."weakens" IS DISTINCT FROM NEW."weakens" OR OLD."lookback" IS DISTINCT FROM NEW."lookback" OR OLD."approvals_needed" IS DISTINCT FROM NEW."approvals_needed" OR OLD."proposer_id" IS DISTINCT FROM NEW."proposer_id" OR OLD."reason" IS DISTINCT FROM NEW."reason" OR OLD."proposed_at" IS DISTINCT FROM NEW."proposed_at" OR OLD."expires_at" IS DISTINCT FROM NEW."expires_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: close_reason, closed_as, closed_at, closed_by';",
                    hash="c865434c3d2f182e625f857c4979d8bfb71e8c36",
                    operation='UPDATE OF "id", "tool", "base_id", "definition", "digest", "weakens", "lookback", "approvals_needed", "proposer_id", "reason", "proposed_at", "expires_at"',
                    pgid="pgtrigger_fixed_1dd7a",
                    table="fencing_toolchange",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchange",
            trigger=pgtrigger.compiler.Trigger(
                name="written_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND ((OLD."closed_at" IS NOT NULL AND OLD."closed_at" IS DISTINCT FROM NEW."closed_at") OR (OLD."closed_as" IS NOT NULL AND OLD."closed_as" IS DISTINCT FROM NEW."closed_as") OR (OLD."closed_by_id" IS NOT NULL AND OLD."closed_by_id" IS DISTINCT FROM NEW."closed_by_id")))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'written_once: I6, written once: closed_at, closed_as, closed_by';",
                    hash="0791d799f091955c5443e0b1b72f930ad1e47e53",
                    operation='UPDATE OF "closed_at", "closed_as", "closed_by_id"',
                    pgid="pgtrigger_written_once_5475c",
                    table="fencing_toolchange",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchange",
            trigger=pgtrigger.compiler.Trigger(
                name="tool_change_begins_open",
                sql=fencing.models.triggers.GuardSql(
                    condition="WHEN (NEW.closed_at IS NOT NULL)",
                    declare="DECLARE wrong text;",
                    func="wrong := 'tool_change_begins_open: T1, a change begins open';",
                    hash="e1795162abea53423d25e25a3a81a834a12c490c",
                    operation="INSERT",
                    pgid="pgtrigger_tool_change_begins_open_75b2d",
                    table="fencing_toolchange",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchange",
            trigger=pgtrigger.compiler.Trigger(
                name="tool_change_closes",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nwrong := CASE\n    WHEN (NEW.closed_as = 'approved') IS DISTINCT FROM EXISTS (SELECT FROM fencing_toolversion WHERE change_id = NEW.id)\n        THEN 'tool_change_closes_as_it_went: T1, it is approved where it became a version, and only there'\n    WHEN NEW.closed_as = 'withdrawn' AND NEW.closed_by_id IS DISTINCT FROM NEW.proposer_id\n        THEN 'tool_change_withdrawn_by_its_own: T1, only who proposed a change withdraws it'\nEND;\n",
                    hash="c1ace4d8a51cf0fb5e8a4a166f5dc65ea386fce9",
                    operation='UPDATE OF "closed_as", "closed_by_id"',
                    pgid="pgtrigger_tool_change_closes_324cd",
                    table="fencing_toolchange",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="toolchangeapproval",
            constraint=models.UniqueConstraint(fields=("change", "person"), name="tool_change_approved_once_each"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchangeapproval",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="f947e0a5a118fb458a943e9f7b9ca08ca03e1dee",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_ecb5b",
                    table="fencing_toolchangeapproval",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchangeapproval",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="fb8d6e49dcd91d0a4c0d11b3ae98dcb6365d7475",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_5f9a5",
                    table="fencing_toolchangeapproval",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="toolchangeapproval",
            trigger=pgtrigger.compiler.Trigger(
                name="tool_change_approval",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text; its_change record;",
                    func="\nSELECT proposer_id, digest, expires_at, closed_at INTO its_change\nFROM fencing_toolchange WHERE id = NEW.change_id FOR NO KEY UPDATE;\nwrong := CASE\n    WHEN its_change.proposer_id = NEW.person_id\n        THEN 'tool_change_approved_by_another: T1, who proposed a change does not approve it'\n    WHEN its_change.digest IS DISTINCT FROM NEW.digest\n        THEN 'tool_change_as_shown: T1, another definition was shown'\n    WHEN its_change.closed_at IS NOT NULL OR its_change.expires_at <= clock_timestamp()\n        THEN 'tool_change_open: T1, the change no longer waits'\nEND;\n",
                    hash="91cbe2d68087e3b06405678e85ae9db9d608867c",
                    operation="INSERT",
                    pgid="pgtrigger_tool_change_approval_141aa",
                    table="fencing_toolchangeapproval",
                    when="BEFORE",
                ),
            ),
        ),
    ]
