"""Attempts, their epochs and fragments; the work that is handed out, permits for model calls, and what they cost.

I4 stands here: a fragment is inserted under the attempt's lock, for the open epoch alone, and only while nothing is
published. A restart and a publication take that lock alone, so that no fragment slips in beside them.
"""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import F, Q

from fencing.models import counts, fields, triggers
from fencing.models.credentials import Credential
from fencing.models.lanes import Lane

MAX_FLOAT = 1.7976931348623157e308
FINITE = Q(score__isnull=True) | Q(score__gte=-MAX_FLOAT, score__lte=MAX_FLOAT)

# A3, A4: an epoch is followed by the next one and closed by a restart on record; published is what has a grade. The row
# is locked as a whole first, so that whoever inserts a fragment beside it is through, or comes after it.
ATTEMPT_GUARD = """
PERFORM 1 FROM fencing_attempt WHERE id = NEW.id FOR UPDATE;
wrong := CASE
    WHEN OLD.state = 'published' AND (NEW.state <> OLD.state OR NEW.epoch <> OLD.epoch)
        THEN 'attempt_moves: A4, a published attempt is never opened or restarted'
    WHEN NEW.epoch <> OLD.epoch AND (NEW.epoch <> OLD.epoch + 1 OR NOT EXISTS (
        SELECT FROM fencing_attemptepoch WHERE attempt_id = NEW.id AND number = NEW.epoch))
        THEN 'attempt_moves: A3, a restart opens the next epoch, and is on record'
    WHEN NEW.state = 'published' AND NOT EXISTS (
        SELECT FROM fencing_grade WHERE attempt_id = NEW.id AND epoch = NEW.epoch)
        THEN 'attempt_moves: A4, an attempt is published by its grade'
END;
"""

# A2, A6: what belongs to an attempt is of its open epoch, and of a fragment that it has.
OPEN_GUARD = """
PERFORM 1 FROM fencing_attempt WHERE id IN (SELECT attempt_id FROM new_rows) ORDER BY id FOR KEY SHARE;
SELECT min(CASE
    WHEN attempt.id IS NULL THEN '{name}: A2, there is no such attempt'
    WHEN attempt.epoch <> fresh.epoch THEN '{name}: A2, its epoch is not the open one'
    WHEN attempt.state <> 'open' THEN '{name}: A2, the attempt is published'
    WHEN fresh.seq < 0 OR fresh.seq >= attempt.expected THEN '{name}: A2, the attempt has no such fragment'
    {more}
END) INTO wrong
FROM new_rows AS fresh
LEFT JOIN LATERAL (SELECT * FROM fencing_attempt WHERE id = fresh.attempt_id LIMIT 1) AS attempt ON true;
"""
PERMITTED = """
    WHEN attempt.require_permits AND fresh.permit_id IS NULL THEN '{name}: A6, the fragment has no permit'
    WHEN fresh.permit_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM fencing_permit WHERE id = fresh.permit_id AND attempt_id = fresh.attempt_id AND epoch = fresh.epoch
            AND seq = fresh.seq) THEN '{name}: A6, the permit is for another fragment'
"""
SPEND_GUARD = """
PERFORM 1 FROM fencing_attempt WHERE id = NEW.attempt_id FOR KEY SHARE;
SELECT CASE
    WHEN permit.attempt_id <> NEW.attempt_id OR permit.epoch <> NEW.epoch OR permit.seq <> NEW.seq
        THEN 'spend_of_its_epoch: A6, spend is of what its permit was for'
    WHEN NEW.is_zombie <> (attempt.epoch <> NEW.epoch)
        THEN 'spend_of_its_epoch: A6, spend is zombie spend when its epoch is closed'
END INTO wrong
FROM fencing_permit AS permit, fencing_attempt AS attempt
WHERE permit.id = NEW.permit_id AND attempt.id = NEW.attempt_id;
"""


def of_open_epoch(name: str, more: str = "") -> triggers.StatementGuard:
    """Make the guard of rows that may be added for the open epoch of an attempt alone."""
    func = OPEN_GUARD.format(name=name, more=more.format(name=name))
    return triggers.StatementGuard(name=name, operation=pgtrigger.Insert, func=func)


