"""Break-glass grants: reviews and what was refused of them; freezes."""

from __future__ import annotations

import uuid

import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.comparison
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers

# Grants of before this version owe their review from the upgrade on: nobody is blocked by it in the night.
OWE = """
UPDATE fencing_grant SET review_due_at = greatest(live_at, clock_timestamp()) + interval '24 hours'
WHERE live_at IS NOT NULL AND coalesce(approvals_needed, 0) = 0
"""


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("fencing", "0002_speed"),
    ]

    operations = [
        migrations.CreateModel(
            name="Freeze",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool", fencing.models.fields.ExactCharField(max_length=200, null=True)),
                ("reason", models.TextField()),
                ("set_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("answer", models.JSONField()),
                ("lifted_at", models.DateTimeField(null=True)),
                ("lift_reason", models.TextField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="GrantRefusal",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "what",
                    models.CharField(
                        choices=[("use", "Use"), ("approve", "Approve"), ("revoke", "Revoke"), ("review", "Review")],
                        max_length=7,
                    ),
                ),
                ("reason", models.TextField()),
                ("actor", models.CharField(max_length=250)),
                ("role", models.CharField(max_length=20)),
                ("source", models.CharField(default="", max_length=64)),
                ("refused_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="GrantReview",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("reason", models.TextField()),
                ("given_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="grant",
            name="fixed",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="grant",
            name="written_once",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="grant",
            name="grant_life",
        ),
        migrations.AddField(
            model_name="grant",
            name="review_due_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="grant",
            name="reviewed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunSQL(OWE, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="grant",
            index=models.Index(
                models.OrderBy(models.F("issued_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="grant_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="grant",
            index=models.Index(
                condition=models.Q(("review_due_at__isnull", False), ("reviewed_at__isnull", True)),
                fields=["issuer", "review_due_at"],
                name="grant_review_owed",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."epoch" IS DISTINCT FROM NEW."epoch" OR OLD."step_name" IS DISTINCT FROM NEW."step_name" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."path" IS DISTINCT FROM NEW."path" OR OLD."digest" IS DISTINCT FROM NEW."digest" OR OLD."max_uses" IS DISTINCT FROM NEW."max_uses" OR OLD."ttl_s" IS DISTINCT FROM NEW."ttl_s" OR OLD."reason" IS DISTINCT FROM NEW."reason" OR OLD."approvals_needed" IS DISTINCT FROM NEW."approvals_needed" OR OLD."content_digest" IS DISTINCT FROM NEW."content_digest" OR OLD."issuer_id" IS DISTINCT FROM NEW."issuer_id" OR OLD."by_id" IS DISTINCT FROM NEW."by_id" OR OLD."issued_at" IS DISTINCT FROM NEW."issued_at" OR OLD."pending_until" IS DISTINCT FROM NEW."pending_until" OR OLD."review_due_at" IS DISTINCT FROM NEW."review_due_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: due_at, expired_at, expires_at, live_at, reviewed_at, revocation, revoke_reason, revoked_at, revoked_by, uses, void_reason, voided_at';",
                    hash="465c0d7b1e2486ce574e20c16b1c37b54d7c8b85",
                    operation='UPDATE OF "id", "name", "run_id", "epoch", "step_name", "tool", "path", "digest", "max_uses", "ttl_s", "reason", "approvals_needed", "content_digest", "issuer_id", "by_id", "issued_at", "pending_until", "review_due_at"',
                    pgid="pgtrigger_fixed_0ab0e",
                    table="fencing_grant",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="written_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND ((OLD."live_at" IS NOT NULL AND OLD."live_at" IS DISTINCT FROM NEW."live_at") OR (OLD."expires_at" IS NOT NULL AND OLD."expires_at" IS DISTINCT FROM NEW."expires_at") OR (OLD."expired_at" IS NOT NULL AND OLD."expired_at" IS DISTINCT FROM NEW."expired_at") OR (OLD."revoked_at" IS NOT NULL AND OLD."revoked_at" IS DISTINCT FROM NEW."revoked_at") OR (OLD."revoked_by_id" IS NOT NULL AND OLD."revoked_by_id" IS DISTINCT FROM NEW."revoked_by_id") OR (OLD."revocation" IS NOT NULL AND OLD."revocation" IS DISTINCT FROM NEW."revocation") OR (OLD."voided_at" IS NOT NULL AND OLD."voided_at" IS DISTINCT FROM NEW."voided_at") OR (OLD."reviewed_at" IS NOT NULL AND OLD."reviewed_at" IS DISTINCT FROM NEW."reviewed_at")))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'written_once: I6, written once: live_at, expires_at, expired_at, revoked_at, revoked_by, revocation, voided_at, reviewed_at';",
                    hash="91eb5c880e83c8452160bc605e6ee5c776325d65",
                    operation='UPDATE OF "live_at", "expires_at", "expired_at", "revoked_at", "revoked_by_id", "revocation", "voided_at", "reviewed_at"',
                    pgid="pgtrigger_written_once_97e7a",
                    table="fencing_grant",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="grant_life",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nwrong := CASE\n    -- G6, N3: the clock of its life starts when it goes live, by the database's clock, and never in the future.\n    WHEN NEW.live_at > clock_timestamp() THEN 'grant_lives_from_now: G6, a grant cannot start in the future'\n    -- G1: it lives no longer than the time that was asked for, and no longer than the tool allows (at its commit).\n    WHEN NEW.expires_at > NEW.live_at + make_interval(secs => NEW.ttl_s)\n        THEN 'grant_lives_its_ttl: G1, a grant ends when its time is over'\n    -- G6: who waits for a second person waits no longer than that, also where no sweep has written it down.\n    WHEN NEW.live_at >= NEW.pending_until\n        THEN 'grant_approved_in_time: G6, a pending grant is over before it was approved'\nEND;\n",
                    hash="4a72f327b66582f6edfbc72e614c695ad5f1fb25",
                    operation='INSERT OR UPDATE OF "live_at", "expires_at"',
                    pgid="pgtrigger_grant_life_e19b5",
                    table="fencing_grant",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="grant_owes_review",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nwrong := CASE\n    WHEN NEW.reviewed_at IS NOT NULL\n        THEN 'grant_owes_review: G6, nobody can have reviewed a new grant'\n    WHEN NEW.live_at IS NOT NULL\n        AND (NEW.review_due_at IS NULL OR NEW.review_due_at > NEW.live_at + interval '24 hours')\n        THEN 'grant_owes_review: G6, a grant that is live at once owes a review within 24 hours'\n    WHEN EXISTS (\n        SELECT FROM fencing_grant\n        WHERE issuer_id = NEW.issuer_id AND reviewed_at IS NULL AND review_due_at <= clock_timestamp()\n    ) THEN 'grant_issuer_in_debt: G6, the issuer owes an overdue review'\nEND;\n",
                    hash="4f40a6ebeb073a3b80c8398b203aea0b5deca685",
                    operation="INSERT",
                    pgid="pgtrigger_grant_owes_review_8398a",
                    table="fencing_grant",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="grant_reviewed_on_record",
                sql=fencing.models.triggers.GuardSql(
                    condition="WHEN (OLD.reviewed_at IS NULL AND NEW.reviewed_at IS NOT NULL)",
                    declare="DECLARE wrong text;",
                    func="\n                IF NOT EXISTS (SELECT FROM fencing_grantreview WHERE grant_id = NEW.id) THEN\n                    wrong := 'grant_reviewed_on_record: G6, a debt ends by the review of another person alone';\n                END IF;\n                ",
                    hash="a36787153782f6bf4c7d752eee1a9128a4f12ed5",
                    operation='UPDATE OF "reviewed_at"',
                    pgid="pgtrigger_grant_reviewed_on_record_fd882",
                    table="fencing_grant",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddField(
            model_name="freeze",
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
            model_name="freeze",
            name="lifted_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="freeze",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.run",
            ),
        ),
        migrations.AddField(
            model_name="freeze",
            name="set_by",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="grantrefusal",
            name="grant",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="refusals", to="fencing.grant"
            ),
        ),
        migrations.AddField(
            model_name="grantrefusal",
            name="step",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.step",
            ),
        ),
        migrations.AddField(
            model_name="grantreview",
            name="grant",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="review", to="fencing.grant"
            ),
        ),
        migrations.AddField(
            model_name="grantreview",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddIndex(
            model_name="freeze",
            index=models.Index(condition=models.Q(("lifted_at__isnull", True)), fields=["run"], name="freeze_standing"),
        ),
        migrations.AddIndex(
            model_name="freeze",
            index=models.Index(
                models.OrderBy(models.F("set_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="freeze_newest",
            ),
        ),
        migrations.AddConstraint(
            model_name="freeze",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lifted_by__isnull", True),
                    models.Q(("lifted_by", models.F("set_by")), _negated=True),
                    _connector="OR",
                ),
                name="freeze_lifted_by_another",
            ),
        ),
        migrations.AddConstraint(
            model_name="freeze",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lift_reason__isnull", True), ("lifted_at__isnull", True), ("lifted_by__isnull", True)),
                    models.Q(
                        ("lift_reason__isnull", False), ("lifted_at__isnull", False), ("lifted_by__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="freeze_lifted_with_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="freeze",
            constraint=models.UniqueConstraint(
                models.F("set_by"),
                django.db.models.functions.comparison.Coalesce(models.F("tool"), models.Value("")),
                django.db.models.functions.comparison.Coalesce(
                    models.F("run_id"),
                    models.Value(uuid.UUID("00000000-0000-0000-0000-000000000000"), output_field=models.UUIDField()),
                ),
                condition=models.Q(("lifted_at__isnull", True)),
                name="freeze_once",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="freeze",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="f00411137e239ad649d1aa3f58af694bfb7e5164",
                    operation="DELETE",
                    pgid="pgtrigger_kept_06add",
                    table="fencing_freeze",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="freeze",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="f9d151d3fca64f6773f4e1f56a63592cb1ae40cd",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_6b09d",
                    table="fencing_freeze",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="freeze",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."tool" IS DISTINCT FROM NEW."tool" OR OLD."run_id" IS DISTINCT FROM NEW."run_id" OR OLD."reason" IS DISTINCT FROM NEW."reason" OR OLD."set_by_id" IS DISTINCT FROM NEW."set_by_id" OR OLD."by_id" IS DISTINCT FROM NEW."by_id" OR OLD."set_at" IS DISTINCT FROM NEW."set_at" OR OLD."answer" IS DISTINCT FROM NEW."answer"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: lift_reason, lifted_at, lifted_by';",
                    hash="8c84fd0abb44d5c7a3fbc070dfc6fa43cb575739",
                    operation='UPDATE OF "id", "tool", "run_id", "reason", "set_by_id", "by_id", "set_at", "answer"',
                    pgid="pgtrigger_fixed_d9705",
                    table="fencing_freeze",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="freeze",
            trigger=pgtrigger.compiler.Trigger(
                name="written_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND ((OLD."lifted_at" IS NOT NULL AND OLD."lifted_at" IS DISTINCT FROM NEW."lifted_at") OR (OLD."lifted_by_id" IS NOT NULL AND OLD."lifted_by_id" IS DISTINCT FROM NEW."lifted_by_id") OR (OLD."lift_reason" IS NOT NULL AND OLD."lift_reason" IS DISTINCT FROM NEW."lift_reason")))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'written_once: I6, written once: lifted_at, lifted_by, lift_reason';",
                    hash="77f61abff04b2eede8a9caea896912073ebc47c8",
                    operation='UPDATE OF "lifted_at", "lifted_by_id", "lift_reason"',
                    pgid="pgtrigger_written_once_7d45a",
                    table="fencing_freeze",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="freeze",
            trigger=pgtrigger.compiler.Trigger(
                name="freeze_begins_standing",
                sql=fencing.models.triggers.GuardSql(
                    condition="WHEN (NEW.lifted_at IS NOT NULL)",
                    declare="DECLARE wrong text;",
                    func="wrong := 'freeze_begins_standing: L10, a freeze is lifted after it was set';",
                    hash="900fd7ae003f8eed1f36508b527b12ffe4e94c8e",
                    operation="INSERT",
                    pgid="pgtrigger_freeze_begins_standing_9cf7c",
                    table="fencing_freeze",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="grantrefusal",
            index=models.Index(fields=["grant", "refused_at"], name="grant_refusals"),
        ),
        migrations.AddConstraint(
            model_name="grantrefusal",
            constraint=models.UniqueConstraint(
                condition=models.Q(("what", "use")), fields=("grant", "step", "reason"), name="grant_use_refused_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="grantrefusal",
            constraint=models.CheckConstraint(
                condition=models.Q(models.Q(("what", "use"), _negated=True), ("step__isnull", False), _connector="OR"),
                name="grant_use_refused_on_a_step",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grantrefusal",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="7755ab53a0efce794e647c945026ee483799cb07",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_7e7a7",
                    table="fencing_grantrefusal",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grantrefusal",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="491be82938e8e1a12fe913806ec97230a159764a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_89adc",
                    table="fencing_grantrefusal",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grantreview",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="15d846437260b1aa7cbe99b1ef64ea251af0ff3a",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_bf096",
                    table="fencing_grantreview",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grantreview",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="53b99ece829248d5a80eabade27d8a57499df1de",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_dcf77",
                    table="fencing_grantreview",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grantreview",
            trigger=pgtrigger.compiler.Trigger(
                name="grant_reviewed_by_another",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\n                SELECT CASE\n                    WHEN issuer_id = NEW.person_id\n                        THEN 'grant_reviewed_by_another: G6, the issuer of a grant does not review it'\n                    WHEN live_at IS NULL THEN 'grant_reviewed_once_live: G6, it never let anything through'\n                END INTO wrong FROM fencing_grant WHERE id = NEW.grant_id;\n                ",
                    hash="e7b2b74fa887b4b98ae5070d26567dea77e63f78",
                    operation="INSERT",
                    pgid="pgtrigger_grant_reviewed_by_another_a7f60",
                    table="fencing_grantreview",
                    when="BEFORE",
                ),
            ),
        ),
    ]
