"""Circuit breakers of push tools; a push tool is told by its registered mode."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0009_grades"),
    ]
    operations: list[migrations.operations.base.Operation] = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="delivery",
            name="delivery_admissible",
        ),
        migrations.CreateModel(
            name="Breaker",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool", fencing.models.fields.ExactCharField(max_length=200, unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("closed", "Closed"), ("open", "Open"), ("probing", "Probing")],
                        default="closed",
                        max_length=7,
                    ),
                ),
                ("faults", models.IntegerField(default=0)),
                ("until", models.DateTimeField(null=True)),
                ("says", models.TextField(default="")),
                ("tokens", models.FloatField(default=0)),
                ("tokens_at", models.DateTimeField(null=True)),
                ("changed_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.AddConstraint(
            model_name="breaker",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["closed", "open", "probing"])), name="breaker_state_known"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="delivery",
            trigger=pgtrigger.compiler.Trigger(
                name="delivery_admissible",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text; is_granted boolean; is_repeated boolean;",
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' THEN\n    wrong := 'delivery_sees_every_vote: N4, deliveries are judged at READ COMMITTED';\nELSE\n    SELECT bool_or(delivery.grant_id IS NOT NULL) INTO is_granted\n    FROM (\n        SELECT commit.step_id, commit.grant_id FROM new_rows AS fresh,\n            LATERAL (SELECT step_id, grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n        ORDER BY commit.step_id OFFSET 0\n    ) AS delivery,\n        LATERAL (SELECT FROM fencing_step WHERE id = delivery.step_id FOR NO KEY UPDATE) AS step;\n    IF is_granted THEN\n        PERFORM FROM (\n            SELECT commit.grant_id FROM new_rows AS fresh,\n                LATERAL (SELECT grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n            ORDER BY commit.grant_id OFFSET 0\n        ) AS delivery,\n            LATERAL (SELECT FROM fencing_grant WHERE id = delivery.grant_id FOR SHARE) AS its;\n    END IF;\n    PERFORM FROM (SELECT intent_id FROM new_rows ORDER BY intent_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_intent WHERE id = delivery.intent_id FOR NO KEY UPDATE) AS intent;\n    PERFORM FROM (SELECT commit_id FROM new_rows ORDER BY commit_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_commit WHERE id = delivery.commit_id FOR SHARE) AS commit;\n\n    SELECT min(CASE\n        WHEN commit.closed_at IS NOT NULL OR step.phase <> 'committed'\n            THEN 'delivery_of_a_standing_commit: I2, the commit does not stand'\n        WHEN (commit.run_id, intent.run_id, commit.intent_id)\n            IS DISTINCT FROM (delivery.run_id, delivery.run_id, delivery.intent_id)\n            THEN 'delivery_of_its_intent: I2, run and intent are those of the commit'\n        WHEN commit.payload_id <> delivery.payload_id\n            THEN 'delivery_of_the_committed_payload: I2, the payload is not the one that was committed'\n        -- L3: a second digest on record, however late, stops what has not left.\n        WHEN votes.diverge THEN 'delivery_one_digest: L3, another digest is on record'\n        WHEN intent.state <> 'ready' THEN 'delivery_when_ready: L3, the intent is ' || intent.state\n        WHEN delivery.number <> coalesce(others.last_number, 0) + 1\n            THEN 'delivery_in_order: L3, the next delivery has the next number'\n        WHEN delivery.by_id IS NOT NULL AND credential.role IS NULL\n            THEN 'delivery_by_a_key: N8, there is no such key'\n        -- T5: this system calls push tools by itself, and no other.\n        WHEN delivery.by_id IS NULL AND pushed.mode IS DISTINCT FROM 'push'\n            THEN 'delivery_by_a_key: N8, a pull tool is called with a gateway''s key'\n        -- L8: the very action happened without authority, and nobody said yet what becomes of that.\n        WHEN escape.is_open THEN 'delivery_beside_no_escape: L8, an escape of this action awaits a person'\n    END), bool_or(others.last_number IS NOT NULL) INTO wrong, is_repeated\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT run_id, state, registry FROM fencing_intent WHERE id = delivery.intent_id LIMIT 1)\n        AS intent ON true\n    LEFT JOIN LATERAL (\n        SELECT max(number) AS last_number FROM fencing_delivery\n        WHERE intent_id = delivery.intent_id AND id <> delivery.id\n    ) AS others ON true\n    LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = delivery.by_id LIMIT 1) AS credential ON true\n    LEFT JOIN LATERAL (\n        SELECT mode FROM fencing_toolversion\n        WHERE delivery.by_id IS NULL AND tool = commit.tool AND id <= intent.registry ORDER BY id DESC LIMIT 1\n    ) AS pushed ON true\n    LEFT JOIN LATERAL (\n        SELECT is_open FROM fencing_observedeffect\n        WHERE digest = delivery.payload_id AND match = 'escape' AND is_open LIMIT 1\n    ) AS escape ON true;\nEND IF;\n\n-- G5: authority by grant ends with the grant. F7: unless the late votes of all required paths stand beside it.\nIF wrong IS NULL AND is_granted THEN\n    SELECT min('delivery_under_a_live_grant: G5, the grant that alone authorizes has ended') INTO wrong\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (\n        SELECT revoked_at, voided_at, expired_at, expires_at FROM fencing_grant WHERE id = commit.grant_id LIMIT 1\n    ) AS its ON true\n    LEFT JOIN LATERAL (\n        SELECT required_paths FROM fencing_toolversion\n        WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n    ) AS tool ON true\n    WHERE commit.authority = 'grant' AND (tool.required_paths <@ votes.paths) IS NOT TRUE\n        AND (its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL\n            OR its.expires_at <= clock_timestamp());\nEND IF;\n\nIF wrong IS NULL AND is_repeated THEN\n    SELECT min(CASE\n        -- One try at a time: who has no outcome yet may still be acting.\n        WHEN outcomes.have_ended IS NULL THEN 'delivery_one_at_a_time: L3, another delivery is open'\n        WHEN outcomes.have_succeeded THEN 'delivery_once: I3, the effect has happened'\n        WHEN other.idempotency_key <> delivery.idempotency_key\n            THEN 'delivery_same_key: L5, every try has the same idempotency key'\n        -- L1: what left with other prose has to be settled first.\n        WHEN other.payload_id <> delivery.payload_id AND NOT outcomes.are_definite\n            THEN 'delivery_of_one_payload: L1, another payload of the intent may be out'\n    END) INTO wrong\n    FROM new_rows AS delivery,\n        LATERAL (\n            SELECT id, idempotency_key, payload_id FROM fencing_delivery\n            WHERE intent_id = delivery.intent_id AND id <> delivery.id OFFSET 0\n        ) AS other\n    LEFT JOIN LATERAL (\n        SELECT bool_or(true) AS have_ended, bool_or(outcome = 'succeeded') AS have_succeeded,\n            bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) AS are_definite\n        FROM fencing_outcome WHERE delivery_id = other.id AND is_effective\n    ) AS outcomes ON true;\nEND IF;\n",
                    hash="94c0db02cbd2240d1d173b914c059a4193fc1209",
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
            model_name="breaker",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="4137acb89b489ea5a6516eae8a8843ef18d3c2be",
                    operation="DELETE",
                    pgid="pgtrigger_kept_e3b79",
                    table="fencing_breaker",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="breaker",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="637013907f110e9760b61f854ecefa5970b0d9dd",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_636c4",
                    table="fencing_breaker",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="breaker",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."tool" IS DISTINCT FROM NEW."tool"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: changed_at, faults, says, state, tokens, tokens_at, until';",
                    hash="a2c0eeee41d47bdf5cdeb2293f203efe1113bb18",
                    operation='UPDATE OF "id", "tool"',
                    pgid="pgtrigger_fixed_f8171",
                    table="fencing_breaker",
                    when="BEFORE",
                ),
            ),
        ),
    ]
