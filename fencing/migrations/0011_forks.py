"""Forks and their branches, and the guards that ask them."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0010_deliver"),
    ]

    operations = [
        migrations.CreateModel(
            name="Branch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", fencing.models.fields.ExactCharField(max_length=200)),
                ("place", models.IntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[("undecided", "Undecided"), ("won", "Won"), ("lost", "Lost")],
                        default="undecided",
                        max_length=9,
                    ),
                ),
                ("decided_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Fork",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", fencing.models.fields.ExactCharField(max_length=200)),
                ("content_digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("opened_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("deadline_at", models.DateTimeField(null=True)),
                ("reconciled_at", models.DateTimeField(null=True)),
                ("winner", fencing.models.fields.ExactCharField(max_length=200, null=True)),
                ("answer", models.JSONField(null=True)),
            ],
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="commit",
            name="commit_admissible",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="delivery",
            name="delivery_admissible",
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commit_admissible",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text; is_granted boolean;",
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' THEN\n    wrong := 'commit_sees_every_vote: N4, commits are judged at READ COMMITTED';\nELSE\n    SELECT bool_or(commit.grant_id IS NOT NULL) INTO is_granted\n    FROM (SELECT step_id, grant_id FROM new_rows ORDER BY step_id OFFSET 0) AS commit,\n        LATERAL (SELECT FROM fencing_step WHERE id = commit.step_id FOR NO KEY UPDATE) AS step;\n\n    SELECT min(CASE\n        WHEN (step.run_id, step.name, step.epoch) IS DISTINCT FROM (commit.run_id, commit.step_name, commit.epoch)\n            THEN 'commit_of_its_step: K1, run, step and epoch are those of the step'\n        -- F4: from these phases alone a commit may come.\n        WHEN step.phase NOT IN ('proposed', 'agreed', 'fenced')\n            THEN 'commit_of_an_undecided_step: F4, the step is ' || step.phase\n        -- F3 row 1: visible divergence beats everything, a grant too.\n        WHEN votes.paths IS NULL THEN 'commit_one_digest: I1, nobody voted'\n        WHEN votes.diverge OR step.pinned_digest <> commit.fence_digest\n            THEN 'commit_one_digest: I1, another digest is on record'\n        WHEN votes.name_another_tool OR step.pinned_tool <> commit.tool\n            THEN 'commit_one_digest: I1, another tool is on record'\n        -- F3 rows 1a and 1b.\n        WHEN tool.is_read_only IS NULL\n            THEN 'commit_of_a_known_tool: T1, the tool was not registered when the step was proposed'\n        WHEN tool.is_read_only THEN 'commit_of_an_effect: T2, what only reads is exempt from the fence'\n        WHEN votes.are_faulty THEN 'commit_without_fault: F6, a vote named what can never be committed'\n        -- C6: the payload is an action of that tool ...\n        WHEN payload.tool IS DISTINCT FROM commit.tool\n            THEN 'commit_payload: C6, the payload is no action of the tool'\n        -- ... which the digest that was voted fixes wholly where nothing is advisory, ...\n        WHEN commit.payload_id <> commit.fence_digest AND NOT coalesce(json_array_length(convert_from(tool.definition, 'UTF8')::json -> 'advisory'), 0) > 0\n            THEN 'commit_payload: C6, the payload is not what was voted'\n        -- ... and which else comes from the trusted path, or under a grant from the granted one (below).\n        WHEN commit.authority = 'agreement' AND array_position(votes.payload_paths, tool.trusted_path) IS NULL\n            AND coalesce(json_array_length(convert_from(tool.definition, 'UTF8')::json -> 'advisory'), 0) > 0\n            THEN 'commit_payload: C6, the payload is not the trusted path''s'\n        -- F3 row 2.\n        WHEN commit.authority IN ('agreement', 'both') AND NOT tool.required_paths <@ votes.paths\n            THEN 'commit_by_agreement: I1, a required path did not vote'\n        -- F4, B3: in a branch that may act, or with a tool whose effects can be undone.\n        WHEN (step.branch IS NOT NULL AND (\nWITH RECURSIVE upward AS (\n    SELECT branch.state, fork.parent_id FROM fencing_branch AS branch\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n    WHERE branch.run_id = step.run_id AND branch.name = step.branch\n    UNION ALL\n    SELECT branch.state, fork.parent_id FROM upward\n        JOIN fencing_branch AS branch ON branch.id = upward.parent_id\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n)\n SELECT bool_and(state = 'won' OR tool.is_optimistic AND state <> 'lost') FROM upward) IS NOT TRUE) THEN 'commit_when_its_branch_may_act: B3, the branch has not won'\n        -- L1: the intent is that of its key, for this very effect.\n        WHEN (intent.run_id, intent.key, intent.fence_digest)\n            IS DISTINCT FROM (commit.run_id, commit.key, commit.fence_digest)\n            THEN 'commit_of_its_intent: L1, the intent is of another run, key or digest'\n    END) INTO wrong\n    FROM new_rows AS commit\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, name, epoch, phase, branch, registry, pinned_digest, pinned_tool\n    FROM fencing_step WHERE id = commit.step_id LIMIT 1\n) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT is_read_only, is_optimistic, required_paths, trusted_path, grant_approvals, max_grant_ttl_s, definition\n    FROM fencing_toolversion WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n) AS tool ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge,\n        bool_or(vote.tool <> commit.tool) AS name_another_tool,\n        bool_or(fault IS NOT NULL) AS are_faulty,\n        array_agg(path) AS paths,\n        array_agg(path) FILTER (WHERE payload_id = commit.payload_id) AS payload_paths\n    FROM fencing_vote AS vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = commit.payload_id LIMIT 1)\n        AS payload ON true\n    LEFT JOIN LATERAL (SELECT run_id, key, fence_digest FROM fencing_intent WHERE id = commit.intent_id LIMIT 1)\n        AS intent ON true;\nEND IF;\n\n-- F3 row 3, G2. The clock is read after the grants' locks: a grant that died while this waited is dead.\nIF wrong IS NULL AND is_granted THEN\n    PERFORM FROM (SELECT grant_id FROM new_rows WHERE grant_id IS NOT NULL ORDER BY grant_id OFFSET 0) AS commit,\n        LATERAL (SELECT FROM fencing_grant WHERE id = commit.grant_id FOR NO KEY UPDATE) AS its;\n\n    SELECT min(CASE\n        WHEN (its.run_id, its.epoch) IS DISTINCT FROM (commit.run_id, commit.epoch)\n            OR its.step_name <> commit.step_name OR its.tool <> commit.tool OR its.digest <> commit.fence_digest\n            THEN 'commit_in_the_grants_scope: G1, the grant is for something else'\n        WHEN its.epoch < run.epoch\n            THEN 'commit_in_the_grants_scope: G2, the epoch of the grant is closed'\n        WHEN NOT its.path = ANY (votes.paths)\n            THEN 'commit_in_the_grants_scope: G1, the granted path did not vote'\n        WHEN its.path <> tool.trusted_path AND its.digest IS NULL\n            THEN 'commit_in_the_grants_scope: G1, a witness acts only with the digest that it may commit'\n        WHEN commit.payload_id <> commit.fence_digest AND array_position(votes.payload_paths, its.path) IS NULL\n            THEN 'commit_payload: C6, the payload is not the granted path''s'\n        WHEN its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL\n            OR its.live_at IS NULL OR its.expires_at <= clock_timestamp()\n            THEN 'commit_under_a_live_grant: G2, the grant is not live'\n        WHEN its.ttl_s > tool.max_grant_ttl_s\n            THEN 'commit_under_a_live_grant: G1, the grant lives longer than the tool allows'\n        -- G6: the issuer is the first of the people that the tool asks for.\n        WHEN tool.grant_approvals > 1 + approvals.count\n            THEN 'commit_under_a_live_grant: G6, the grant is not approved as often as the tool asks'\n    END) INTO wrong\n    FROM (SELECT * FROM new_rows WHERE grant_id IS NOT NULL OFFSET 0) AS commit\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, name, epoch, phase, branch, registry, pinned_digest, pinned_tool\n    FROM fencing_step WHERE id = commit.step_id LIMIT 1\n) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT is_read_only, is_optimistic, required_paths, trusted_path, grant_approvals, max_grant_ttl_s, definition\n    FROM fencing_toolversion WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n) AS tool ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge,\n        bool_or(vote.tool <> commit.tool) AS name_another_tool,\n        bool_or(fault IS NOT NULL) AS are_faulty,\n        array_agg(path) AS paths,\n        array_agg(path) FILTER (WHERE payload_id = commit.payload_id) AS payload_paths\n    FROM fencing_vote AS vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT * FROM fencing_grant WHERE id = commit.grant_id LIMIT 1) AS its ON true\n    LEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = commit.run_id LIMIT 1) AS run ON true\n    LEFT JOIN LATERAL (SELECT count(*) FROM fencing_grantapproval WHERE grant_id = commit.grant_id)\n        AS approvals ON true;\nEND IF;\n",
                    hash="f57c7d702dc58d5f516bfcc36459d167695e71f6",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_commit_admissible_fce3b",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_commit",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="delivery",
            trigger=pgtrigger.compiler.Trigger(
                name="delivery_admissible",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text; is_granted boolean; is_repeated boolean;",
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' THEN\n    wrong := 'delivery_sees_every_vote: N4, deliveries are judged at READ COMMITTED';\nELSE\n    SELECT bool_or(delivery.grant_id IS NOT NULL) INTO is_granted\n    FROM (\n        SELECT commit.step_id, commit.grant_id FROM new_rows AS fresh,\n            LATERAL (SELECT step_id, grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n        ORDER BY commit.step_id OFFSET 0\n    ) AS delivery,\n        LATERAL (SELECT FROM fencing_step WHERE id = delivery.step_id FOR NO KEY UPDATE) AS step;\n    IF is_granted THEN\n        PERFORM FROM (\n            SELECT commit.grant_id FROM new_rows AS fresh,\n                LATERAL (SELECT grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n            ORDER BY commit.grant_id OFFSET 0\n        ) AS delivery,\n            LATERAL (SELECT FROM fencing_grant WHERE id = delivery.grant_id FOR SHARE) AS its;\n    END IF;\n    PERFORM FROM (SELECT intent_id FROM new_rows ORDER BY intent_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_intent WHERE id = delivery.intent_id FOR NO KEY UPDATE) AS intent;\n    PERFORM FROM (SELECT commit_id FROM new_rows ORDER BY commit_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_commit WHERE id = delivery.commit_id FOR SHARE) AS commit;\n\n    SELECT min(CASE\n        WHEN commit.closed_at IS NOT NULL OR step.phase <> 'committed'\n            THEN 'delivery_of_a_standing_commit: I2, the commit does not stand'\n        WHEN (commit.run_id, intent.run_id, commit.intent_id)\n            IS DISTINCT FROM (delivery.run_id, delivery.run_id, delivery.intent_id)\n            THEN 'delivery_of_its_intent: I2, run and intent are those of the commit'\n        WHEN commit.payload_id <> delivery.payload_id\n            THEN 'delivery_of_the_committed_payload: I2, the payload is not the one that was committed'\n        WHEN (step.branch IS NOT NULL AND (\nWITH RECURSIVE upward AS (\n    SELECT branch.state, fork.parent_id FROM fencing_branch AS branch\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n    WHERE branch.run_id = commit.run_id AND branch.name = step.branch\n    UNION ALL\n    SELECT branch.state, fork.parent_id FROM upward\n        JOIN fencing_branch AS branch ON branch.id = upward.parent_id\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n)\n SELECT bool_and(state <> 'lost') FROM upward) IS NOT TRUE) THEN 'delivery_of_no_lost_branch: B4, the branch is lost'\n        -- L3: a second digest on record, however late, stops what has not left.\n        WHEN votes.diverge THEN 'delivery_one_digest: L3, another digest is on record'\n        WHEN intent.state <> 'ready' THEN 'delivery_when_ready: L3, the intent is ' || intent.state\n        WHEN delivery.number <> coalesce(others.last_number, 0) + 1\n            THEN 'delivery_in_order: L3, the next delivery has the next number'\n        WHEN delivery.by_id IS NOT NULL AND credential.role IS NULL\n            THEN 'delivery_by_a_key: N8, there is no such key'\n        -- T5: this system calls push tools by itself, and no other.\n        WHEN delivery.by_id IS NULL AND pushed.mode IS DISTINCT FROM 'push'\n            THEN 'delivery_by_a_key: N8, a pull tool is called with a gateway''s key'\n        -- L8: the very action happened without authority, and nobody said yet what becomes of that.\n        WHEN escape.is_open THEN 'delivery_beside_no_escape: L8, an escape of this action awaits a person'\n    END), bool_or(others.last_number IS NOT NULL) INTO wrong, is_repeated\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, branch, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT run_id, state, registry FROM fencing_intent WHERE id = delivery.intent_id LIMIT 1)\n        AS intent ON true\n    LEFT JOIN LATERAL (\n        SELECT max(number) AS last_number FROM fencing_delivery\n        WHERE intent_id = delivery.intent_id AND id <> delivery.id\n    ) AS others ON true\n    LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = delivery.by_id LIMIT 1) AS credential ON true\n    LEFT JOIN LATERAL (\n        SELECT mode FROM fencing_toolversion\n        WHERE delivery.by_id IS NULL AND tool = commit.tool AND id <= intent.registry ORDER BY id DESC LIMIT 1\n    ) AS pushed ON true\n    LEFT JOIN LATERAL (\n        SELECT is_open FROM fencing_observedeffect\n        WHERE digest = delivery.payload_id AND match = 'escape' AND is_open LIMIT 1\n    ) AS escape ON true;\nEND IF;\n\n-- G5: authority by grant ends with the grant. F7: unless the late votes of all required paths stand beside it.\nIF wrong IS NULL AND is_granted THEN\n    SELECT min('delivery_under_a_live_grant: G5, the grant that alone authorizes has ended') INTO wrong\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, branch, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (\n        SELECT revoked_at, voided_at, expired_at, expires_at FROM fencing_grant WHERE id = commit.grant_id LIMIT 1\n    ) AS its ON true\n    LEFT JOIN LATERAL (\n        SELECT required_paths FROM fencing_toolversion\n        WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n    ) AS tool ON true\n    WHERE commit.authority = 'grant' AND (tool.required_paths <@ votes.paths) IS NOT TRUE\n        AND (its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL\n            OR its.expires_at <= clock_timestamp());\nEND IF;\n\nIF wrong IS NULL AND is_repeated THEN\n    SELECT min(CASE\n        -- One try at a time: who has no outcome yet may still be acting.\n        WHEN outcomes.have_ended IS NULL THEN 'delivery_one_at_a_time: L3, another delivery is open'\n        WHEN outcomes.have_succeeded THEN 'delivery_once: I3, the effect has happened'\n        WHEN other.idempotency_key <> delivery.idempotency_key\n            THEN 'delivery_same_key: L5, every try has the same idempotency key'\n        -- L1: what left with other prose has to be settled first.\n        WHEN other.payload_id <> delivery.payload_id AND NOT outcomes.are_definite\n            THEN 'delivery_of_one_payload: L1, another payload of the intent may be out'\n    END) INTO wrong\n    FROM new_rows AS delivery,\n        LATERAL (\n            SELECT id, idempotency_key, payload_id FROM fencing_delivery\n            WHERE intent_id = delivery.intent_id AND id <> delivery.id OFFSET 0\n        ) AS other\n    LEFT JOIN LATERAL (\n        SELECT bool_or(true) AS have_ended, bool_or(outcome = 'succeeded') AS have_succeeded,\n            bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) AS are_definite\n        FROM fencing_outcome WHERE delivery_id = other.id AND is_effective\n    ) AS outcomes ON true;\nEND IF;\n",
                    hash="021e7e3cc9ec5bc4719fbecb0d3f185681a12b93",
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
            model_name="step",
            trigger=pgtrigger.compiler.Trigger(
                name="step_in_a_living_branch",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (NEW.branch IS NOT NULL)",
                    declare="DECLARE wrong text;",
                    func="\nPERFORM FROM fencing_branch WHERE run_id = NEW.run_id AND name = NEW.branch FOR SHARE;\nIF (NEW.branch IS NOT NULL AND (\nWITH RECURSIVE upward AS (\n    SELECT branch.state, fork.parent_id FROM fencing_branch AS branch\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n    WHERE branch.run_id = NEW.run_id AND branch.name = NEW.branch\n    UNION ALL\n    SELECT branch.state, fork.parent_id FROM upward\n        JOIN fencing_branch AS branch ON branch.id = upward.parent_id\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n)\n SELECT bool_and(state <> 'lost') FROM upward) IS NOT TRUE) THEN\n    wrong := 'step_in_a_living_branch: B4, the branch is lost or not there';\nEND IF;\n",
                    hash="a8ffbae4bd0698e480d7230e3dd7b4fcfec8eaa6",
                    operation="INSERT",
                    pgid="pgtrigger_step_in_a_living_branch_1cd4c",
                    table="fencing_step",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddField(
            model_name="branch",
            name="run",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="branches", to="fencing.run"
            ),
        ),
        migrations.AddField(
            model_name="fork",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="fork",
            name="parent",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="forks", to="fencing.branch"
            ),
        ),
        migrations.AddField(
            model_name="fork",
            name="reconciled_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AddField(
            model_name="fork",
            name="run",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="forks", to="fencing.run"
            ),
        ),
        migrations.AddField(
            model_name="branch",
            name="fork",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="branches", to="fencing.fork"
            ),
        ),
        migrations.AddIndex(
            model_name="fork",
            index=models.Index(
                condition=models.Q(("deadline_at__isnull", False), ("reconciled_at__isnull", True)),
                fields=["deadline_at"],
                name="fork_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="fork",
            constraint=models.UniqueConstraint(fields=("run", "name"), name="fork_once"),
        ),
        migrations.AddConstraint(
            model_name="fork",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("reconciled_at__isnull", False),
                    models.Q(
                        ("answer__isnull", True),
                        ("reconciled_at__isnull", True),
                        ("reconciled_by__isnull", True),
                        ("winner__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="fork_winner_by_reconciliation",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fork",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="d1310494dda2df1828f1f98570146628bf5b14fe",
                    operation="DELETE",
                    pgid="pgtrigger_kept_64434",
                    table="fencing_fork",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fork",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="951ec51b406362db9d18675a000af897dc8a13b5",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_5df22",
                    table="fencing_fork",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fork",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."parent_id" IS DISTINCT FROM NEW."parent_id" OR OLD."content_digest" IS DISTINCT FROM NEW."content_digest" OR OLD."by_id" IS DISTINCT FROM NEW."by_id" OR OLD."opened_at" IS DISTINCT FROM NEW."opened_at" OR OLD."deadline_at" IS DISTINCT FROM NEW."deadline_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: answer, reconciled_at, reconciled_by, winner';",
                    hash="60206fab40f6c1387b3a04c1278195bd52a1386c",
                    operation='UPDATE OF "id", "run_id", "name", "parent_id", "content_digest", "by_id", "opened_at", "deadline_at"',
                    pgid="pgtrigger_fixed_2b04b",
                    table="fencing_fork",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fork",
            trigger=pgtrigger.compiler.Trigger(
                name="fork_reconciled_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((OLD.reconciled_at IS NOT NULL) AND (OLD."reconciled_at" IS DISTINCT FROM NEW."reconciled_at" OR OLD."winner" IS DISTINCT FROM NEW."winner" OR OLD."reconciled_by_id" IS DISTINCT FROM NEW."reconciled_by_id" OR OLD."answer" IS DISTINCT FROM NEW."answer"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fork_reconciled_once: B2, a fork is reconciled once';",
                    hash="6bcf8b7a0d1e982f4e7c39c0549276e60b4bd9e1",
                    operation='UPDATE OF "reconciled_at", "winner", "reconciled_by_id", "answer"',
                    pgid="pgtrigger_fork_reconciled_once_4c519",
                    table="fencing_fork",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fork",
            trigger=pgtrigger.compiler.Trigger(
                name="fork_in_its_run",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.parent_id IS NOT NULL THEN\n    PERFORM FROM fencing_branch WHERE id = NEW.parent_id FOR SHARE;\n    SELECT CASE\n        WHEN parent.run_id IS DISTINCT FROM NEW.run_id\n            THEN 'fork_in_its_run: B1, the fork lies in a branch of another run'\n        WHEN (parent.name IS NOT NULL AND (\nWITH RECURSIVE upward AS (\n    SELECT branch.state, fork.parent_id FROM fencing_branch AS branch\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n    WHERE branch.run_id = NEW.run_id AND branch.name = parent.name\n    UNION ALL\n    SELECT branch.state, fork.parent_id FROM upward\n        JOIN fencing_branch AS branch ON branch.id = upward.parent_id\n        JOIN fencing_fork AS fork ON fork.id = branch.fork_id\n)\n SELECT bool_and(state <> 'lost') FROM upward) IS NOT TRUE)\n            THEN 'fork_in_no_lost_branch: B4, the branch is lost'\n    END INTO wrong\n    FROM (SELECT run_id, name FROM fencing_branch WHERE id = NEW.parent_id LIMIT 1) AS parent;\nEND IF;\n",
                    hash="5707df97d4900c4aba4ed8b38a8724d135178fff",
                    operation="INSERT",
                    pgid="pgtrigger_fork_in_its_run_ea232",
                    table="fencing_fork",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fork",
            trigger=pgtrigger.compiler.Trigger(
                name="fork_of_branches",
                sql=fencing.models.triggers.LookupGuardSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text;",
                    func="\nIF (SELECT count(*) FROM fencing_branch WHERE fork_id = NEW.id) < 2 THEN\n    wrong := 'fork_of_branches: B1, a fork has two branches or more';\nEND IF;\n",
                    hash="5ade2954bcd4ef6a986454ba3534cc3175a91ae7",
                    operation="INSERT",
                    pgid="pgtrigger_fork_of_branches_3d76c",
                    table="fencing_fork",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="branch",
            index=models.Index(models.F("run"), models.F("fork"), models.F("place"), name="branch_of_run"),
        ),
        migrations.AddConstraint(
            model_name="branch",
            constraint=models.UniqueConstraint(fields=("run", "name"), name="branch_once"),
        ),
        migrations.AddConstraint(
            model_name="branch",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "won")), fields=("fork",), name="branch_wins_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="branch",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["undecided", "won", "lost"])), name="branch_state_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="branch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at__isnull", True), ("state", "undecided")),
                    models.Q(("decided_at__isnull", False), ("state__in", ["won", "lost"])),
                    _connector="OR",
                ),
                name="branch_decided_at_a_moment",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="branch",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="b1b1f3728faf1b4fa68cf4f1998dd849a5b15a5c",
                    operation="DELETE",
                    pgid="pgtrigger_kept_4575b",
                    table="fencing_branch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="branch",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="bca8299857e8b90ae47f5251b1f389515302ba37",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_47442",
                    table="fencing_branch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="branch",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."fork_id" IS DISTINCT FROM NEW."fork_id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."place" IS DISTINCT FROM NEW."place"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: decided_at, state';",
                    hash="16d744d6728dd186e90930c8a0b76623b88a2f9a",
                    operation='UPDATE OF "id", "run_id", "fork_id", "name", "place"',
                    pgid="pgtrigger_fixed_fbcb0",
                    table="fencing_branch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="branch",
            trigger=pgtrigger.compiler.Trigger(
                name="branch_moves",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.state <> OLD.state AND NOT (CASE OLD.state WHEN 'undecided' THEN NEW.state IN ('won', 'lost') WHEN 'won' THEN NEW.state IN ('lost') ELSE false END) THEN\n    wrong := 'branch_moves: B2, a branch that is ' || OLD.state || ' does not become ' || NEW.state;\nEND IF;\n",
                    hash="fcebd4e59838bdab1b3acbd89a26265856919e39",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_branch_moves_f8789",
                    table="fencing_branch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="branch",
            trigger=pgtrigger.compiler.Trigger(
                name="branch_in_its_run",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT CASE\n    WHEN fork.run_id IS DISTINCT FROM NEW.run_id THEN 'branch_in_its_run: B1, the fork lies in another run'\n    WHEN fork.reconciled_at IS NOT NULL THEN 'branch_of_an_open_fork: B2, the fork is reconciled'\n    WHEN NEW.state <> 'undecided' THEN 'branch_begins_undecided: B2, a branch is decided by a reconciliation'\nEND INTO wrong\nFROM (SELECT 1) AS nothing\nLEFT JOIN LATERAL (SELECT run_id, reconciled_at FROM fencing_fork WHERE id = NEW.fork_id LIMIT 1) AS fork ON true;\n",
                    hash="a3da07e6b40fa9416fcce8a5f5363460b8d5727e",
                    operation="INSERT",
                    pgid="pgtrigger_branch_in_its_run_0f1e4",
                    table="fencing_branch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="branch",
            trigger=pgtrigger.compiler.Trigger(
                name="branch_decided_by_its_fork",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN branch.state = 'won' AND (fork.reconciled_at IS NULL OR fork.winner IS DISTINCT FROM branch.name)\n        THEN 'branch_decided_by_its_fork: B2, the fork was not reconciled with this winner'\n    WHEN branch.state = 'lost' AND parent.state IS DISTINCT FROM 'lost'\n        AND (fork.reconciled_at IS NULL OR fork.winner IS NOT DISTINCT FROM branch.name)\n        THEN 'branch_decided_by_its_fork: B4, neither its fork nor what it lies in made it lose'\nEND) INTO wrong\nFROM new_rows AS branch\nLEFT JOIN LATERAL (SELECT winner, parent_id, reconciled_at FROM fencing_fork WHERE id = branch.fork_id LIMIT 1)\n    AS fork ON true\nLEFT JOIN LATERAL (SELECT state FROM fencing_branch WHERE id = fork.parent_id LIMIT 1) AS parent ON true;\n",
                    hash="9ef3ad9c1cd476997660ac55cd65cbc761a8a2f4",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_branch_decided_by_its_fork_099d8",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="fencing_branch",
                    when="AFTER",
                ),
            ),
        ),
    ]
