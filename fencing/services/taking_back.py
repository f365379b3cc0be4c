"""Moving a step's phase, and taking back a commit whose authority ended before its effect was admitted.

Giving authority is the fencer's alone (F9); taking it away happens here, in the transaction of the vote, the
revocation, the restart or the report that ends it.
"""

from __future__ import annotations

from typing import Any

from fencing.models import Claim
from fencing.models.facts import Facts, IntentFacts, StepFacts
from fencing.protocol import fence, intents, transitions
from fencing.services import undoing
from fencing.services.writes import Writes


def step_topic(run: str, step: str, epoch: int) -> str:
    """The topic on which waiting reads of a step wait."""
    return f"step:{run}/{step}/{epoch}"


def subject_of(step: StepFacts) -> str:
    """A step's name in the audit."""
    return f"{step.run.name}/{step.name}/{step.epoch}"


def touch(
    step: StepFacts, facts: Facts, writes: Writes, *, phase: fence.Phase, reason: fence.Reason | None, **more: Any
) -> None:
    """Move a step to a phase: its row, its audit, its line in the feed, and the waiting reads.

    `more` are further columns (`due_at`, `fenced_at`, …). The move must stand in the table of transitions.
    """
    before = step.phase
    if phase is not before and not transitions.allows(fence.TRANSITIONS, before, phase, reason):
        raise AssertionError(f"a step does not go from {before} to {phase} by {reason}")
    is_final = phase in (fence.Phase.REJECTED, fence.Phase.EXEMPT)
    columns: dict[str, Any] = {"phase": phase.value, "reason": None if reason is None else reason.value}
    if phase not in fence.UNDECIDED and step.row.get("decided_at") is None:
        columns["decided_at"] = facts.now
    columns |= {"due_at": None} if is_final else {}
    columns |= more
    step.row.update(
        {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in columns.items()}
    )
    writes.update("step", step.id, **columns)
    after = {"phase": phase.value, "reason": columns["reason"]}
    writes.audit("move_step", "step", subject_of(step), run=step.run.name, before={"phase": before.value}, after=after)
    writes.signal(step_topic(step.run.name, step.name, step.epoch))
    if phase in (fence.Phase.COMMITTED, fence.Phase.REJECTED, fence.Phase.EXEMPT):
        what = "revoked" if before is fence.Phase.COMMITTED else "decided"
        writes.feed(what, run_id=step.run.id, step_id=step.id, owner_group=step.run.owner_group)


def take_back(step: StepFacts, facts: Facts, writes: Writes) -> fence.Reason | None:
    """Take back a standing commit that lost its authority, unless its effect is admitted (F8, G5, R3).

    Gives the reason, or None where the commit stands on. Locks the intent: call it after all steps are locked.
    """
    reason = facts.lost_authority(step)
    if reason is None or step.commit is None:
        return None
    facts.lock_intents(ids=[step.commit.intent_id])
    intent = facts.intents[step.commit.intent_id]
    if intent.is_admitted:
        if intent.row["state"] == intents.State.READY:
            # Something unknown waits to be repeated, and may be no more: the sweep hands it to a person (L5).
            writes.update("intent", intent.id, due_at=facts.now)
            writes.wake("fence")
        return None
    close_commit(step, facts, writes, reason=reason)
    touch(step, facts, writes, phase=fence.Phase.REJECTED, reason=reason)
    return reason


def close_commit(step: StepFacts, facts: Facts, writes: Writes, *, reason: fence.Reason) -> None:
    """Close a standing commit and lose its claim; the intent follows its claims (L2, L7). The intent must be locked."""
    commit = step.commit
    if commit is None or not commit.stands:
        raise AssertionError("only a standing commit can be closed")
    commit.closed_at, commit.closed_reason = facts.now, reason.value
    writes.update("commit", commit.id, closed_at=facts.now, closed_reason=reason.value)
    subject = subject_of(step)
    writes.audit(
        "close_commit", "commit", commit.id, run=step.run.name, after={"step": subject, "reason": reason.value}
    )
    lose_claim(step, facts.intents[commit.intent_id], facts, writes, reason=reason)


def drop_claim(step: StepFacts, facts: Facts, writes: Writes, *, reason: fence.Reason) -> None:
    """Let go of what an undecided step claimed: an agreement that waited, and comes to nothing (L2)."""
    if step.phase is not fence.Phase.AGREED:
        return
    ids = [
        str(found)
        for found in Claim.objects.filter(step_id=step.id).exclude(state="lost").values_list("intent_id", flat=True)
    ]
    facts.lock_intents(ids=ids)
    for intent_id in ids:
        lose_claim(step, facts.intents[intent_id], facts, writes, reason=reason)
        if reason is not fence.Reason.BRANCH_LOST:
            # It may have been the last that wanted what a lost branch sent. What a reconciliation reaches, it tells.
            undoing.propose_if_owed(facts.intents[intent_id], facts, writes, run=step.run.name)


def lose_claim(step: StepFacts, intent: IntentFacts, facts: Facts, writes: Writes, *, reason: fence.Reason) -> None:
    """Mark a step's claim lost, and move the intent as its claims say (L2)."""
    for claim in intent.row["claims"]:
        if claim["step_id"] == step.id and claim["state"] != intents.ClaimState.LOST:
            claim["state"] = intents.ClaimState.LOST.value
            writes.update("claim", claim["id"], state="lost", lost_at=facts.now, lost_reason=reason.value)
            claim["is_committed"] = False
    move_intent(intent, intents.state_after_claims(intent.pure()), writes, run=step.run.name)
    undoing.follow(intent, facts, writes, run=step.run.name)


def move_intent(
    intent: IntentFacts, state: intents.State, writes: Writes, *, run: str, verb: str = "update", **more: Any
) -> None:
    """Move an intent to a state that the table of transitions allows, with its audit; `more` are further columns."""
    before = intents.State(intent.row["state"])
    if state is before and not more:
        return
    if state is not before and not transitions.allows(intents.TRANSITIONS, before, state):
        raise AssertionError(f"an intent does not go from {before} to {state}")
    columns = {"state": state.value, **more}
    intent.row.update(
        {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in columns.items()}
    )
    writes.update("intent", intent.id, verb=verb, **columns)
    if state is not before:
        writes.audit(
            "move_intent", "intent", intent.id, run=run, before={"state": before.value}, after={"state": state.value}
        )
        writes.signal(f"gateway:{intent.row['tool']}")
