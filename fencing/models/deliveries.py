"""Deliveries, each one try at an effect written before the call, and their outcomes. Both append-only (L3, L5)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q

from fencing.models import counts, fields, triggers
from fencing.models.actions import Action
from fencing.models.commits import Commit
from fencing.models.forks import refused_by_branch
from fencing.models.intents import Intent
from fencing.models.runs import Run

BRANCH_FORBIDS = refused_by_branch(run="commit.run_id", branch="step.branch", unless="state <> 'lost'")

# What a delivery is judged by, each looked up for its row of `delivery`.
FACTS = """
LEFT JOIN LATERAL (
    SELECT run_id, step_id, tool, authority, grant_id, intent_id, payload_id, fence_digest, closed_at
    FROM fencing_commit WHERE id = delivery.commit_id LIMIT 1
) AS commit ON true
LEFT JOIN LATERAL (SELECT phase, branch, registry FROM fencing_step WHERE id = commit.step_id LIMIT 1) AS step ON true
LEFT JOIN LATERAL (
    SELECT bool_or(digest <> commit.fence_digest) AS diverge, array_agg(path) AS paths
    FROM fencing_vote WHERE step_id = commit.step_id AND digest IS NOT NULL
) AS votes ON true
"""

# I2. Locks in the order of design 10: steps (so that no vote passes, F9), grants (so that no revocation does), intents
# (so that no other delivery does), and the commits themselves, which are closed under their steps' locks. The clock
# comes last. Nobody outside sees the rows that are judged here, so each of them counts the others as another delivery.
DELIVERY_GUARD = """
IF current_setting('transaction_isolation') <> 'read committed' THEN
    wrong := 'delivery_sees_every_vote: N4, deliveries are judged at READ COMMITTED';
ELSE
    SELECT bool_or(delivery.grant_id IS NOT NULL) INTO is_granted
    FROM (
        SELECT commit.step_id, commit.grant_id FROM new_rows AS fresh,
            LATERAL (SELECT step_id, grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit
        ORDER BY commit.step_id OFFSET 0
    ) AS delivery,
        LATERAL (SELECT FROM fencing_step WHERE id = delivery.step_id FOR NO KEY UPDATE) AS step;
    IF is_granted THEN
        PERFORM FROM (
            SELECT commit.grant_id FROM new_rows AS fresh,
                LATERAL (SELECT grant_id FROM fencing_commit WHERE id = fresh.commit_id LIMIT 1) AS commit
            ORDER BY commit.grant_id OFFSET 0
        ) AS delivery,
            LATERAL (SELECT FROM fencing_grant WHERE id = delivery.grant_id FOR SHARE) AS its;
    END IF;
    PERFORM FROM (SELECT intent_id FROM new_rows ORDER BY intent_id OFFSET 0) AS delivery,
        LATERAL (SELECT FROM fencing_intent WHERE id = delivery.intent_id FOR NO KEY UPDATE) AS intent;
    PERFORM FROM (SELECT commit_id FROM new_rows ORDER BY commit_id OFFSET 0) AS delivery,
        LATERAL (SELECT FROM fencing_commit WHERE id = delivery.commit_id FOR SHARE) AS commit;

    SELECT min(CASE
        WHEN commit.closed_at IS NOT NULL OR step.phase <> 'committed'
            THEN 'delivery_of_a_standing_commit: I2, the commit does not stand'
        WHEN (commit.run_id, intent.run_id, commit.intent_id)
            IS DISTINCT FROM (delivery.run_id, delivery.run_id, delivery.intent_id)
            THEN 'delivery_of_its_intent: I2, run and intent are those of the commit'
        WHEN commit.payload_id <> delivery.payload_id
            THEN 'delivery_of_the_committed_payload: I2, the payload is not the one that was committed'
        WHEN {branch_forbids} THEN 'delivery_of_no_lost_branch: B4, the branch is lost'
        -- L3: a second digest on record, however late, stops what has not left.
        WHEN votes.diverge THEN 'delivery_one_digest: L3, another digest is on record'
        WHEN intent.state <> 'ready' THEN 'delivery_when_ready: L3, the intent is ' || intent.state
        WHEN delivery.number <> coalesce(others.last_number, 0) + 1
            THEN 'delivery_in_order: L3, the next delivery has the next number'
        WHEN delivery.by_id IS NOT NULL AND credential.role IS NULL
            THEN 'delivery_by_a_key: N8, there is no such key'
        -- T5: this system calls push tools by itself, and no other.
        WHEN delivery.by_id IS NULL AND pushed.mode IS DISTINCT FROM 'push'
            THEN 'delivery_by_a_key: N8, a pull tool is called with a gateway''s key'
        -- L8: the very action happened without authority, and nobody said yet what becomes of that.
        WHEN escape.is_open THEN 'delivery_beside_no_escape: L8, an escape of this action awaits a person'
    END), bool_or(others.last_number IS NOT NULL) INTO wrong, is_repeated
    FROM new_rows AS delivery
    {facts}
    LEFT JOIN LATERAL (SELECT run_id, state, registry FROM fencing_intent WHERE id = delivery.intent_id LIMIT 1)
        AS intent ON true
    LEFT JOIN LATERAL (
        SELECT max(number) AS last_number FROM fencing_delivery
        WHERE intent_id = delivery.intent_id AND id <> delivery.id
    ) AS others ON true
    LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = delivery.by_id LIMIT 1) AS credential ON true
    LEFT JOIN LATERAL (
        SELECT mode FROM fencing_toolversion
        WHERE delivery.by_id IS NULL AND tool = commit.tool AND id <= intent.registry ORDER BY id DESC LIMIT 1
    ) AS pushed ON true
    LEFT JOIN LATERAL (
        SELECT is_open FROM fencing_observedeffect
        WHERE digest = delivery.payload_id AND match = 'escape' AND is_open LIMIT 1
    ) AS escape ON true;