class Attempt(models.Model):
    """A scoring job: how many fragments make it whole, and its one open epoch (A1).

    `work_at` is when there may be something to hand out; null when there is nothing until a restart.
    """

    id = fields.key()
    name = fields.identifier(unique=True)
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="attempts")
    expected = models.IntegerField()
    require_permits = models.BooleanField(default=False)
    has_inputs = models.BooleanField(default=False)
    regrade_of: models.ForeignKey[Any, Any] = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, related_name="regrades"
    )
    content_digest = fields.digest()
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    epoch = models.BigIntegerField(default=1)
    state = models.CharField(max_length=9, choices=[("open", "open"), ("published", "published")], default="open")
    work_at = models.DateTimeField(null=True)
    made_at = fields.recorded_at()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(expected__gte=1, epoch__gte=1), name="attempt_expects")]
        indexes = [
            models.Index(F("lane"), F("made_at").desc(), F("id").desc(), name="attempt_of_lane"),
            models.Index(F("lane"), F("id"), condition=Q(state="open"), name="attempt_open"),
            models.Index(
                F("lane"), F("work_at"), F("id"), condition=Q(work_at__isnull=False), name="attempt_with_work"
            ),
        ]
        triggers = [
            *triggers.kept("epoch", "state", "work_at"),
            triggers.Guard(
                name="attempt_begins_open",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.state <> 'open' OR NEW.epoch <> 1"),
                func=triggers.refused("attempt_begins_open", "A1, an attempt begins open, in epoch 1"),
            ),
            triggers.LookupGuard(
                name="attempt_moves", operation=triggers.update_of("epoch", "state"), func=ATTEMPT_GUARD
            ),
        ]


class AttemptInput(models.Model):
    """What a worker scores for one fragment, as the publisher gave it: canonical JSON."""

    id = fields.key()
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="inputs")
    seq = models.IntegerField()
    value = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "seq"], name="attempt_input_once")]
        triggers = triggers.append_only()


class AttemptEpoch(models.Model):
    """The beginning of an attempt, or a restart: why, by whom, and how many fragments it dropped (A3)."""

    id = fields.key()
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="epochs")
    number = models.BigIntegerField()
    reason = models.TextField(default="")
    dropped = models.IntegerField(default=0)
    content_digest = fields.digest(null=True)
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    opened_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "number"], name="attempt_epoch_once")]
        triggers = [
            *triggers.append_only(),
            counts.SUPERSEDED,
            triggers.Guard(
                name="attempt_epoch_opened",
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                operation=pgtrigger.Insert,
                func="""
                SELECT 'attempt_epoch_opened: A3, a restart on record opens its epoch' INTO wrong
                FROM fencing_attempt WHERE id = NEW.attempt_id AND epoch < NEW.number;
                """,
            ),
        ]


class Permit(models.Model):
    """Leave for one model call for a fragment (A6). Its token is stored as it was given: asked again it is the same."""

    id = fields.key()
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="+")
    epoch = models.BigIntegerField()
    seq = models.IntegerField()
    number = models.IntegerField()
    token = models.TextField()
    kid = models.CharField(max_length=64)
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    issued_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "epoch", "seq", "by", "number"], name="permit_once"),
        ]
        triggers = [*triggers.append_only(), of_open_epoch("permit_of_open_epoch")]


class Fragment(models.Model):
    """One accepted partial score (A1, A2): the first of its epoch and seq. `body` is canonical JSON."""

    id = fields.key()
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="fragments")
    epoch = models.BigIntegerField()
    seq = models.IntegerField()
    body = models.BinaryField()
    digest = fields.digest()
    score = models.FloatField(null=True)
    permit = models.ForeignKey(Permit, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    received_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "epoch", "seq"], name="fragment_once"),
            models.CheckConstraint(condition=FINITE, name="fragment_score_finite"),
        ]
        triggers = [*triggers.append_only(), of_open_epoch("fragment_of_open_epoch", PERMITTED)]


class FragmentLease(models.Model):
    """That a fragment was handed to a worker until a moment; then it is handed out again, in the same epoch."""

    id = fields.key()
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="leases")
    epoch = models.BigIntegerField()
    seq = models.IntegerField()
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    leased_at = fields.recorded_at()
    lease_until = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(F("attempt"), F("epoch"), F("seq"), F("lease_until").desc(), name="lease_of_fragment"),
        ]
        triggers = [*triggers.append_only(), of_open_epoch("lease_of_open_epoch")]


class Spend(models.Model):
    """What one model call used, and what that cost by the operator's prices of that moment; null without a price."""

    id = fields.key()
    permit: models.OneToOneField[Any, Any] = models.OneToOneField(
        Permit, on_delete=models.PROTECT, related_name="spend"
    )
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="+")
    epoch = models.BigIntegerField()
    seq = models.IntegerField()
    model = models.CharField(max_length=200, null=True)
    tokens_in = models.BigIntegerField()
    tokens_out = models.BigIntegerField()
    cost = models.DecimalField(max_digits=24, decimal_places=9, null=True)
    currency = models.CharField(max_length=10, null=True)
    is_zombie = models.BooleanField()
    answered = models.CharField(max_length=6)
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    reported_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(tokens_in__gte=0, tokens_out__gte=0), name="spend_of_tokens"),
            models.CheckConstraint(
                condition=Q(cost__isnull=True, currency__isnull=True) | Q(cost__gte=0, currency__isnull=False),
                name="spend_in_a_currency",
            ),
        ]
        indexes = [models.Index(fields=["attempt", "epoch", "seq"], name="spend_of_attempt")]
        triggers = [
            *triggers.append_only(),
            counts.SPEND,
            triggers.LookupGuard(name="spend_of_its_epoch", operation=pgtrigger.Insert, func=SPEND_GUARD),
        ]
