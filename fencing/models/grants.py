"""Break-glass grants, who approved them, and what they let through (protocol, section 7)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers
from fencing.models.runs import Run

LIFE_GUARD = """
wrong := CASE
    -- G6, N3: the clock of its life starts when it goes live, by the database's clock, and never in the future.
    WHEN NEW.live_at > clock_timestamp() THEN 'grant_lives_from_now: G6, a grant cannot start in the future'
    -- G1: it lives no longer than the time that was asked for, and no longer than the tool allows (at its commit).
    WHEN NEW.expires_at > NEW.live_at + make_interval(secs => NEW.ttl_s)
        THEN 'grant_lives_its_ttl: G1, a grant ends when its time is over'
    -- G6: who waits for a second person waits no longer than that, also where no sweep has written it down.
    WHEN NEW.live_at >= NEW.pending_until
        THEN 'grant_approved_in_time: G6, a pending grant is over before it was approved'
END;
"""

# G6: what goes live by one person's word owes a second one's afterwards, and who owes one too long gets no more. The
# service asks first; this holds beside it, by the index of what is owed.
REVIEW_GUARD = """
wrong := CASE
    WHEN NEW.reviewed_at IS NOT NULL
        THEN 'grant_owes_review: G6, nobody can have reviewed a new grant'
    WHEN NEW.live_at IS NOT NULL
        AND (NEW.review_due_at IS NULL OR NEW.review_due_at > NEW.live_at + interval '24 hours')
        THEN 'grant_owes_review: G6, a grant that is live at once owes a review within 24 hours'
    WHEN EXISTS (
        SELECT FROM fencing_grant
        WHERE issuer_id = NEW.issuer_id AND reviewed_at IS NULL AND review_due_at <= clock_timestamp()
    ) THEN 'grant_issuer_in_debt: G6, the issuer owes an overdue review'
END;
"""

# G3: in every committed state, what a grant counts as used is what it let through. Deferred, since the conditional
# update of the count and the row of the use are two statements; the grant's row lock keeps others out meanwhile.
COUNT_GUARD = """
SELECT 'grant_uses_counted: G3, the uses of a grant are the commits that it let through' INTO wrong
FROM fencing_grant WHERE id = {grant}
    AND uses <> (SELECT count(*) FROM fencing_grantuse WHERE grant_id = {grant});
