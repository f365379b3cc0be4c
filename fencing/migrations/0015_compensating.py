"""Compensations: who approved what, the token of an approval, its one delivery, and what became of it."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0014_forgotten"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CompensationApproval",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("round", models.IntegerField()),
                ("digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("reason", models.TextField()),
                ("approved_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="CompensationDelivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.IntegerField()),
                ("idempotency_key", models.CharField(max_length=80)),
                ("lease_until", models.DateTimeField()),
                ("admitted_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="CompensationOutcome",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("unknown", "Unknown"),
                            ("busy", "Busy"),
                            ("not_sent", "Not Sent"),
                            ("not_happened", "Not Happened"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[("report", "Report"), ("push", "Push"), ("lease", "Lease"), ("person", "Person")],
                        max_length=6,
                    ),
                ),
                ("is_effective", models.BooleanField()),
                ("response", models.BinaryField(null=True)),
                ("retry_after_s", models.FloatField(null=True)),
                ("evidence", models.TextField(null=True)),
                ("recorded_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="CompensationRelease",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("round", models.IntegerField()),
                ("key", fencing.models.fields.ExactCharField(max_length=200)),
                ("token", models.TextField()),
                ("kid", models.CharField(max_length=64)),
                ("released_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="commit",
            name="fixed",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="compensation",
            name="fixed",
        ),
        migrations.AddField(
            model_name="compensation",
            name="decider",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="due_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="effect_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="evidence",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="external_id",
            field=fencing.models.fields.ExactCharField(max_length=200, null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="not_before",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="reason",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="request_reason",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="compensation",
            name="requester",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="compensation",
            name="round",
            field=models.IntegerField(default=1),
        ),
        migrations.AddField(
            model_name="compensation",
            name="seen_digest",
            field=fencing.models.fields.ExactCharField(max_length=71, null=True),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."step_id" IS DISTINCT FROM NEW."step_id" OR OLD."step_name" IS DISTINCT FROM NEW."step_name" OR OLD."epoch" IS DISTINCT FROM NEW."epoch" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."payload_id" IS DISTINCT FROM NEW."payload_id" OR OLD."fence_digest" IS DISTINCT FROM NEW."fence_digest" OR OLD."key" IS DISTINCT FROM NEW."key" OR OLD."grant_id" IS DISTINCT FROM NEW."grant_id" OR OLD."token" IS DISTINCT FROM NEW."token" OR OLD."kid" IS DISTINCT FROM NEW."kid" OR OLD."committed_at" IS DISTINCT FROM NEW."committed_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: authority, closed_at, closed_reason, intent';",
                    hash="56e74eb70d7ef1ac024edf60af9b1e0e1bac76cd",
                    operation='UPDATE OF "id", "run_id", "step_id", "step_name", "epoch", "tool", "payload_id", "fence_digest", "key", "grant_id", "token", "kid", "committed_at"',
                    pgid="pgtrigger_fixed_55b4d",
                    table="fencing_commit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="commit",
            trigger=pgtrigger.compiler.Trigger(
                name="commit_moves_on",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (OLD.intent_id IS DISTINCT FROM NEW.intent_id)",
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.closed_at IS NOT NULL\n    OR EXISTS (SELECT FROM fencing_delivery WHERE commit_id = NEW.id)\n    OR NOT EXISTS (SELECT FROM fencing_compensation\n        WHERE intent_id = OLD.intent_id AND effect_id IS NULL AND state IN ('in_flight', 'in_doubt', 'done'))\n    OR NOT EXISTS (\n        SELECT FROM (SELECT * FROM fencing_intent WHERE id = OLD.intent_id LIMIT 1) AS before,\n            LATERAL (SELECT * FROM fencing_intent WHERE id = NEW.intent_id LIMIT 1) AS after\n        WHERE (after.run_id, after.key, after.fence_digest, after.generation)\n            = (before.run_id, before.key, before.fence_digest, before.generation + 1))\nTHEN\n    wrong := 'commit_moves_on: B6, only to the next generation of an effect that is undone';\nEND IF;\n",
                    hash="56bcb0ee30e89bccd5635dae9cd3d01e22c83bf7",
                    operation='UPDATE OF "intent_id"',
                    pgid="pgtrigger_commit_moves_on_bebb4",
                    table="fencing_commit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."intent_id" IS DISTINCT FROM NEW."intent_id" OR OLD."effect_id" IS DISTINCT FROM NEW."effect_id" OR OLD."incident_id" IS DISTINCT FROM NEW."incident_id" OR OLD."cause" IS DISTINCT FROM NEW."cause" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."registry" IS DISTINCT FROM NEW."registry" OR OLD."resources" IS DISTINCT FROM NEW."resources" OR OLD."proposed_at" IS DISTINCT FROM NEW."proposed_at" OR OLD."effect_at" IS DISTINCT FROM NEW."effect_at" OR OLD."requester_id" IS DISTINCT FROM NEW."requester_id" OR OLD."request_reason" IS DISTINCT FROM NEW."request_reason"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: decided_at, decider, due_at, evidence, external_id, needed, not_before, payload, reason, round, seen_digest, state';",
                    hash="d1caad5dcf35a2f5db1b905ad3e7935f2ccbe822",
                    operation='UPDATE OF "id", "run_id", "intent_id", "effect_id", "incident_id", "cause", "tool", "registry", "resources", "proposed_at", "effect_at", "requester_id", "request_reason"',
                    pgid="pgtrigger_fixed_d049f",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="compensation_decided",
                sql=fencing.models.triggers.LookupGuardSql(
                    condition="WHEN (NEW.state IN ('approved', 'done') AND NEW.state <> OLD.state)",
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.state = 'approved' AND NEW.needed > (SELECT count(*) FROM fencing_compensationapproval\n    WHERE compensation_id = NEW.id AND round = NEW.round AND digest = NEW.payload_id)\nTHEN\n    wrong := 'compensation_decided: P3, fewer people approved than the tool asks for';\nELSIF NEW.state = 'done' AND OLD.state = 'proposed' AND (NEW.payload_id IS NOT NULL OR NEW.evidence IS NULL) THEN\n    wrong := 'compensation_decided: P6, only what has no compensator is done by hand, with evidence';\nEND IF;\n",
                    hash="e4f4d11badf3cf7116101420398c2e22315c9cd0",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_compensation_decided_e0555",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="compensation_rounds_grow",
                sql=fencing.models.triggers.GuardSql(
                    condition="WHEN (NEW.round < OLD.round)",
                    declare="DECLARE wrong text;",
                    func="wrong := 'compensation_rounds_grow: P4, approvals that lapsed count no more';",
                    hash="da5ad2801c0e03021c8a969075a27683e1830c8e",
                    operation='UPDATE OF "round"',
                    pgid="pgtrigger_compensation_rounds_grow_599d8",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="compensation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "waived"), _negated=True),
                    models.Q(("decider__isnull", False), ("reason__isnull", False)),
                    _connector="OR",
                ),
                name="compensation_waived_with_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="compensation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cause", "requested"), _negated=True),
                    models.Q(("request_reason__isnull", False), ("requester__isnull", False)),
                    _connector="OR",
                ),
                name="compensation_requested_with_a_reason",
            ),
        ),
        migrations.AddField(
            model_name="compensationapproval",
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
            model_name="compensationapproval",
            name="compensation",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="approvals",
                to="fencing.compensation",
            ),
        ),
        migrations.AddField(
            model_name="compensationapproval",
            name="person",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="compensationdelivery",
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
            model_name="compensationdelivery",
            name="compensation",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="deliveries", to="fencing.compensation"
            ),
        ),
        migrations.AddField(
            model_name="compensationdelivery",
            name="payload",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.action"
            ),
        ),
        migrations.AddField(
            model_name="compensationoutcome",
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
            model_name="compensationoutcome",
            name="delivery",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="outcomes", to="fencing.compensationdelivery"
            ),
        ),
        migrations.AddField(
            model_name="compensationoutcome",
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
            model_name="compensationrelease",
            name="compensation",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="releases",
                to="fencing.compensation",
            ),
        ),
        migrations.AddField(
            model_name="compensationrelease",
            name="payload",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.action"
            ),
        ),
        migrations.AddField(
            model_name="compensationdelivery",
            name="release",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="fencing.compensationrelease",
            ),
        ),
        migrations.AddConstraint(
            model_name="compensationapproval",
            constraint=models.UniqueConstraint(
                fields=("compensation", "round", "person"), name="compensation_approved_once"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationapproval",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="10f317414003a6584829c572a13551691927b940",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_5e6c3",
                    table="fencing_compensationapproval",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationapproval",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="49bbec1f7fb55fa6cbc90c5102df8d73050470df",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_a186c",
                    table="fencing_compensationapproval",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationapproval",
            trigger=pgtrigger.compiler.Trigger(
                name="approval_of_what_was_shown",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;\nSELECT CASE\n    WHEN act.state <> 'proposed' THEN 'approval_in_time: P3, the compensation is ' || act.state\n    WHEN act.round <> NEW.round THEN 'approval_in_time: P4, earlier approvals lapsed'\n    WHEN act.payload_id IS DISTINCT FROM NEW.digest THEN 'approval_of_what_was_shown: P2, something else would be sent'\n    WHEN act.requester_id = NEW.person_id THEN 'approval_by_another: P3, who asked does not approve'\n    WHEN NEW.person_id IN (\nSELECT its.issuer_id AS person FROM fencing_delivery AS delivery\n    JOIN fencing_commit AS commit ON commit.id = delivery.commit_id\n    JOIN fencing_grant AS its ON its.id = commit.grant_id\nWHERE delivery.intent_id = act.intent_id\nUNION\nSELECT approval.person_id FROM fencing_delivery AS delivery\n    JOIN fencing_commit AS commit ON commit.id = delivery.commit_id\n    JOIN fencing_grantapproval AS approval ON approval.grant_id = commit.grant_id\nWHERE delivery.intent_id = act.intent_id\n) THEN 'approval_by_another: P3, a grant of theirs let the effect through'\nEND INTO wrong\nFROM (SELECT 1) AS nothing\nLEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true;\n",
                    hash="0d9c33a8104a6af7f98e4c521f4bf6c0135a8b42",
                    operation="INSERT",
                    pgid="pgtrigger_approval_of_what_was_shown_e81d9",
                    table="fencing_compensationapproval",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="compensationoutcome",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_effective", True), ("outcome__in", ["succeeded", "failed"])),
                fields=("delivery",),
                name="undoing_settles_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="compensationoutcome",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("outcome", "not_happened"), _negated=True),
                    models.Q(("person__isnull", False), ("source", "person")),
                    _connector="OR",
                ),
                name="undoing_not_happened_by_a_person",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationoutcome",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="450f33bf660a7e21102e1f4d0af3f439ae779e03",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_6045c",
                    table="fencing_compensationoutcome",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationoutcome",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="7ce05543ad3417296eb23b48bc877e24c0b4b498",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_fca78",
                    table="fencing_compensationoutcome",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="compensationrelease",
            constraint=models.UniqueConstraint(fields=("compensation", "round"), name="compensation_released_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationrelease",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="e2c42c5c5088423bfe89acaa58ee5efeab75e0a7",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_bf517",
                    table="fencing_compensationrelease",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationrelease",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="299a57c8479b475312e31054ca7ea1e178714ec4",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_2bcb4",
                    table="fencing_compensationrelease",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationrelease",
            trigger=pgtrigger.compiler.Trigger(
                name="release_of_an_approval",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;\nSELECT CASE\n    WHEN act.state IS DISTINCT FROM 'approved' OR act.round <> NEW.round\n        THEN 'release_of_an_approval: P5, the compensation is not approved in this round'\n    WHEN act.payload_id IS DISTINCT FROM NEW.payload_id\n        THEN 'release_of_what_was_approved: P2, something else was approved'\n    WHEN act.needed > (SELECT count(*) FROM fencing_compensationapproval\n            WHERE compensation_id = NEW.compensation_id AND round = NEW.round AND digest = NEW.payload_id)\n        THEN 'release_of_an_approval: P3, fewer people approved than the tool asks for'\nEND INTO wrong\nFROM (SELECT 1) AS nothing\nLEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true;\n",
                    hash="a69865673edbd37fc2c2785f871a99e4b7db55a5",
                    operation="INSERT",
                    pgid="pgtrigger_release_of_an_approval_a9d5e",
                    table="fencing_compensationrelease",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="compensationdelivery",
            index=models.Index(fields=["idempotency_key"], name="undoing_by_key"),
        ),
        migrations.AddConstraint(
            model_name="compensationdelivery",
            constraint=models.UniqueConstraint(fields=("release", "number"), name="undoing_number_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationdelivery",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="700336efbf75a8d7044a5274daa03a2a78381d61",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_cc293",
                    table="fencing_compensationdelivery",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationdelivery",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="26506a3faf0d650c45e27a81936c7e92f5a369c8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_0463b",
                    table="fencing_compensationdelivery",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationdelivery",
            trigger=pgtrigger.compiler.Trigger(
                name="undoing_of_an_approval",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;\nSELECT CASE\n    WHEN act.state IS DISTINCT FROM 'approved'\n        THEN 'undoing_of_an_approval: I2, the compensation is not approved'\n    WHEN (release.compensation_id, release.round, release.payload_id)\n        IS DISTINCT FROM (NEW.compensation_id, act.round, NEW.payload_id) OR act.payload_id <> NEW.payload_id\n        THEN 'undoing_of_an_approval: I2, this is not what was approved'\n    WHEN NEW.number <> coalesce(others.last_number, 0) + 1 THEN 'undoing_in_order: P5, the next try has the next number'\n    WHEN others.may_be_out THEN 'undoing_once: P5, an earlier try may have done it'\n    WHEN EXISTS (SELECT FROM fencing_claim WHERE intent_id = act.intent_id AND act.effect_id IS NULL AND state = 'open')\n        THEN 'undoing_of_what_nobody_wants: P4, a claim is open'\nEND INTO wrong\nFROM (SELECT 1) AS nothing\nLEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true\nLEFT JOIN LATERAL (SELECT * FROM fencing_compensationrelease WHERE id = NEW.release_id LIMIT 1) AS release ON true\nLEFT JOIN LATERAL (\n    SELECT max(number) AS last_number, bool_or(coalesce((\n        SELECT bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) FROM fencing_compensationoutcome\n        WHERE delivery_id = earlier.id AND is_effective), false) IS FALSE) AS may_be_out\n    FROM fencing_compensationdelivery AS earlier WHERE release_id = NEW.release_id\n) AS others ON true;\n",
                    hash="bf3062c9e814d3324880eaca5c02bf6c0a9baef4",
                    operation="INSERT",
                    pgid="pgtrigger_undoing_of_an_approval_3d720",
                    table="fencing_compensationdelivery",
                    when="BEFORE",
                ),
            ),
        ),
    ]
