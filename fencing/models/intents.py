"""Intents and the claims of steps on them (protocol, section 9)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import F, Q

from fencing.models import counts, fields, triggers
from fencing.models.actions import Action
from fencing.models.runs import Run
from fencing.models.steps import Step
from fencing.protocol import intents

# "Admitted" in the protocol's sense, of one row called `delivery`: in flight, unknown or succeeded. It is over when it
# ended in any other way, unless a person or its gateway then said that it did happen.
MAY_BE_OUT = """(
    SELECT bool_or(outcome = 'succeeded') IS TRUE
        OR bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) IS NOT TRUE
    FROM fencing_outcome WHERE delivery_id = delivery.id AND is_effective
)"""

UNSETTLED = ["held", "ready", "in_flight", "in_doubt"]

# What an intent refers to is there, and never goes.
INTENT_GUARD = """
SELECT min(CASE
    WHEN run.epoch IS NULL THEN 'intent_in_its_run: L1, there is no such run'
    WHEN intent.payload_id IS NOT NULL AND action.tool IS NULL
        THEN 'intent_payload_stored: C7, the action is not stored'
    WHEN intent.outcome_id IS NOT NULL THEN 'intent_outcome_recorded: L5, a new intent has no outcome'
END) INTO wrong
FROM new_rows AS intent
LEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = intent.run_id LIMIT 1) AS run ON true
LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = intent.payload_id LIMIT 1) AS action ON true;
"""

# L1: once a payload is admitted, only that one is delivered, until nothing of it can be out. What an update changed is
# what it left behind and did not find (EXCEPT): rows whose payload stays are not asked again.
PAYLOAD_GUARD = """
SELECT min(CASE
    WHEN intent.payload_id IS NOT NULL AND action.tool IS NULL
        THEN 'intent_payload_stored: C7, the action is not stored'
    WHEN other.may_be_out THEN 'intent_payload_fixed: L1, another payload of the intent may be out'
END) INTO wrong
FROM (SELECT id, payload_id FROM new_rows EXCEPT SELECT id, payload_id FROM old_rows) AS intent
LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = intent.payload_id LIMIT 1) AS action ON true
LEFT JOIN LATERAL (
    SELECT bool_or({may_be_out}) AS may_be_out FROM fencing_delivery AS delivery
    WHERE intent_id = intent.id AND payload_id IS DISTINCT FROM intent.payload_id
) AS other ON true;
IF wrong IS NULL THEN
    SELECT min('intent_outcome_recorded: L5, there is no such outcome') INTO wrong
    FROM new_rows AS intent
    LEFT JOIN LATERAL (SELECT outcome FROM fencing_outcome WHERE id = intent.outcome_id LIMIT 1) AS told ON true
    WHERE intent.outcome_id IS NOT NULL AND told.outcome IS NULL;
END IF;
"""

# Section 9: the moves of an intent, from the one table in `fencing.protocol.intents`.
STATE_GUARD = f"""
IF NEW.state <> OLD.state AND NOT {triggers.moves(intents.TRANSITIONS, "state")} THEN
    wrong := 'intent_moves: L2, an intent that is ' || OLD.state || ' does not become ' || NEW.state;
