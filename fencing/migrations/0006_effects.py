"""Observed effects of tools' own ledgers, what would undo them, and deliveries of push tools."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0005_keys"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations: list[migrations.operations.base.Operation] = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="delivery",
            name="delivery_admissible",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="incident",
            name="fixed",
        ),
        migrations.CreateModel(
            name="Compensation",
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
                        choices=[
                            ("proposed", "Proposed"),
                            ("held", "Held"),
                            ("approved", "Approved"),
                            ("in_flight", "In Flight"),
                            ("done", "Done"),
                            ("in_doubt", "In Doubt"),
                            ("waived", "Waived"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="proposed",
                        max_length=9,
                    ),
                ),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("landed_escape", "Landed Escape"),
                            ("doubled", "Doubled"),
                            ("branch_lost", "Branch Lost"),
                            ("requested", "Requested"),
                        ],
                        max_length=13,
                    ),
                ),
                ("tool", fencing.models.fields.ExactCharField(max_length=200)),
                ("registry", models.BigIntegerField()),
                ("needed", models.IntegerField()),
                (
                    "resources",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
                ),
                ("proposed_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("decided_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ObservedEffect",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool", fencing.models.fields.ExactCharField(max_length=200)),
                ("external_id", fencing.models.fields.ExactCharField(max_length=200)),
                ("digest", fencing.models.fields.ExactCharField(max_length=71, null=True)),
                ("idempotency_key", models.CharField(max_length=255, null=True)),
                ("occurred_at", models.DateTimeField(null=True)),
                (
                    "match",
                    models.CharField(
                        choices=[
                            ("intent", "Intent"),
                            ("compensation", "Compensation"),
                            ("escape", "Escape"),
                            ("doubled", "Doubled"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "resources",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[("push", "Push"), ("upload", "Upload"), ("pull", "Pull"), ("record", "Record")],
                        max_length=6,
                    ),
                ),
                ("observed_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("is_open", models.BooleanField()),
                ("adopted_at", models.DateTimeField(null=True)),
                ("adopt_reason", models.TextField(null=True)),
            ],
        ),
        migrations.AlterField(
            model_name="delivery",
            name="by",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AlterField(
            model_name="outcome",
            name="source",
            field=models.CharField(
                choices=[("report", "Report"), ("push", "Push"), ("lease", "Lease"), ("person", "Person")], max_length=6
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="incident",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="compensations",
                to="fencing.incident",
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="intent",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="compensations",
                to="fencing.intent",
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="payload",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.action",
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="run",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="compensations", to="fencing.run"
            ),
        ),
        migrations.AddField(
            model_name="observedeffect",
            name="adopted_by",
            field=models.OneToOneField(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="adopted", to="fencing.intent"
            ),
        ),
        migrations.AddField(
            model_name="observedeffect",
            name="adopter",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="observedeffect",
            name="by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AddField(
            model_name="observedeffect",
            name="delivery",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.delivery",
            ),
        ),
        migrations.AddField(
            model_name="observedeffect",
            name="intent",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="effects", to="fencing.intent"
            ),
        ),
        migrations.AddField(
            model_name="observedeffect",
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
            model_name="observedeffect",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="effects",
                to="fencing.run",
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="effect",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="compensations",
                to="fencing.observedeffect",
            ),
        ),
        migrations.AddField(
            model_name="incident",
            name="effect",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="incidents",
                to="fencing.observedeffect",
            ),
        ),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(condition=models.Q(("state", "open")), fields=["opened_at"], name="incident_open"),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "missing")), fields=("kind", "intent"), name="incident_missing_once"
            ),
        ),
        migrations.AddIndex(
            model_name="observedeffect",
            index=models.Index(
                models.OrderBy(models.F("observed_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                include=("tool", "match"),
                name="effect_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="observedeffect",
            index=models.Index(
                condition=models.Q(("is_open", True), ("match", "escape")), fields=["digest"], name="effect_open_escape"
            ),
        ),
        migrations.AddIndex(
            model_name="observedeffect",
            index=models.Index(
                condition=models.Q(("idempotency_key", None), _negated=True),
                fields=["idempotency_key"],
                name="effect_by_key",
            ),
        ),
        migrations.AddIndex(
            model_name="observedeffect",
            index=django.contrib.postgres.indexes.GinIndex(fields=["resources"], name="effect_by_resource"),
        ),
        migrations.AddConstraint(
            model_name="observedeffect",
            constraint=models.UniqueConstraint(fields=("tool", "external_id"), name="effect_once"),
        ),
        migrations.AddConstraint(
            model_name="observedeffect",
            constraint=models.UniqueConstraint(
                condition=models.Q(("match", "intent")), fields=("intent",), name="effect_of_an_intent_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="observedeffect",
            constraint=models.CheckConstraint(
                condition=models.Q(("match__in", ["intent", "compensation", "escape", "doubled"])),
                name="effect_match_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="observedeffect",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("delivery__isnull", False), ("intent__isnull", False), ("is_open", False), ("match", "intent")
                    ),
                    models.Q(("intent__isnull", True), ("is_open", False), ("match", "compensation")),
                    models.Q(("delivery__isnull", True), ("intent__isnull", True), ("match", "escape")),
                    ("match", "doubled"),
                    _connector="OR",
                ),
                name="effect_matched_with_what_was_delivered",
            ),
        ),
        migrations.AddConstraint(
            model_name="observedeffect",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("adopted_at__isnull", True), ("adopted_by__isnull", True), ("adopter__isnull", True)),
                    models.Q(
                        ("adopt_reason__isnull", False),
                        ("adopted_at__isnull", False),
                        ("adopted_by__isnull", False),
                        ("adopter__isnull", False),
                        ("is_open", False),
                        ("match", "escape"),
                    ),
                    _connector="OR",
                ),
                name="effect_adopted_by_a_person",
            ),
        ),
        migrations.AddIndex(
            model_name="compensation",
            index=models.Index(
                models.OrderBy(models.F("proposed_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                include=("state", "tool"),
                name="compensation_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="compensation",
            index=models.Index(
                condition=models.Q(("state__in", ["approved", "held", "in_doubt", "in_flight", "proposed"])),
                fields=["proposed_at"],
                name="compensation_open",
            ),
        ),
        migrations.AddIndex(
            model_name="compensation",
            index=django.contrib.postgres.indexes.GinIndex(fields=["resources"], name="compensation_by_resource"),
        ),
        migrations.AddConstraint(
            model_name="compensation",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("effect", None), ("state__in", ["approved", "held", "in_doubt", "in_flight", "proposed"])
                ),
                fields=("intent",),
                name="compensation_of_an_intent_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="compensation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["approved", "held", "in_doubt", "in_flight", "proposed"])),
                fields=("effect",),
                name="compensation_of_an_effect_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="compensation",
            constraint=models.CheckConstraint(
                condition=models.Q(("intent__isnull", False), ("effect__isnull", False), _connector="OR"),
                name="compensation_of_an_effect",
            ),
        ),
        migrations.AddConstraint(
            model_name="compensation",
            constraint=models.CheckConstraint(
                condition=models.Q(("needed__gte", 1)), name="compensation_needs_a_person"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="delivery",
            trigger=pgtrigger.compiler.Trigger(
                name="delivery_admissible",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text; is_granted boolean; is_repeated boolean;",
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' THEN\n    wrong := 'delivery_sees_every_vote: N4, deliveries are judged at READ COMMITTED';\nELSE\n    SELECT bool_or(delivery.grant_id IS NOT NULL) INTO is_granted\n    FROM (\n        SELECT commit.step_id, commit.grant_id FROM new_rows AS fresh,\n            LATERAL (SELECT step_id, grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n        ORDER BY commit.step_id OFFSET 0\n    ) AS delivery,\n        LATERAL (SELECT FROM fencing_step WHERE id = delivery.step_id FOR NO KEY UPDATE) AS step;\n    IF is_granted THEN\n        PERFORM FROM (\n            SELECT commit.grant_id FROM new_rows AS fresh,\n                LATERAL (SELECT grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n            ORDER BY commit.grant_id OFFSET 0\n        ) AS delivery,\n            LATERAL (SELECT FROM fencing_grant WHERE id = delivery.grant_id FOR SHARE) AS its;\n    END IF;\n    PERFORM FROM (SELECT intent_id FROM new_rows ORDER BY intent_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_intent WHERE id = delivery.intent_id FOR NO KEY UPDATE) AS intent;\n    PERFORM FROM (SELECT commit_id FROM new_rows ORDER BY commit_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_commit WHERE id = delivery.commit_id FOR SHARE) AS commit;\n\n    SELECT min(CASE\n        WHEN commit.closed_at IS NOT NULL OR step.phase <> 'committed'\n            THEN 'delivery_of_a_standing_commit: I2, the commit does not stand'\n        WHEN (commit.run_id, intent.run_id, commit.intent_id)\n            IS DISTINCT FROM (delivery.run_id, delivery.run_id, delivery.intent_id)\n            THEN 'delivery_of_its_intent: I2, run and intent are those of the commit'\n        WHEN commit.payload_id <> delivery.payload_id\n            THEN 'delivery_of_the_committed_payload: I2, the payload is not the one that was committed'\n        -- L3: a second digest on record, however late, stops what has not left.\n        WHEN votes.diverge THEN 'delivery_one_digest: L3, another digest is on record'\n        WHEN intent.state <> 'ready' THEN 'delivery_when_ready: L3, the intent is ' || intent.state\n        WHEN delivery.number <> coalesce(others.last_number, 0) + 1\n            THEN 'delivery_in_order: L3, the next delivery has the next number'\n        WHEN delivery.by_id IS NOT NULL AND credential.role IS NULL\n            THEN 'delivery_by_a_key: N8, there is no such key'\n        -- T5: this system calls push tools by itself, and no other.\n        WHEN delivery.by_id IS NULL AND pushed.mode IS DISTINCT FROM 'push'\n            THEN 'delivery_by_a_key: N8, a pull tool is called with a gateway''s key'\n        -- L8: the very action happened without authority, and nobody said yet what becomes of that.\n        WHEN escape.is_open THEN 'delivery_beside_no_escape: L8, an escape of this action awaits a person'\n    END), bool_or(others.last_number IS NOT NULL) INTO wrong, is_repeated\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT run_id, state FROM fencing_intent WHERE id = delivery.intent_id LIMIT 1)\n        AS intent ON true\n    LEFT JOIN LATERAL (\n        SELECT max(number) AS last_number FROM fencing_delivery\n        WHERE intent_id = delivery.intent_id AND id <> delivery.id\n    ) AS others ON true\n    LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = delivery.by_id LIMIT 1) AS credential ON true\n    LEFT JOIN LATERAL (\n        SELECT convert_from(definition, 'UTF8')::json ->> 'mode' AS mode FROM fencing_toolversion\n        WHERE delivery.by_id IS NULL AND tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n    ) AS pushed ON true\n    LEFT JOIN LATERAL (\n        SELECT is_open FROM fencing_observedeffect\n        WHERE digest = delivery.payload_id AND match = 'escape' AND is_open LIMIT 1\n    ) AS escape ON true;\nEND IF;\n\n-- G5: authority by grant ends with the grant. F7: unless the late votes of all required paths stand beside it.\nIF wrong IS NULL AND is_granted THEN\n    SELECT min('delivery_under_a_live_grant: G5, the grant that alone authorizes has ended') INTO wrong\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (\n        SELECT revoked_at, voided_at, expired_at, expires_at FROM fencing_grant WHERE id = commit.grant_id LIMIT 1\n    ) AS its ON true\n    LEFT JOIN LATERAL (\n        SELECT required_paths FROM fencing_toolversion\n        WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n    ) AS tool ON true\n    WHERE commit.authority = 'grant' AND (tool.required_paths <@ votes.paths) IS NOT TRUE\n        AND (its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL\n            OR its.expires_at <= clock_timestamp());\nEND IF;\n\nIF wrong IS NULL AND is_repeated THEN\n    SELECT min(CASE\n        -- One try at a time: who has no outcome yet may still be acting.\n        WHEN outcomes.have_ended IS NULL THEN 'delivery_one_at_a_time: L3, another delivery is open'\n        WHEN outcomes.have_succeeded THEN 'delivery_once: I3, the effect has happened'\n        WHEN other.idempotency_key <> delivery.idempotency_key\n            THEN 'delivery_same_key: L5, every try has the same idempotency key'\n        -- L1: what left with other prose has to be settled first.\n        WHEN other.payload_id <> delivery.payload_id AND NOT outcomes.are_definite\n            THEN 'delivery_of_one_payload: L1, another payload of the intent may be out'\n    END) INTO wrong\n    FROM new_rows AS delivery,\n        LATERAL (\n            SELECT id, idempotency_key, payload_id FROM fencing_delivery\n            WHERE intent_id = delivery.intent_id AND id <> delivery.id OFFSET 0\n        ) AS other\n    LEFT JOIN LATERAL (\n        SELECT bool_or(true) AS have_ended, bool_or(outcome = 'succeeded') AS have_succeeded,\n            bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) AS are_definite\n        FROM fencing_outcome WHERE delivery_id = other.id AND is_effective\n    ) AS outcomes ON true;\nEND IF;\n",
                    hash="f6844a736cdd7ff0fa76524869f1eb366e2efbdf",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_delivery_admissible_b7530",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_delivery",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="incident",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."kind" IS DISTINCT FROM NEW."kind" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."step_id" IS DISTINCT FROM NEW."step_id" OR OLD."intent_id" IS DISTINCT FROM NEW."intent_id" OR OLD."effect_id" IS DISTINCT FROM NEW."effect_id" OR OLD."lane" IS DISTINCT FROM NEW."lane" OR OLD."opened_at" IS DISTINCT FROM NEW."opened_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: note, owner, resolution, resolved_at, resolved_by, resources, state';",
                    hash="0cb14c626654917e53e040a74396e9bce92e216b",
                    operation='UPDATE OF "id", "kind", "run_id", "step_id", "intent_id", "effect_id", "lane", "opened_at"',
                    pgid="pgtrigger_fixed_3ff07",
                    table="fencing_incident",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="3330b2253c84b224253abff01b76afa44c29b9ed",
                    operation="DELETE",
                    pgid="pgtrigger_kept_1a782",
                    table="fencing_observedeffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="3dad41e118a6bb4ca89c044be8836e47ec589f60",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_5695c",
                    table="fencing_observedeffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."external_id" IS DISTINCT FROM NEW."external_id" OR OLD."digest" IS DISTINCT FROM NEW."digest" OR OLD."idempotency_key" IS DISTINCT FROM NEW."idempotency_key" OR OLD."occurred_at" IS DISTINCT FROM NEW."occurred_at" OR OLD."match" IS DISTINCT FROM NEW."match" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."intent_id" IS DISTINCT FROM NEW."intent_id" OR OLD."delivery_id" IS DISTINCT FROM NEW."delivery_id" OR OLD."resources" IS DISTINCT FROM NEW."resources" OR OLD."source" IS DISTINCT FROM NEW."source" OR OLD."by_id" IS DISTINCT FROM NEW."by_id" OR OLD."person_id" IS DISTINCT FROM NEW."person_id" OR OLD."observed_at" IS DISTINCT FROM NEW."observed_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: adopt_reason, adopted_at, adopted_by, adopter, is_open';",
                    hash="c7b9bb3d8ff75b2916ceb3210aa3c957a9bdd6de",
                    operation='UPDATE OF "id", "tool", "external_id", "digest", "idempotency_key", "occurred_at", "match", "run_id", "intent_id", "delivery_id", "resources", "source", "by_id", "person_id", "observed_at"',
                    pgid="pgtrigger_fixed_ff00e",
                    table="fencing_observedeffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="written_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND ((OLD."adopted_by_id" IS NOT NULL AND OLD."adopted_by_id" IS DISTINCT FROM NEW."adopted_by_id") OR (OLD."adopted_at" IS NOT NULL AND OLD."adopted_at" IS DISTINCT FROM NEW."adopted_at") OR (OLD."adopter_id" IS NOT NULL AND OLD."adopter_id" IS DISTINCT FROM NEW."adopter_id") OR (OLD."adopt_reason" IS NOT NULL AND OLD."adopt_reason" IS DISTINCT FROM NEW."adopt_reason")))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'written_once: I6, written once: adopted_by, adopted_at, adopter, adopt_reason';",
                    hash="2e032296eea93f9d3abd09906314cac8dcf656dd",
                    operation='UPDATE OF "adopted_by_id", "adopted_at", "adopter_id", "adopt_reason"',
                    pgid="pgtrigger_written_once_7194b",
                    table="fencing_observedeffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="effect_closed_for_good",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((NOT OLD.is_open) AND (OLD."is_open" IS DISTINCT FROM NEW."is_open"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'effect_closed_for_good: L8, what a person made of an escape stays';",
                    hash="c7b161c41d4f59957d531693c044404c18124b45",
                    operation='UPDATE OF "is_open"',
                    pgid="pgtrigger_effect_closed_for_good_2b67a",
                    table="fencing_observedeffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="effects_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'effect:' || match, NULL, count(*), NULL FROM fresh GROUP BY 1;",
                    hash="2cc8d6e1def6c438034b09eb5844368ce66a668a",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_effects_counted_13851",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_observedeffect",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="effect_of_its_delivery",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN (delivery.intent_id, delivery.run_id) IS DISTINCT FROM (effect.intent_id, effect.run_id)\n        THEN 'effect_of_its_delivery: L8, run, intent and delivery are those of one delivery'\nEND) INTO wrong\nFROM new_rows AS effect\nLEFT JOIN LATERAL (SELECT intent_id, run_id FROM fencing_delivery WHERE id = effect.delivery_id LIMIT 1)\n    AS delivery ON true\nWHERE effect.intent_id IS NOT NULL;\n",
                    hash="b4fe2f2bfa1636752d4e4bfa5d90b098bbe502e9",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_effect_of_its_delivery_98f70",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_observedeffect",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="5ef5ae69e1b9e295e7a3011bc5cd4c5e72c55300",
                    operation="DELETE",
                    pgid="pgtrigger_kept_34c48",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="a58f865cbc8bd2f729324231fd9c85c4da726d2e",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_301ac",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."intent_id" IS DISTINCT FROM NEW."intent_id" OR OLD."effect_id" IS DISTINCT FROM NEW."effect_id" OR OLD."incident_id" IS DISTINCT FROM NEW."incident_id" OR OLD."cause" IS DISTINCT FROM NEW."cause" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."registry" IS DISTINCT FROM NEW."registry" OR OLD."resources" IS DISTINCT FROM NEW."resources" OR OLD."proposed_at" IS DISTINCT FROM NEW."proposed_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: decided_at, needed, payload, state';",
                    hash="24cb8fe5b22e4648dc06d71ddf5af6ee3cc0650c",
                    operation='UPDATE OF "id", "run_id", "intent_id", "effect_id", "incident_id", "cause", "tool", "registry", "resources", "proposed_at"',
                    pgid="pgtrigger_fixed_d049f",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="compensation_moves",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.state <> OLD.state AND NOT (CASE OLD.state WHEN 'proposed' THEN NEW.state IN ('held', 'approved', 'done', 'waived', 'withdrawn') WHEN 'held' THEN NEW.state IN ('proposed', 'waived', 'withdrawn') WHEN 'approved' THEN NEW.state IN ('in_flight', 'proposed', 'held', 'withdrawn') WHEN 'in_flight' THEN NEW.state IN ('done', 'approved', 'proposed', 'held', 'withdrawn', 'in_doubt') WHEN 'in_doubt' THEN NEW.state IN ('done', 'proposed', 'held', 'withdrawn') ELSE false END) THEN\n    wrong := 'compensation_moves: P5, a compensation that is ' || OLD.state || ' does not become ' || NEW.state;\nEND IF;\n",
                    hash="f0c42ff6636afc03afa680063442c8023d1012a5",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_compensation_moves_f7232",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
    ]