END IF;

-- G5: authority by grant ends with the grant. F7: unless the late votes of all required paths stand beside it.
IF wrong IS NULL AND is_granted THEN
    SELECT min('delivery_under_a_live_grant: G5, the grant that alone authorizes has ended') INTO wrong
    FROM new_rows AS delivery
    {facts}
    LEFT JOIN LATERAL (
        SELECT revoked_at, voided_at, expired_at, expires_at FROM fencing_grant WHERE id = commit.grant_id LIMIT 1
    ) AS its ON true
    LEFT JOIN LATERAL (
        SELECT required_paths FROM fencing_toolversion
        WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1
    ) AS tool ON true
    WHERE commit.authority = 'grant' AND (tool.required_paths <@ votes.paths) IS NOT TRUE
        AND (its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL
            OR its.expires_at <= clock_timestamp());
END IF;

IF wrong IS NULL AND is_repeated THEN
    SELECT min(CASE
        -- One try at a time: who has no outcome yet may still be acting.
        WHEN outcomes.have_ended IS NULL THEN 'delivery_one_at_a_time: L3, another delivery is open'
        WHEN outcomes.have_succeeded THEN 'delivery_once: I3, the effect has happened'
        WHEN other.idempotency_key <> delivery.idempotency_key
            THEN 'delivery_same_key: L5, every try has the same idempotency key'
        -- L1: what left with other prose has to be settled first.
        WHEN other.payload_id <> delivery.payload_id AND NOT outcomes.are_definite
            THEN 'delivery_of_one_payload: L1, another payload of the intent may be out'
    END) INTO wrong
    FROM new_rows AS delivery,
        LATERAL (
            SELECT id, idempotency_key, payload_id FROM fencing_delivery
            WHERE intent_id = delivery.intent_id AND id <> delivery.id OFFSET 0
        ) AS other
    LEFT JOIN LATERAL (
        SELECT bool_or(true) AS have_ended, bool_or(outcome = 'succeeded') AS have_succeeded,
            bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) AS are_definite
        FROM fencing_outcome WHERE delivery_id = other.id AND is_effective
    ) AS outcomes ON true;