"""


class Grant(models.Model):
    """A named, expiring, epoch-scoped permission for one path to act alone. Nothing of its scope can be edited (G1).

    `approvals_needed` is null for a grant by step alone: then a vote tells the tool, and with it the number (G1).
    `expires_at` is null while the grant is pending; `expired_at` is written when somebody saw that it was over, so that
    a clock that steps back revives nothing (G2).
    """

    id = fields.key()
    name = fields.identifier(unique=True)
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, related_name="grants"
    )
    epoch = models.BigIntegerField()
    step_name = fields.identifier(null=True)
    tool = fields.identifier(null=True)
    path = fields.identifier()
    digest = fields.digest(null=True)
    max_uses = models.IntegerField()
    uses = models.IntegerField(default=0)
    ttl_s = models.IntegerField()
    reason = models.TextField()
    approvals_needed = models.SmallIntegerField(null=True)
    content_digest = fields.digest()
    issuer: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    issued_at = fields.recorded_at()
    pending_until = models.DateTimeField(null=True)
    live_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    expired_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    revoked_by: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    revoke_reason = models.TextField(default="")
    # What the revocation stopped, and what was out already, as it was answered: asked again it answers the same (N2).
    revocation = models.JSONField(null=True)
    voided_at = models.DateTimeField(null=True)
    void_reason = models.CharField(max_length=40, default="")
    # When the sweep must look: the end of a pending or live grant; null once it is over.
    due_at = models.DateTimeField(null=True)
    # By when another person must have looked at it (G6); null where a second person approved it before it went live.
    review_due_at = models.DateTimeField(null=True)
    reviewed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(step_name__isnull=False) | Q(tool__isnull=False), name="grant_has_a_scope"
            ),
            models.CheckConstraint(
                condition=Q(max_uses__gte=1, uses__gte=0, uses__lte=F("max_uses")), name="grant_uses_within_limit"
            ),
            models.CheckConstraint(condition=Q(ttl_s__gte=1), name="grant_expires"),
            models.CheckConstraint(
                condition=Q(live_at__isnull=True) | Q(expires_at__isnull=False), name="grant_live_has_an_end"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "epoch"], name="grant_of_epoch"),
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="grant_due"),
            # Lists page by keyset, and a moment of the past is asked for by when its grants were issued.
            models.Index(F("issued_at").desc(), F("id").desc(), name="grant_newest"),
            # Who owes what: asked whenever a grant is issued.
            models.Index(
                fields=["issuer", "review_due_at"],
                condition=Q(review_due_at__isnull=False, reviewed_at__isnull=True),
                name="grant_review_owed",
            ),
        ]
        triggers = [
            *triggers.kept(
                "uses",
                "live_at",
                "expires_at",
                "expired_at",
                "revoked_at",
                "revoked_by",
                "revoke_reason",
                "revocation",
                "voided_at",
                "void_reason",
                "due_at",
                "reviewed_at",
            ),
            triggers.WrittenOnce(
                "live_at",
                "expires_at",
                "expired_at",
                "revoked_at",
                "revoked_by",
                "revocation",
                "voided_at",
                "reviewed_at",
            ),
            triggers.Guard(
                name="grant_begins_unused",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.uses <> 0"),
                func=triggers.refused("grant_begins_unused", "G3, a new grant was never used"),
            ),
            triggers.Guard(
                name="grant_use_never_given_back",
                operation=triggers.update_of("uses"),
                condition=pgtrigger.Condition("NEW.uses < OLD.uses"),
                func=triggers.refused("grant_use_never_given_back", "G3, a use is never given back"),
            ),
            triggers.Guard(
                name="grant_life",
                operation=pgtrigger.Insert | triggers.update_of("live_at", "expires_at"),
                func=LIFE_GUARD,
            ),
            triggers.Guard(
                name="grant_uses_counted",
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                operation=triggers.update_of("uses"),
                func=COUNT_GUARD.format(grant="NEW.id"),
            ),
            triggers.Guard(name="grant_owes_review", operation=pgtrigger.Insert, func=REVIEW_GUARD),
            triggers.Guard(
                name="grant_reviewed_on_record",
                operation=triggers.update_of("reviewed_at"),
                condition=pgtrigger.Condition("OLD.reviewed_at IS NULL AND NEW.reviewed_at IS NOT NULL"),
                func="""
                IF NOT EXISTS (SELECT FROM fencing_grantreview WHERE grant_id = NEW.id) THEN
                    wrong := 'grant_reviewed_on_record: G6, a debt ends by the review of another person alone';
                END IF;
                """,
            ),
        ]


class GrantApproval(models.Model):
    """A second person's word for a pending grant (G6). Never the issuer's: a trigger refuses it."""

    id = fields.key()
    grant: models.ForeignKey[Any, Any] = models.ForeignKey(
        Grant, on_delete=models.PROTECT, db_index=False, related_name="approvals"
    )
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    reason = models.TextField()
    approved_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["grant", "person"], name="grant_approval_once")]
        triggers = [
            *triggers.append_only(),
            triggers.Guard(
                name="grant_approved_by_another",
                operation=pgtrigger.Insert,
                func="""
                SELECT 'grant_approved_by_another: G6, the issuer of a grant does not approve it' INTO wrong
                FROM fencing_grant WHERE id = NEW.grant_id AND issuer_id = NEW.person_id;
                """,
            ),
        ]


class GrantUse(models.Model):
    """One commit that a grant let through. Append-only: a use is never given back (G3)."""

    id = fields.key()
    grant = models.ForeignKey(Grant, on_delete=models.PROTECT, related_name="used_by")
    commit = models.OneToOneField("fencing.Commit", on_delete=models.PROTECT, related_name="grant_use")
    used_at = fields.recorded_at()

    class Meta:
        triggers = [
            *triggers.append_only(),
            triggers.Guard(
                name="grant_use_of_its_commit",
                operation=pgtrigger.Insert,
                func="""
                IF NOT EXISTS (SELECT FROM fencing_commit WHERE id = NEW.commit_id AND grant_id = NEW.grant_id) THEN
                    wrong := 'grant_use_of_its_commit: G3, the commit does not rest on this grant';
                END IF;
                """,
            ),
            triggers.Guard(
                name="grant_uses_counted",
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                operation=pgtrigger.Insert,
                func=COUNT_GUARD.format(grant="NEW.grant_id"),
            ),
        ]


class GrantReview(models.Model):
    """Another person's look at what was let through, owed within 24 hours (G6). One closes the debt."""

    id = fields.key()
    grant: models.ForeignKey[Any, Any] = models.OneToOneField(Grant, on_delete=models.PROTECT, related_name="review")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    reason = models.TextField()
    given_at = fields.recorded_at()

    class Meta:
        triggers = [
            *triggers.append_only(),
            triggers.Guard(
                name="grant_reviewed_by_another",
                operation=pgtrigger.Insert,
                func="""
                SELECT CASE
                    WHEN issuer_id = NEW.person_id
                        THEN 'grant_reviewed_by_another: G6, the issuer of a grant does not review it'
                    WHEN live_at IS NULL THEN 'grant_reviewed_once_live: G6, it never let anything through'
                END INTO wrong FROM fencing_grant WHERE id = NEW.grant_id;
                """,
            ),
        ]


class GrantRefusal(models.Model):
    """One time that a grant was asked for something and it was refused: a use, or a person's act on it (G8).

    The side log has the same refusal among all others; this row belongs to the grant, and says from where. A use is
    refused for one reason on one step once, however often the fencer looks.
    """

    class What(models.TextChoices):
        """What was refused."""

        USE = "use"
        APPROVE = "approve"
        REVOKE = "revoke"
        REVIEW = "review"

    id = fields.key()
    grant: models.ForeignKey[Any, Any] = models.ForeignKey(
        Grant, on_delete=models.PROTECT, db_index=False, related_name="refusals"
    )
    what = models.CharField(max_length=7, choices=What)
    reason = models.TextField()
    step: models.ForeignKey[Any, Any] = models.ForeignKey(
        "fencing.Step", on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    actor = models.CharField(max_length=250)
    role = models.CharField(max_length=20)
    source = models.CharField(max_length=64, default="")
    refused_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["grant", "step", "reason"], condition=Q(what="use"), name="grant_use_refused_once"
            ),
            models.CheckConstraint(
                condition=~Q(what="use") | Q(step__isnull=False), name="grant_use_refused_on_a_step"
            ),
        ]
        indexes = [models.Index(fields=["grant", "refused_at"], name="grant_refusals")]
        triggers = triggers.append_only()