END IF;
"""


class Intent(models.Model):
    """The durable record that an effect is wanted: (run, invocation key, generation).

    `payload` is null until a delivery was admitted: siblings may share one fence digest with other prose, and the first
    admitted payload is the one that is delivered (L1). `due_at` is the sweep's work list: a lease that runs out, or a
    grant that ends while an unknown delivery waits to be repeated. `not_before` holds a repetition back (L5).
    """

    class State(models.TextChoices):
        """Where an intent is (section 9)."""

        HELD = "held"
        READY = "ready"
        IN_FLIGHT = "in_flight"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        IN_DOUBT = "in_doubt"
        CANCELLED = "cancelled"

    id = fields.key()
    # References without a constraint: `intent_in_its_run` and `intent_payload_fixed` look them up.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="intents"
    )
    key = fields.identifier()
    generation = models.IntegerField()
    fence_digest = fields.digest()
    tool = fields.identifier(null=True)
    registry = models.BigIntegerField()
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    state = models.CharField(max_length=9, choices=State)
    not_before = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    # The outcome that settled it.
    outcome: models.ForeignKey[Any, Any] = models.ForeignKey(
        "fencing.Outcome", on_delete=models.PROTECT, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    opened_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key", "generation"], name="intent_once"),
            models.CheckConstraint(condition=Q(generation__gte=1), name="intent_generation_from_one"),
            models.CheckConstraint(
                condition=Q(state__in=["held", "ready", "in_flight", "succeeded", "failed", "in_doubt", "cancelled"]),
                name="intent_state_known",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="intent_due"),
            models.Index(fields=["tool", "opened_at"], condition=Q(state="ready"), name="intent_ready"),
            models.Index(fields=["opened_at"], condition=Q(state="in_doubt"), name="intent_in_doubt"),
            # Lists page by keyset, newest first (H6). What they ask for beside that is read out of the index.
            models.Index(F("opened_at").desc(), F("id").desc(), include=["state", "tool", "run"], name="intent_newest"),
            # What is on its way: counted whenever somebody asks.
            models.Index(fields=["state"], condition=Q(state__in=UNSETTLED), name="intent_unsettled"),
        ]
        triggers = [
            *counts.INTENTS,
            *triggers.kept("tool", "registry", "payload", "state", "not_before", "due_at", "settled_at", "outcome"),
            # An agreement on digests alone does not tell its tool yet (F5).
            triggers.WrittenOnce("tool"),
            triggers.Unchanged(
                name="intent_registry_fixed",
                fields=["registry"],
                sentence="T1, only a cancelled intent that is used again takes another registry",
                where="OLD.state <> 'cancelled'",
            ),
            triggers.Guard(name="intent_moves", operation=triggers.update_of("state"), func=STATE_GUARD),
            triggers.StatementGuard(name="intent_in_its_run", operation=pgtrigger.Insert, func=INTENT_GUARD),
            triggers.StatementGuard(
                name="intent_payload_fixed",
                operation=pgtrigger.Update,
                func=PAYLOAD_GUARD.replace("{may_be_out}", MAY_BE_OUT),
            ),
        ]


CLAIM_GUARD = """
SELECT min(CASE
    WHEN step.run_id IS DISTINCT FROM claim.run_id THEN 'claim_in_its_run: N2, the step lies in another run'
    WHEN intent.state IS NULL THEN 'claim_of_an_intent: L1, there is no such intent'
END) INTO wrong
FROM new_rows AS claim
LEFT JOIN LATERAL (SELECT run_id FROM fencing_step WHERE id = claim.step_id LIMIT 1) AS step ON true
LEFT JOIN LATERAL (SELECT state FROM fencing_intent WHERE id = claim.intent_id LIMIT 1) AS intent ON true;
"""


class Claim(models.Model):
    """That one step wants an intent. Lost claims are kept (L2)."""

    class State(models.TextChoices):
        """Whether the step may still have its effect (L2)."""

        OPEN = "open"
        WON = "won"
        LOST = "lost"

    id = fields.key()
    # References without a constraint: `claim_in_its_run` looks each of them up, and what it finds never goes.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, db_constraint=False, related_name="claims")
    step: models.ForeignKey[Any, Any] = models.ForeignKey(
        Step, on_delete=models.PROTECT, db_constraint=False, related_name="claims"
    )
    state = models.CharField(max_length=4, choices=State)
    claimed_at = fields.recorded_at()
    lost_at = models.DateTimeField(null=True)
    lost_reason = models.CharField(max_length=40, null=True)

    class Meta:
        constraints = [
            # A step wants one effect at a time; what it wanted before and lost stays on record.
            models.UniqueConstraint(fields=["step"], condition=~Q(state="lost"), name="claim_once"),
            models.CheckConstraint(condition=Q(state__in=["open", "won", "lost"]), name="claim_state_known"),
        ]
        triggers = [
            *triggers.kept("state", "lost_at", "lost_reason"),
            triggers.Unchanged(
                name="claim_lost_for_good",
                fields=["state", "lost_at", "lost_reason"],
                sentence="L2, a lost claim stays lost",
                where="OLD.state = 'lost'",
            ),
            triggers.StatementGuard(name="claim_in_its_run", operation=pgtrigger.Insert, func=CLAIM_GUARD),
        ]