END IF;
"""


class Delivery(models.Model):
    """One admitted try. A trigger lets it in only for a standing commit with exactly the committed payload (I2).

    The row comes first: its intent has to be `ready`, and becomes `in_flight` after it, in the same transaction.
    """

    id = fields.key()
    # References without a constraint: `delivery_admissible` looks each of them up, and what it finds never goes.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    intent: models.ForeignKey[Any, Any] = models.ForeignKey(
        Intent, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="deliveries"
    )
    number = models.IntegerField()
    commit = models.ForeignKey(Commit, on_delete=models.PROTECT, db_constraint=False, related_name="deliveries")
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    idempotency_key = models.CharField(max_length=80)
    lease_until = models.DateTimeField()
    # The gateway's key; null where this system called a push tool itself.
    by = models.ForeignKey(
        "fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    admitted_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["intent", "number"], name="delivery_number_once")]
        indexes = [
            models.Index(fields=["idempotency_key"], name="delivery_by_key"),
            # L8: a ledger row without a key is matched by payload, across runs.
            models.Index(fields=["payload", "admitted_at"], name="delivery_by_payload"),
        ]
        triggers = [
            *triggers.append_only(),
            counts.DELIVERIES,
            triggers.StatementGuard(
                name="delivery_admissible",
                operation=pgtrigger.Insert,
                declare=[("is_granted", "boolean"), ("is_repeated", "boolean")],
                func=DELIVERY_GUARD.replace("{facts}", FACTS).replace("{branch_forbids}", BRANCH_FORBIDS),
            ),
        ]


OUTCOME_GUARD = """
SELECT min(CASE
    WHEN delivery.run_id IS DISTINCT FROM outcome.run_id
        THEN 'outcome_of_its_delivery: I2, an outcome belongs to a delivery of its run'
    WHEN outcome.by_id IS NOT NULL AND credential.role IS NULL THEN 'outcome_by_a_key: N8, there is no such key'
END) INTO wrong
FROM new_rows AS outcome
LEFT JOIN LATERAL (SELECT run_id FROM fencing_delivery WHERE id = outcome.delivery_id LIMIT 1) AS delivery ON true
LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = outcome.by_id LIMIT 1) AS credential ON true;
"""


class Outcome(models.Model):
    """What became of a delivery, by whom. Final but for `unknown`.

    One that came too late to move anything is kept with `is_effective` false. `not_happened` is a person's word (L6).
    """

    class Kind(models.TextChoices):
        """What became of it."""

        SUCCEEDED = "succeeded"
        FAILED = "failed"
        UNKNOWN = "unknown"
        BUSY = "busy"
        NOT_SENT = "not_sent"
        NOT_HAPPENED = "not_happened"

    class Source(models.TextChoices):
        """Who says so."""

        REPORT = "report"
        PUSH = "push"
        LEASE = "lease"
        PERSON = "person"

    id = fields.key()
    # Run, delivery and key without a constraint: `outcome_of_its_delivery` looks them up, and what it finds never goes.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    delivery = models.ForeignKey(Delivery, on_delete=models.PROTECT, db_constraint=False, related_name="outcomes")
    outcome = models.CharField(max_length=12, choices=Kind)
    source = models.CharField(max_length=6, choices=Source)
    is_effective = models.BooleanField()
    # Canonical JSON of the tool's answer, as bytes: `jsonb` cannot hold all of JSON.
    response = models.BinaryField(null=True)
    retry_after_s = models.FloatField(null=True)
    evidence = models.TextField(null=True)
    by = models.ForeignKey(
        "fencing.Credential",
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        db_constraint=False,
        related_name="+",
    )
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    recorded_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["delivery"],
                condition=Q(is_effective=True, outcome__in=["succeeded", "failed"]),
                name="outcome_settles_once",
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=["succeeded", "failed", "unknown", "busy", "not_sent", "not_happened"]),
                name="outcome_known",
            ),
            models.CheckConstraint(
                condition=~Q(outcome="not_happened") | Q(source="person", person__isnull=False),
                name="outcome_not_happened_by_a_person",
            ),
        ]
        triggers = [
            *triggers.append_only(),
            triggers.StatementGuard(name="outcome_of_its_delivery", operation=pgtrigger.Insert, func=OUTCOME_GUARD),
        ]
