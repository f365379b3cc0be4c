"""Compensations: what would undo an effect, and how far it came (protocol, section 11)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers
from fencing.models.actions import Action
from fencing.models.deliveries import Outcome
from fencing.models.effects import ObservedEffect
from fencing.models.incidents import Incident
from fencing.models.intents import Intent
from fencing.models.runs import Run
from fencing.protocol import compensations

_UNDER_WAY = ["approved", "in_doubt", "in_flight"]
_OPEN = sorted(state.value for state in compensations.OPEN)

MUTABLE = (
    *(
        "state",
        "payload",
        "needed",
        "round",
        "decided_at",
        "decider",
        "seen_digest",
        "reason",
        "evidence",
        "external_id",
    ),
    *("due_at", "not_before"),
)

# P3: approved is what as many people approved as the tool asks for, in this round. P6: what has no compensator is done
# by hand, with evidence.
DECIDED_GUARD = """
IF NEW.state = 'approved' AND NEW.needed > (SELECT count(*) FROM fencing_compensationapproval
    WHERE compensation_id = NEW.id AND round = NEW.round AND digest = NEW.payload_id)
THEN
    wrong := 'compensation_decided: P3, fewer people approved than the tool asks for';
ELSIF NEW.state = 'done' AND OLD.state = 'proposed' AND (NEW.payload_id IS NOT NULL OR NEW.evidence IS NULL) THEN
    wrong := 'compensation_decided: P6, only what has no compensator is done by hand, with evidence';
END IF;
"""

STATE_GUARD = f"""
IF NEW.state <> OLD.state AND NOT {triggers.moves(compensations.TRANSITIONS, "state")} THEN
    wrong := 'compensation_moves: P5, a compensation that is ' || OLD.state || ' does not become ' || NEW.state;
END IF;
"""


# Who is barred from approving (P3): the people behind a grant that let the effect of `{intent}` through.
BEHIND_ITS_GRANTS = """
SELECT its.issuer_id AS person FROM fencing_delivery AS delivery
    JOIN fencing_commit AS commit ON commit.id = delivery.commit_id
    JOIN fencing_grant AS its ON its.id = commit.grant_id
WHERE delivery.intent_id = {intent}
UNION
SELECT approval.person_id FROM fencing_delivery AS delivery
    JOIN fencing_commit AS commit ON commit.id = delivery.commit_id
    JOIN fencing_grantapproval AS approval ON approval.grant_id = commit.grant_id
WHERE delivery.intent_id = {intent}
"""

# P2, P3: of what was shown, by somebody who neither asked for it nor stood behind the grant, while it may be decided.
APPROVAL_GUARD = """
PERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;
SELECT CASE
    WHEN act.state <> 'proposed' THEN 'approval_in_time: P3, the compensation is ' || act.state
    WHEN act.round <> NEW.round THEN 'approval_in_time: P4, earlier approvals lapsed'
    WHEN act.payload_id IS DISTINCT FROM NEW.digest THEN 'approval_of_what_was_shown: P2, something else would be sent'
    WHEN act.requester_id = NEW.person_id THEN 'approval_by_another: P3, who asked does not approve'
    WHEN NEW.person_id IN ({behind_its_grants}) THEN 'approval_by_another: P3, a grant of theirs let the effect through'
END INTO wrong
FROM (SELECT 1) AS nothing
LEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true;
""".replace("{behind_its_grants}", BEHIND_ITS_GRANTS.replace("{intent}", "act.intent_id"))

# I2: a compensation's authority is its approvals. As many people as the tool asks for, of this round, of this payload.
RELEASE_GUARD = """
PERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;
SELECT CASE
    WHEN act.state IS DISTINCT FROM 'approved' OR act.round <> NEW.round
        THEN 'release_of_an_approval: P5, the compensation is not approved in this round'
    WHEN act.payload_id IS DISTINCT FROM NEW.payload_id
        THEN 'release_of_what_was_approved: P2, something else was approved'
    WHEN act.needed > (SELECT count(*) FROM fencing_compensationapproval
            WHERE compensation_id = NEW.compensation_id AND round = NEW.round AND digest = NEW.payload_id)
        THEN 'release_of_an_approval: P3, fewer people approved than the tool asks for'
