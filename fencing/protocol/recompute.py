"""What stored states must be, recomputed from the facts alone.

A state column exists where a worker must find its work; the facts are the truth. These functions say, from the facts,
which states may stand there. Nothing here reads the stored state that it judges, except as the word to be checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from fencing.protocol import claims, fence, grants, intents


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step with everything that was recorded for it. Votes carry whether they came after the decision."""

    step: fence.Step
    rules: fence.Rules
    reason: str | None
    is_proposed: bool
    late: tuple[bool, ...]
    decided_at: datetime | None
    closed_reason: str | None
    authority: str | None
    run_epoch: int
    is_key_taken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PastGrant:
    """A grant with the moments of its uses and approvals, so that it can be seen as it was.

    `live_at` is when its life began, None where it never did.
    """

    grant: grants.Grant
    issued_at: datetime
    live_at: datetime | None
    used_at: tuple[datetime, ...]
    approved_at: tuple[datetime, ...]

    def at(self, moment: datetime) -> grants.Grant | None:
        """The grant as it was at a moment; None before it was issued."""
        if moment < self.issued_at:
            return None
        grant = self.grant
        return replace(
            grant,
            uses=sum(1 for used in self.used_at if used < moment),
            approvals=sum(1 for approved in self.approved_at if approved <= moment),
            expires_at=None if _past(self.live_at, moment) is None else grant.expires_at,
            reviewed_at=_past(grant.reviewed_at, moment),
            revoked_at=_past(grant.revoked_at, moment),
            voided_at=_past(grant.voided_at, moment),
            expired_at=_past(grant.expired_at, moment),
        )


def _past(at: datetime | None, moment: datetime) -> datetime | None:
    return at if at is not None and at <= moment else None


def fault_of_step(record: StepRecord, run_grants: Iterable[PastGrant]) -> str | None:
    """Say what is wrong with a step's stored phase and reason, or None."""
    stored = (record.step.phase.value, record.reason)
    if record.authority is not None:
        expected = _of_commit(record)
        return None if stored == expected else f"stored {stored}, its commit says {expected}"
    if not record.is_proposed:
        return _fault_of_idle(record, stored)
    if record.reason == fence.Reason.SUPERSEDED:
        is_closed = record.step.epoch < record.run_epoch
        return None if is_closed else "stored as superseded, and its epoch is open"
    if record.reason == fence.Reason.BRANCH_LOST:
        return None if record.step.gate.is_lost else "stored as lost with its branch, and its branch is not lost"
    if record.decided_at is None:
        return None if record.step.phase in fence.UNDECIDED else f"stored {stored} without a decision"
    decision = _decided(record, run_grants, record.decided_at)
    expected = (decision.phase.value, None if decision.reason is None else decision.reason.value)
    return None if stored == expected else f"stored {stored}, the facts say {expected}"


def _of_commit(record: StepRecord) -> tuple[str, str | None]:
    if record.closed_reason is None:
        return (fence.Phase.COMMITTED.value, "agreement" if record.authority == "agreement" else "grant")
    if record.closed_reason == fence.Reason.EFFECT_FAILED:
        return (fence.Phase.COMMITTED.value, record.closed_reason)
    return (fence.Phase.REJECTED.value, record.closed_reason)


def _fault_of_idle(record: StepRecord, stored: tuple[str, str | None]) -> str | None:
    if record.step.gate.is_lost and stored == (fence.Phase.REJECTED.value, "branch_lost"):
        return None
    is_closed = record.step.epoch < record.run_epoch
    expected = (fence.Phase.REJECTED.value, "superseded") if is_closed else (fence.Phase.IDLE.value, None)
    return None if stored == expected else f"stored {stored}, without a proposal it is {expected}"


def _decided(record: StepRecord, run_grants: Iterable[PastGrant], at: datetime) -> fence.Decision:
    """Decide again, from what was on record at the moment of the decision."""
    early = tuple(vote for vote, is_late in zip(record.step.votes, record.late, strict=True) if not is_late)
    if record.rules.is_read_only and record.step.pinned_tool is not None and not early:
        return fence.Decision(phase=fence.Phase.EXEMPT, reason=fence.Reason.READ_ONLY)
    past = [grant for each in run_grants if (grant := each.at(at)) is not None]
    # What a branch may came and went with time; that it was lost is asked before, and had no part in this decision.
    step = replace(record.step, votes=early, phase=fence.Phase.PROPOSED, gate=fence.TRUNK)
    return fence.decide(step, rules=record.rules, grants=past, now=at, is_key_taken=lambda _digest: record.is_key_taken)


def allowed_states(intent: intents.Intent, *, settled: str | None) -> frozenset[intents.State]:
    """Give the states that an intent's claims, deliveries and outcomes allow. `settled` is the outcome that settled it.

    Where something is unknown it depends on the moments of the past whether it may still be repeated or went to a
    person: both may stand.
    """
    if settled is not None:
        return frozenset({intents.State(settled)})
    outcomes = [delivery.outcome for delivery in intent.deliveries]
    if None in outcomes and not intent.is_contradicted:
        return frozenset({intents.State.IN_FLIGHT})
    if intent.is_contradicted or intents.Kind.FAILED in outcomes:
        return frozenset({intents.State.IN_DOUBT})
    if intents.Kind.UNKNOWN in outcomes:
        return frozenset({intents.State.READY, intents.State.IN_DOUBT})
    if all(state is intents.ClaimState.LOST for state in intent.claims):
        return frozenset({intents.State.CANCELLED})
    return frozenset({intents.State.READY if intent.may_act else intents.State.HELD})


def claim_state(*, phase: fence.Phase, stands: bool | None, gate: fence.Gate = fence.TRUNK) -> intents.ClaimState:
    """Give the state of a step's newest claim (L2): `stands` tells of its commit, None where it has none."""
    if stands is False or (stands is None and phase is not fence.Phase.AGREED):
        return intents.ClaimState.LOST
    return claims.state_of(gate, is_committed=stands is not None)
