"""Speed: running counts with their indexes; guards of statements, and the references that they prove."""

from __future__ import annotations

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [("fencing", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=90)),
                ("hour", models.DateTimeField(null=True)),
                ("by", models.BigIntegerField()),
                ("commit", models.UUIDField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Total",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=90)),
                ("hour", models.DateTimeField()),
                ("count", models.BigIntegerField()),
            ],
        ),
        migrations.AddIndex(
            model_name="intent",
            index=models.Index(
                condition=models.Q(("state__in", ["held", "ready", "in_flight", "in_doubt"])),
                fields=["state"],
                name="intent_unsettled",
            ),
        ),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(condition=models.Q(("phase", "idle")), fields=["opened_at"], name="step_idle"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="acknowledgement",
            trigger=pgtrigger.compiler.Trigger(
                name="acknowledged_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'acknowledged', NULL, count(*), NULL FROM fresh HAVING count(*) > 0;",
                    hash="b33186f666e4f5e63abbabb6484fbc3f6ba7317a",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_acknowledged_counted_48020",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_acknowledgement",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commits_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'commit', NULL, 1, id FROM fresh;",
                    hash="73f29d649ff3fc67b96842149872c51bcdc2cc79",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_commits_counted_c612b",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_commit",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="delivery",
            trigger=pgtrigger.compiler.Trigger(
                name="deliveries_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT CASE WHEN number = 1 THEN 'delivery' ELSE 'delivery:repeated' END, NULL, count(*), NULL FROM fresh GROUP BY 1;",
                    hash="cc188461e4d0cf9e2c5d56e4c8c91028c598dc9e",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_deliveries_counted_fb070",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_delivery",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intents_counted_move",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN ((OLD.state IN ('succeeded', 'failed') OR NEW.state IN ('succeeded', 'failed')) AND (OLD.state IS DISTINCT FROM NEW.state))",
                    func="IF OLD.state IN ('succeeded', 'failed') THEN INSERT INTO public.fencing_change (name, hour, by) VALUES ('intent:settled', NULL, -1); END IF; IF NEW.state IN ('succeeded', 'failed') THEN INSERT INTO public.fencing_change (name, hour, by) VALUES ('intent:settled', NULL, 1); END IF;",
                    hash="cb3cc8556d0e15b3e26cd7e31cd0f85f697227df",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_intents_counted_move_e252c",
                    table="fencing_intent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intents_counted_begin",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN (NEW.state IN ('succeeded', 'failed'))",
                    func="INSERT INTO public.fencing_change (name, hour, by) VALUES ('intent:settled', NULL, 1);",
                    hash="0232cd3aae9cb5c84a9bb38779e6a042138d3942",
                    operation="INSERT",
                    pgid="pgtrigger_intents_counted_begin_9cbe6",
                    table="fencing_intent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="sidelogrow",
            trigger=pgtrigger.compiler.Trigger(
                name="side_log_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'side_log:' || kind || ':' || reason, to_timestamp(floor(extract(epoch FROM recorded_at) / 3600) * 3600), count(*), NULL FROM fresh GROUP BY 1, 2;",
                    hash="3a53b777f5073f2735051f1e19eca1f825ed809f",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_side_log_counted_a7ef2",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_sidelogrow",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="step",
            trigger=pgtrigger.compiler.Trigger(
                name="steps_counted_move",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN ((OLD.phase IN ('committed', 'rejected', 'exempt') OR NEW.phase IN ('committed', 'rejected', 'exempt')) AND (OLD.phase IS DISTINCT FROM NEW.phase OR OLD.decided_at IS DISTINCT FROM NEW.decided_at))",
                    func="IF OLD.phase IN ('committed', 'rejected', 'exempt') THEN INSERT INTO public.fencing_change (name, hour, by) VALUES ('step:' || OLD.phase, to_timestamp(floor(extract(epoch FROM OLD.decided_at) / 3600) * 3600), -1); END IF; IF NEW.phase IN ('committed', 'rejected', 'exempt') THEN INSERT INTO public.fencing_change (name, hour, by) VALUES ('step:' || NEW.phase, to_timestamp(floor(extract(epoch FROM NEW.decided_at) / 3600) * 3600), 1); END IF;",
                    hash="91deca695d110e8e5bc34adc660caad4d6608a43",
                    operation='UPDATE OF "phase", "decided_at"',
                    pgid="pgtrigger_steps_counted_move_1fa46",
                    table="fencing_step",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="step",
            trigger=pgtrigger.compiler.Trigger(
                name="steps_counted_begin",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN (NEW.phase IN ('committed', 'rejected', 'exempt'))",
                    func="INSERT INTO public.fencing_change (name, hour, by) VALUES ('step:' || NEW.phase, to_timestamp(floor(extract(epoch FROM NEW.decided_at) / 3600) * 3600), 1);",
                    hash="a7d3e27695e527e3839de2ad5598ab08b9430913",
                    operation="INSERT",
                    pgid="pgtrigger_steps_counted_begin_3184e",
                    table="fencing_step",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="total",
            constraint=models.UniqueConstraint(fields=("name", "hour"), name="total_once"),
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="commit",
            name="commit_admissible",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="commit",
            name="commit_gains_agreement",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="commit",
            name="commit_closes_before_admission",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="commit",
            name="commit_takes_a_use",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="delivery",
            name="delivery_admissible",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="intent",
            name="intent_payload_fixed",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="outcome",
            name="outcome_of_its_delivery",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="vote",
            name="vote_beside_nothing",
        ),
        migrations.AlterField(
            model_name="claim",
            name="intent",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="fencing.intent",
            ),
        ),
        migrations.AlterField(
            model_name="claim",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="claim",
            name="step",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="fencing.step",
            ),
        ),
        migrations.AlterField(
            model_name="commit",
            name="grant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="commits",
                to="fencing.grant",
            ),
        ),
        migrations.AlterField(
            model_name="commit",
            name="intent",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="commits",
                to="fencing.intent",
            ),
        ),
        migrations.AlterField(
            model_name="commit",
            name="payload",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.action",
            ),
        ),
        migrations.AlterField(
            model_name="commit",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="commits",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="commit",
            name="step",
            field=models.OneToOneField(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="commit",
                to="fencing.step",
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="by",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="commit",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="fencing.commit",
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="intent",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="fencing.intent",
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="payload",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.action",
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="feedevent",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="feedevent",
            name="step",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.step",
            ),
        ),
        migrations.AlterField(
            model_name="intent",
            name="outcome",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.outcome",
            ),
        ),
        migrations.AlterField(
            model_name="intent",
            name="payload",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.action",
            ),
        ),
        migrations.AlterField(
            model_name="intent",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="intents",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="outcome",
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
            name="delivery",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="outcomes",
                to="fencing.delivery",
            ),
        ),
        migrations.AlterField(
            model_name="outcome",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="step",
            name="pinned_payload",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.action",
            ),
        ),
        migrations.AlterField(
            model_name="step",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="steps",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="vote",
            name="by",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AlterField(
            model_name="vote",
            name="payload",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.action",
            ),
        ),
        migrations.AlterField(
            model_name="vote",
            name="run",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.run",
            ),
        ),
        migrations.AlterField(
            model_name="vote",
            name="step",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="votes",
                to="fencing.step",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="claim",
            trigger=pgtrigger.compiler.Trigger(
                name="claim_in_its_run",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN step.run_id IS DISTINCT FROM claim.run_id THEN 'claim_in_its_run: N2, the step lies in another run'\n    WHEN intent.state IS NULL THEN 'claim_of_an_intent: L1, there is no such intent'\nEND) INTO wrong\nFROM new_rows AS claim\nLEFT JOIN LATERAL (SELECT run_id FROM fencing_step WHERE id = claim.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (SELECT state FROM fencing_intent WHERE id = claim.intent_id LIMIT 1) AS intent ON true;\n",
                    hash="404b653ea0407f233ab31cd0ff100b5d84eead25",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_claim_in_its_run_02e71",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_claim",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commit_admissible",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text; is_granted boolean;",
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' THEN\n    wrong := 'commit_sees_every_vote: N4, commits are judged at READ COMMITTED';\nELSE\n    SELECT bool_or(commit.grant_id IS NOT NULL) INTO is_granted\n    FROM (SELECT step_id, grant_id FROM new_rows ORDER BY step_id OFFSET 0) AS commit,\n        LATERAL (SELECT FROM fencing_step WHERE id = commit.step_id FOR NO KEY UPDATE) AS step;\n\n    SELECT min(CASE\n        WHEN (step.run_id, step.name, step.epoch) IS DISTINCT FROM (commit.run_id, commit.step_name, commit.epoch)\n            THEN 'commit_of_its_step: K1, run, step and epoch are those of the step'\n        -- F4: from these phases alone a commit may come.\n        WHEN step.phase NOT IN ('proposed', 'agreed', 'fenced')\n            THEN 'commit_of_an_undecided_step: F4, the step is ' || step.phase\n        -- F3 row 1: visible divergence beats everything, a grant too.\n        WHEN votes.paths IS NULL THEN 'commit_one_digest: I1, nobody voted'\n        WHEN votes.diverge OR step.pinned_digest <> commit.fence_digest\n            THEN 'commit_one_digest: I1, another digest is on record'\n        WHEN votes.name_another_tool OR step.pinned_tool <> commit.tool\n            THEN 'commit_one_digest: I1, another tool is on record'\n        -- F3 rows 1a and 1b.\n        WHEN tool.is_read_only IS NULL\n            THEN 'commit_of_a_known_tool: T1, the tool was not registered when the step was proposed'\n        WHEN tool.is_read_only THEN 'commit_of_an_effect: T2, what only reads is exempt from the fence'\n        WHEN votes.are_faulty THEN 'commit_without_fault: F6, a vote named what can never be committed'\n        -- C6: the payload is an action of that tool ...\n        WHEN payload.tool IS DISTINCT FROM commit.tool\n            THEN 'commit_payload: C6, the payload is no action of the tool'\n        -- ... which the digest that was voted fixes wholly where nothing is advisory, ...\n        WHEN commit.payload_id <> commit.fence_digest AND NOT coalesce(json_array_length(convert_from(tool.definition, 'UTF8')::json -> 'advisory'), 0) > 0\n            THEN 'commit_payload: C6, the payload is not what was voted'\n        -- ... and which else comes from the trusted path, or under a grant from the granted one (below).\n        WHEN commit.authority = 'agreement' AND array_position(votes.payload_paths, tool.trusted_path) IS NULL\n            AND coalesce(json_array_length(convert_from(tool.definition, 'UTF8')::json -> 'advisory'), 0) > 0\n            THEN 'commit_payload: C6, the payload is not the trusted path''s'\n        -- F3 row 2.\n        WHEN commit.authority IN ('agreement', 'both') AND NOT tool.required_paths <@ votes.paths\n            THEN 'commit_by_agreement: I1, a required path did not vote'\n        -- L1: the intent is that of its key, for this very effect.\n        WHEN (intent.run_id, intent.key, intent.fence_digest)\n            IS DISTINCT FROM (commit.run_id, commit.key, commit.fence_digest)\n            THEN 'commit_of_its_intent: L1, the intent is of another run, key or digest'\n    END) INTO wrong\n    FROM new_rows AS commit\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, name, epoch, phase, registry, pinned_digest, pinned_tool\n    FROM fencing_step WHERE id = commit.step_id LIMIT 1\n) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT is_read_only, required_paths, trusted_path, grant_approvals, max_grant_ttl_s, definition\n    FROM fencing_toolversion WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n) AS tool ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge,\n        bool_or(vote.tool <> commit.tool) AS name_another_tool,\n        bool_or(fault IS NOT NULL) AS are_faulty,\n        array_agg(path) AS paths,\n        array_agg(path) FILTER (WHERE payload_id = commit.payload_id) AS payload_paths\n    FROM fencing_vote AS vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = commit.payload_id LIMIT 1)\n        AS payload ON true\n    LEFT JOIN LATERAL (SELECT run_id, key, fence_digest FROM fencing_intent WHERE id = commit.intent_id LIMIT 1)\n        AS intent ON true;\nEND IF;\n\n-- F3 row 3, G2. The clock is read after the grants' locks: a grant that died while this waited is dead.\nIF wrong IS NULL AND is_granted THEN\n    PERFORM FROM (SELECT grant_id FROM new_rows WHERE grant_id IS NOT NULL ORDER BY grant_id OFFSET 0) AS commit,\n        LATERAL (SELECT FROM fencing_grant WHERE id = commit.grant_id FOR NO KEY UPDATE) AS its;\n\n    SELECT min(CASE\n        WHEN (its.run_id, its.epoch) IS DISTINCT FROM (commit.run_id, commit.epoch)\n            OR its.step_name <> commit.step_name OR its.tool <> commit.tool OR its.digest <> commit.fence_digest\n            THEN 'commit_in_the_grants_scope: G1, the grant is for something else'\n        WHEN its.epoch < run.epoch\n            THEN 'commit_in_the_grants_scope: G2, the epoch of the grant is closed'\n        WHEN NOT its.path = ANY (votes.paths)\n            THEN 'commit_in_the_grants_scope: G1, the granted path did not vote'\n        WHEN its.path <> tool.trusted_path AND its.digest IS NULL\n            THEN 'commit_in_the_grants_scope: G1, a witness acts only with the digest that it may commit'\n        WHEN commit.payload_id <> commit.fence_digest AND array_position(votes.payload_paths, its.path) IS NULL\n            THEN 'commit_payload: C6, the payload is not the granted path''s'\n        WHEN its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL\n            OR its.live_at IS NULL OR its.expires_at <= clock_timestamp()\n            THEN 'commit_under_a_live_grant: G2, the grant is not live'\n        WHEN its.ttl_s > tool.max_grant_ttl_s\n            THEN 'commit_under_a_live_grant: G1, the grant lives longer than the tool allows'\n        -- G6: the issuer is the first of the people that the tool asks for.\n        WHEN tool.grant_approvals > 1 + approvals.count\n            THEN 'commit_under_a_live_grant: G6, the grant is not approved as often as the tool asks'\n    END) INTO wrong\n    FROM (SELECT * FROM new_rows WHERE grant_id IS NOT NULL OFFSET 0) AS commit\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, name, epoch, phase, registry, pinned_digest, pinned_tool\n    FROM fencing_step WHERE id = commit.step_id LIMIT 1\n) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT is_read_only, required_paths, trusted_path, grant_approvals, max_grant_ttl_s, definition\n    FROM fencing_toolversion WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n) AS tool ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge,\n        bool_or(vote.tool <> commit.tool) AS name_another_tool,\n        bool_or(fault IS NOT NULL) AS are_faulty,\n        array_agg(path) AS paths,\n        array_agg(path) FILTER (WHERE payload_id = commit.payload_id) AS payload_paths\n    FROM fencing_vote AS vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT * FROM fencing_grant WHERE id = commit.grant_id LIMIT 1) AS its ON true\n    LEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = commit.run_id LIMIT 1) AS run ON true\n    LEFT JOIN LATERAL (SELECT count(*) FROM fencing_grantapproval WHERE grant_id = commit.grant_id)\n        AS approvals ON true;\nEND IF;\n",
                    hash="0a584e7ae80ae930e477fa29ea05bd8b870795ec",
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
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commit_gains_agreement",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (OLD.authority IS DISTINCT FROM NEW.authority)",
                    declare="DECLARE wrong text; its_votes record; its_paths varchar[];",
                    func="\nPERFORM 1 FROM fencing_step WHERE id = NEW.step_id FOR NO KEY UPDATE;\nSELECT bool_or(digest <> NEW.fence_digest) AS diverge, array_agg(path) AS paths INTO its_votes\nFROM fencing_vote WHERE step_id = NEW.step_id AND digest IS NOT NULL;\nSELECT required_paths INTO its_paths FROM fencing_toolversion\nWHERE tool = NEW.tool AND id <= (SELECT registry FROM fencing_step WHERE id = NEW.step_id) ORDER BY id DESC LIMIT 1;\nIF OLD.authority <> 'grant' OR NEW.authority <> 'both' OR its_votes.diverge OR NOT its_paths <@ its_votes.paths\n    OR current_setting('transaction_isolation') <> 'read committed'\nTHEN\n    wrong := 'commit_gains_agreement: F7, only the late votes of every required path add to a grant';\nEND IF;\n",
                    hash="8d15c3a4ca5b63e4dfe91937de6b830ca937d83e",
                    operation='UPDATE OF "authority"',
                    pgid="pgtrigger_commit_gains_agreement_70208",
                    table="fencing_commit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commit_closes_before_admission",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL)",
                    declare="DECLARE wrong text;",
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' OR EXISTS (\n    SELECT FROM fencing_delivery AS delivery WHERE commit_id = NEW.id AND (\n    SELECT bool_or(outcome = 'succeeded') IS TRUE\n        OR bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) IS NOT TRUE\n    FROM fencing_outcome WHERE delivery_id = delivery.id AND is_effective\n)\n) THEN\n    wrong := 'commit_closes_before_admission: F8, the effect of the commit may be out';\nEND IF;\n",
                    hash="fbdd754f286f1e56e9c65a72f6526be8378b0cba",
                    operation='UPDATE OF "closed_at"',
                    pgid="pgtrigger_commit_closes_before_admission_3b1c8",
                    table="fencing_commit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commit_takes_a_use",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (NEW.grant_id IS NOT NULL)",
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text;",
                    func="\n                IF NOT EXISTS (SELECT FROM fencing_grantuse WHERE commit_id = NEW.id AND grant_id = NEW.grant_id) THEN\n                    wrong := 'commit_takes_a_use: G3, a commit under a grant takes a use of it';\n                END IF;\n                ",
                    hash="b2f79c07e0b0155bdb0c24478832f466549b50f9",
                    operation="INSERT",
                    pgid="pgtrigger_commit_takes_a_use_f6dce",
                    table="fencing_commit",
                    timing="DEFERRABLE INITIALLY DEFERRED",
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
                    func="\nIF current_setting('transaction_isolation') <> 'read committed' THEN\n    wrong := 'delivery_sees_every_vote: N4, deliveries are judged at READ COMMITTED';\nELSE\n    SELECT bool_or(delivery.grant_id IS NOT NULL) INTO is_granted\n    FROM (\n        SELECT commit.step_id, commit.grant_id FROM new_rows AS fresh,\n            LATERAL (SELECT step_id, grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n        ORDER BY commit.step_id OFFSET 0\n    ) AS delivery,\n        LATERAL (SELECT FROM fencing_step WHERE id = delivery.step_id FOR NO KEY UPDATE) AS step;\n    IF is_granted THEN\n        PERFORM FROM (\n            SELECT commit.grant_id FROM new_rows AS fresh,\n                LATERAL (SELECT grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit\n            ORDER BY commit.grant_id OFFSET 0\n        ) AS delivery,\n            LATERAL (SELECT FROM fencing_grant WHERE id = delivery.grant_id FOR SHARE) AS its;\n    END IF;\n    PERFORM FROM (SELECT intent_id FROM new_rows ORDER BY intent_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_intent WHERE id = delivery.intent_id FOR NO KEY UPDATE) AS intent;\n    PERFORM FROM (SELECT commit_id FROM new_rows ORDER BY commit_id OFFSET 0) AS delivery,\n        LATERAL (SELECT FROM fencing_commit WHERE id = delivery.commit_id FOR SHARE) AS commit;\n\n    SELECT min(CASE\n        WHEN commit.closed_at IS NOT NULL OR step.phase <> 'committed'\n            THEN 'delivery_of_a_standing_commit: I2, the commit does not stand'\n        WHEN (commit.run_id, intent.run_id, commit.intent_id)\n            IS DISTINCT FROM (delivery.run_id, delivery.run_id, delivery.intent_id)\n            THEN 'delivery_of_its_intent: I2, run and intent are those of the commit'\n        WHEN commit.payload_id <> delivery.payload_id\n            THEN 'delivery_of_the_committed_payload: I2, the payload is not the one that was committed'\n        -- L3: a second digest on record, however late, stops what has not left.\n        WHEN votes.diverge THEN 'delivery_one_digest: L3, another digest is on record'\n        WHEN intent.state <> 'ready' THEN 'delivery_when_ready: L3, the intent is ' || intent.state\n        WHEN delivery.number <> coalesce(others.last_number, 0) + 1\n            THEN 'delivery_in_order: L3, the next delivery has the next number'\n        WHEN credential.role IS NULL THEN 'delivery_by_a_key: N8, there is no such key'\n    END), bool_or(others.last_number IS NOT NULL) INTO wrong, is_repeated\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (SELECT run_id, state FROM fencing_intent WHERE id = delivery.intent_id LIMIT 1)\n        AS intent ON true\n    LEFT JOIN LATERAL (\n        SELECT max(number) AS last_number FROM fencing_delivery\n        WHERE intent_id = delivery.intent_id AND id <> delivery.id\n    ) AS others ON true\n    LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = delivery.by_id LIMIT 1) AS credential ON true;\nEND IF;\n\n-- G5: authority by grant ends with the grant. F7: unless the late votes of all required paths stand beside it.\nIF wrong IS NULL AND is_granted THEN\n    SELECT min('delivery_under_a_live_grant: G5, the grant that alone authorizes has ended') INTO wrong\n    FROM new_rows AS delivery\n    \nLEFT JOIN LATERAL (\n    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at\n    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1\n) AS commit ON true\nLEFT JOIN LATERAL (SELECT phase, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths\n    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL\n) AS votes ON true\n\n    LEFT JOIN LATERAL (\n        SELECT revoked_at, voided_at, expired_at, expires_at FROM fencing_grant WHERE id = commit.grant_id LIMIT 1\n    ) AS its ON true\n    LEFT JOIN LATERAL (\n        SELECT required_paths FROM fencing_toolversion\n        WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1\n    ) AS tool ON true\n    WHERE commit.authority = 'grant' AND (tool.required_paths <@ votes.paths) IS NOT TRUE\n        AND (its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL\n            OR its.expires_at <= clock_timestamp());\nEND IF;\n\nIF wrong IS NULL AND is_repeated THEN\n    SELECT min(CASE\n        -- One try at a time: who has no outcome yet may still be acting.\n        WHEN outcomes.have_ended IS NULL THEN 'delivery_one_at_a_time: L3, another delivery is open'\n        WHEN outcomes.have_succeeded THEN 'delivery_once: I3, the effect has happened'\n        WHEN other.idempotency_key <> delivery.idempotency_key\n            THEN 'delivery_same_key: L5, every try has the same idempotency key'\n        -- L1: what left with other prose has to be settled first.\n        WHEN other.payload_id <> delivery.payload_id AND NOT outcomes.are_definite\n            THEN 'delivery_of_one_payload: L1, another payload of the intent may be out'\n    END) INTO wrong\n    FROM new_rows AS delivery,\n        LATERAL (\n            SELECT id, idempotency_key, payload_id FROM fencing_delivery\n            WHERE intent_id = delivery.intent_id AND id <> delivery.id OFFSET 0\n        ) AS other\n    LEFT JOIN LATERAL (\n        SELECT bool_or(true) AS have_ended, bool_or(outcome = 'succeeded') AS have_succeeded,\n            bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) AS are_definite\n        FROM fencing_outcome WHERE delivery_id = other.id AND is_effective\n    ) AS outcomes ON true;\nEND IF;\n",
                    hash="9818503478f89c87a572d726129df10ae00c58ec",
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
            model_name="feedevent",
            trigger=pgtrigger.compiler.Trigger(
                name="feed_in_its_run",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min('feed_in_its_run: N2, the step lies in another run') INTO wrong\nFROM new_rows AS line\nLEFT JOIN LATERAL (SELECT run_id FROM fencing_step WHERE id = line.step_id LIMIT 1) AS step ON true\nWHERE step.run_id IS DISTINCT FROM line.run_id;\n",
                    hash="d273fc4440033344d4350816316a91f81a24c67c",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_feed_in_its_run_b1be7",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_feedevent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intent_in_its_run",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN run.epoch IS NULL THEN 'intent_in_its_run: L1, there is no such run'\n    WHEN intent.payload_id IS NOT NULL AND action.tool IS NULL\n        THEN 'intent_payload_stored: C7, the action is not stored'\n    WHEN intent.outcome_id IS NOT NULL THEN 'intent_outcome_recorded: L5, a new intent has no outcome'\nEND) INTO wrong\nFROM new_rows AS intent\nLEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = intent.run_id LIMIT 1) AS run ON true\nLEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = intent.payload_id LIMIT 1) AS action ON true;\n",
                    hash="442d0dc4edf0495203c96bd382684377d6823fc7",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_intent_in_its_run_b54c4",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_intent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intent_payload_fixed",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN intent.payload_id IS NOT NULL AND action.tool IS NULL\n        THEN 'intent_payload_stored: C7, the action is not stored'\n    WHEN other.may_be_out THEN 'intent_payload_fixed: L1, another payload of the intent may be out'\nEND) INTO wrong\nFROM (SELECT id, payload_id FROM new_rows EXCEPT SELECT id, payload_id FROM old_rows) AS intent\nLEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = intent.payload_id LIMIT 1) AS action ON true\nLEFT JOIN LATERAL (\n    SELECT bool_or((\n    SELECT bool_or(outcome = 'succeeded') IS TRUE\n        OR bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) IS NOT TRUE\n    FROM fencing_outcome WHERE delivery_id = delivery.id AND is_effective\n)) AS may_be_out FROM fencing_delivery AS delivery\n    WHERE intent_id = intent.id AND payload_id IS DISTINCT FROM intent.payload_id\n) AS other ON true;\nIF wrong IS NULL THEN\n    SELECT min('intent_outcome_recorded: L5, there is no such outcome') INTO wrong\n    FROM new_rows AS intent\n    LEFT JOIN LATERAL (SELECT outcome FROM fencing_outcome WHERE id = intent.outcome_id LIMIT 1) AS told ON true\n    WHERE intent.outcome_id IS NOT NULL AND told.outcome IS NULL;\nEND IF;\n",
                    hash="f3ae704764e7d813ea8f6188ce6ad6f1d059173a",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_intent_payload_fixed_b047b",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="fencing_intent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="outcome",
            trigger=pgtrigger.compiler.Trigger(
                name="outcome_of_its_delivery",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN delivery.run_id IS DISTINCT FROM outcome.run_id\n        THEN 'outcome_of_its_delivery: I2, an outcome belongs to a delivery of its run'\n    WHEN outcome.by_id IS NOT NULL AND credential.role IS NULL THEN 'outcome_by_a_key: N8, there is no such key'\nEND) INTO wrong\nFROM new_rows AS outcome\nLEFT JOIN LATERAL (SELECT run_id FROM fencing_delivery WHERE id = outcome.delivery_id LIMIT 1) AS delivery ON true\nLEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = outcome.by_id LIMIT 1) AS credential ON true;\n",
                    hash="5de7e1a4e13b835b2d70884db1e3c1078854a27e",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_outcome_of_its_delivery_32f9d",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_outcome",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="step",
            trigger=pgtrigger.compiler.Trigger(
                name="step_in_its_run",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nSELECT min(CASE\n    WHEN run.epoch IS NULL THEN 'step_in_its_run: R1, there is no such run'\n    WHEN step.pinned_payload_id IS NOT NULL AND action.tool IS NULL\n        THEN 'step_action_stored: C7, the action is not stored'\nEND) INTO wrong\nFROM new_rows AS step\nLEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = step.run_id LIMIT 1) AS run ON true\nLEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = step.pinned_payload_id LIMIT 1)\n    AS action ON true;\n",
                    hash="ac366432c9aa65f923be6fa69f441a807311c95a",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_step_in_its_run_4d908",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_step",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="step",
            trigger=pgtrigger.compiler.Trigger(
                name="step_action_stored",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (OLD.pinned_payload_id IS DISTINCT FROM NEW.pinned_payload_id)",
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.pinned_payload_id IS NOT NULL\n    AND NOT EXISTS (SELECT FROM fencing_action WHERE payload_digest = NEW.pinned_payload_id)\nTHEN\n    wrong := 'step_action_stored: C7, the action is not stored';\nEND IF;\n",
                    hash="f8f64781ffa7287e74f0aee4171202608d94b409",
                    operation='UPDATE OF "pinned_payload_id"',
                    pgid="pgtrigger_step_action_stored_a3d38",
                    table="fencing_step",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="vote",
            trigger=pgtrigger.compiler.Trigger(
                name="vote_beside_nothing",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\n-- F9, design 10: the lock under which commits and deliveries are judged, so that a vote comes before or after one. What\n-- is read of a step is read with its lock.\nSELECT min(CASE\n    WHEN step.run_id IS DISTINCT FROM vote.run_id THEN 'vote_in_its_run: N2, the step lies in another run'\n    WHEN step.phase = 'idle' THEN 'vote_on_a_proposal: F6, the step has no proposal'\n    WHEN vote.payload_id IS NOT NULL AND action.tool IS NULL THEN 'vote_of_an_action: C7, the action is not stored'\n    WHEN credential.role IS NULL THEN 'vote_by_a_key: N8, there is no such key'\nEND) INTO wrong\nFROM (SELECT run_id, step_id, payload_id, by_id FROM new_rows ORDER BY step_id OFFSET 0) AS vote\nLEFT JOIN LATERAL (SELECT run_id, phase FROM fencing_step WHERE id = vote.step_id FOR NO KEY UPDATE) AS step ON true\nLEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = vote.payload_id LIMIT 1) AS action ON true\nLEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = vote.by_id LIMIT 1) AS credential ON true;\n",
                    hash="54beb983d3d836dfebc3ad2f80f3c3fa30390ef8",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_vote_beside_nothing_2981d",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_vote",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="intent",
            index=models.Index(
                models.OrderBy(models.F("opened_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                include=("state", "tool", "run"),
                name="intent_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                models.F("owner_group"),
                models.OrderBy(models.F("opened_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="run_of_group",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commits_counted_both",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN (OLD.authority IS DISTINCT FROM NEW.authority AND NEW.authority = 'both')",
                    func="INSERT INTO public.fencing_change (name, hour, by, commit)"
                    " VALUES ('commit:both', NULL, 1, NEW.id);",
                    hash="739969c6a38e060f092c0eeef6d774ecee83fb63",
                    operation='UPDATE OF "authority"',
                    pgid="pgtrigger_commits_counted_both_847c3",
                    table="fencing_commit",
                    when="AFTER",
                ),
            ),
        ),
    ]