END INTO wrong
FROM (SELECT 1) AS nothing
LEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true;
"""

# I2, P4, P5: written before the act, under its approval, one try at a time, while nobody may still want the effect.
UNDOING_GUARD = """
PERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;
SELECT CASE
    WHEN act.state IS DISTINCT FROM 'approved'
        THEN 'undoing_of_an_approval: I2, the compensation is not approved'
    WHEN (release.compensation_id, release.round, release.payload_id)
        IS DISTINCT FROM (NEW.compensation_id, act.round, NEW.payload_id) OR act.payload_id <> NEW.payload_id
        THEN 'undoing_of_an_approval: I2, this is not what was approved'
    WHEN NEW.number <> coalesce(others.last_number, 0) + 1 THEN 'undoing_in_order: P5, the next try has the next number'
    WHEN others.may_be_out THEN 'undoing_once: P5, an earlier try may have done it'
    WHEN EXISTS (SELECT FROM fencing_claim WHERE intent_id = act.intent_id AND act.effect_id IS NULL AND state = 'open')
        THEN 'undoing_of_what_nobody_wants: P4, a claim is open'
    -- T5: this system calls push tools by itself, and no other.
    WHEN NEW.by_id IS NULL AND pushed.mode IS DISTINCT FROM 'push'
        THEN 'undoing_by_a_key: N8, a pull tool is called with a gateway''s key'
END INTO wrong
FROM (SELECT 1) AS nothing
LEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true
LEFT JOIN LATERAL (SELECT * FROM fencing_compensationrelease WHERE id = NEW.release_id LIMIT 1) AS release ON true
LEFT JOIN LATERAL (
    SELECT max(number) AS last_number, bool_or(coalesce((
        SELECT bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) FROM fencing_compensationoutcome
        WHERE delivery_id = earlier.id AND is_effective), false) IS FALSE) AS may_be_out
    FROM fencing_compensationdelivery AS earlier WHERE release_id = NEW.release_id
) AS others ON true
LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = NEW.payload_id LIMIT 1) AS called ON true
LEFT JOIN LATERAL (
    SELECT mode FROM fencing_toolversion
    WHERE NEW.by_id IS NULL AND tool = called.tool AND id <= act.registry ORDER BY id DESC LIMIT 1
) AS pushed ON true;
"""


class Compensation(models.Model):
    """An act that would undo one effect: that of an intent, or a ledger row that should not be there (P1).

    `payload` is the exact action that would be sent, null where a person has to do it by hand (P6). `tool` is the tool
    of the effect; `needed` how many people its policy asks for.
    """

    class State(models.TextChoices):
        """Where it is."""

        PROPOSED = "proposed"
        HELD = "held"
        APPROVED = "approved"
        IN_FLIGHT = "in_flight"
        DONE = "done"
        IN_DOUBT = "in_doubt"
        WAIVED = "waived"
        WITHDRAWN = "withdrawn"

    class Cause(models.TextChoices):
        """Why it is there."""

        LANDED_ESCAPE = "landed_escape"
        DOUBLED = "doubled"
        BRANCH_LOST = "branch_lost"
        REQUESTED = "requested"

    id = fields.key()
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, null=True, related_name="compensations"
    )
    intent: models.ForeignKey[Any, Any] = models.ForeignKey(
        Intent, on_delete=models.PROTECT, null=True, related_name="compensations"
    )
    effect: models.ForeignKey[Any, Any] = models.ForeignKey(
        ObservedEffect, on_delete=models.PROTECT, null=True, related_name="compensations"
    )
    incident: models.ForeignKey[Any, Any] = models.ForeignKey(
        Incident, on_delete=models.PROTECT, null=True, related_name="compensations"
    )
    state = models.CharField(max_length=9, choices=State, default=State.PROPOSED)
    cause = models.CharField(max_length=13, choices=Cause)
    tool = fields.identifier()
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    registry = models.BigIntegerField()
    needed = models.IntegerField()
    resources = ArrayField(models.TextField(), default=list)
    proposed_at = fields.recorded_at()
    # When the effect happened: what was done last is undone first (P7).
    effect_at = models.DateTimeField(null=True)
    requester: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    request_reason = models.TextField(null=True)
    # Approvals count in their round: a new one begins when they lapse, or their one delivery is over.
    round = models.IntegerField(default=1)
    decided_at = models.DateTimeField(null=True)
    decider: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    # What the person who decided had before their eyes.
    seen_digest = fields.digest(null=True)
    reason = models.TextField(null=True)
    evidence = models.TextField(null=True)
    external_id = fields.identifier(null=True)
    due_at = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # P1: at most one that is open for each intent generation, and for each ledger row.
            models.UniqueConstraint(
                fields=["intent"], condition=Q(state__in=_OPEN, effect=None), name="compensation_of_an_intent_once"
            ),
            models.UniqueConstraint(
                fields=["effect"], condition=Q(state__in=_OPEN), name="compensation_of_an_effect_once"
            ),
            models.CheckConstraint(
                condition=Q(intent__isnull=False) | Q(effect__isnull=False), name="compensation_of_an_effect"
            ),
            models.CheckConstraint(condition=Q(needed__gte=1), name="compensation_needs_a_person"),
            # P6: a person lets an effect stand, and says why.
            models.CheckConstraint(
                condition=~Q(state="waived") | Q(decider__isnull=False, reason__isnull=False),
                name="compensation_waived_with_a_reason",
            ),
            models.CheckConstraint(
                condition=~Q(cause="requested") | Q(requester__isnull=False, request_reason__isnull=False),
                name="compensation_requested_with_a_reason",
            ),
        ]
        indexes = [
            models.Index(
                F("proposed_at").desc(), F("id").desc(), include=["state", "tool"], name="compensation_newest"
            ),
            models.Index(fields=["proposed_at"], condition=Q(state__in=_OPEN), name="compensation_open"),
            # What is to be called now, what is under way, and of a run what a later effect comes before (P7).
            models.Index(fields=["run", "effect_at"], condition=Q(state__in=_UNDER_WAY), name="compensation_under_way"),
            GinIndex(fields=["resources"], name="compensation_by_resource"),
        ]
        triggers = [
            *triggers.kept(*MUTABLE),
            triggers.Guard(name="compensation_moves", operation=triggers.update_of("state"), func=STATE_GUARD),
            triggers.LookupGuard(
                name="compensation_decided",
                operation=triggers.update_of("state"),
                condition=pgtrigger.Condition("NEW.state IN ('approved', 'done') AND NEW.state <> OLD.state"),
                func=DECIDED_GUARD,
            ),
            triggers.Guard(
                name="compensation_rounds_grow",
                operation=triggers.update_of("round"),
                condition=pgtrigger.Condition("NEW.round < OLD.round"),
                func=triggers.refused("compensation_rounds_grow", "P4, approvals that lapsed count no more"),
            ),
        ]


class CompensationApproval(models.Model):
    """That one person approved exactly what would be sent (P3), in a round that ends when approvals lapse."""

    id = fields.key()
    compensation = models.ForeignKey(Compensation, on_delete=models.PROTECT, db_index=False, related_name="approvals")
    round = models.IntegerField()
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    digest = fields.digest()
    reason = models.TextField()
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    approved_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["compensation", "round", "person"], name="compensation_approved_once")
        ]
        triggers = [
            *triggers.append_only(),
            triggers.LookupGuard(name="approval_of_what_was_shown", operation=pgtrigger.Insert, func=APPROVAL_GUARD),
        ]


class CompensationRelease(models.Model):
    """The token of one approval, minted by the fencer (K2, P5). Its id is the token's `jti`."""

    id = fields.key()
    compensation = models.ForeignKey(Compensation, on_delete=models.PROTECT, db_index=False, related_name="releases")
    round = models.IntegerField()
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    key = fields.identifier()
    token = models.TextField()
    kid = models.CharField(max_length=64)
    released_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["compensation", "round"], name="compensation_released_once")]
        triggers = [
            *triggers.append_only(),
            triggers.LookupGuard(name="release_of_an_approval", operation=pgtrigger.Insert, func=RELEASE_GUARD),
        ]


class CompensationDelivery(models.Model):
    """One try to undo an effect, written before the call (I2, P5)."""

    id = fields.key()
    compensation = models.ForeignKey(Compensation, on_delete=models.PROTECT, related_name="deliveries")
    release = models.ForeignKey(
        CompensationRelease, on_delete=models.PROTECT, db_index=False, related_name="deliveries"
    )
    number = models.IntegerField()
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    idempotency_key = models.CharField(max_length=80)
    lease_until = models.DateTimeField()
    # The gateway's key; null where this system called a push tool itself.
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    admitted_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["release", "number"], name="undoing_number_once")]
        indexes = [models.Index(fields=["idempotency_key"], name="undoing_by_key")]
        triggers = [
            *triggers.append_only(),
            triggers.LookupGuard(name="undoing_of_an_approval", operation=pgtrigger.Insert, func=UNDOING_GUARD),
        ]


class CompensationOutcome(models.Model):
    """What became of such a try. Final but for `unknown`; `not_happened` is a person's word."""

    id = fields.key()
    delivery = models.ForeignKey(CompensationDelivery, on_delete=models.PROTECT, related_name="outcomes")
    outcome = models.CharField(max_length=12, choices=Outcome.Kind)
    source = models.CharField(max_length=6, choices=Outcome.Source)
    is_effective = models.BooleanField()
    response = models.BinaryField(null=True)
    retry_after_s = models.FloatField(null=True)
    evidence = models.TextField(null=True)
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    recorded_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["delivery"],
                condition=Q(is_effective=True, outcome__in=["succeeded", "failed"]),
                name="undoing_settles_once",
            ),
            models.CheckConstraint(
                condition=~Q(outcome="not_happened") | Q(source="person", person__isnull=False),
                name="undoing_not_happened_by_a_person",
            ),
        ]
        triggers = triggers.append_only()
