"""The fencer of a world: it alone agrees, fences and commits (F9), and sees whether what it committed still stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from fencing.protocol import claims, fence, grants, intents
from fencing.protocol.fence import Decision, Phase, Reason
from fencing.protocol.grants import Grant
from fencing.protocol.world import following, undoings
from fencing.protocol.world.events import Work
from fencing.protocol.world.records import Commit, Done, IntentRecord, Result, StepRecord
from fencing.protocol.world.turn import Impossible, Turn

Decider: TypeAlias = Callable[[fence.Step, fence.Rules, list[Grant], datetime, Callable[[str], bool]], Decision]
"""A decision on one step. The fence's own is `decide`; the simulator puts a common implementation beside it."""


def decide(
    step: fence.Step, rules: fence.Rules, grants: list[Grant], now: datetime, is_key_taken: Callable[[str], bool]
) -> Decision:
    """Decide as the fence does."""
    return fence.decide(step, rules=rules, grants=grants, now=now, is_key_taken=is_key_taken)


def work(_event: Work, turn: Turn, decider: Decider) -> Result:
    """Look at every step that is due, in the order of registration."""
    due = [place for place, each in turn.steps.items() if each.due_at is not None and each.due_at <= turn.now]
    for place in due:
        record = turn.steps[place]
        if record.phase is Phase.COMMITTED:
            _look_at_commit(record, turn)
        elif record.phase in fence.UNDECIDED and record.phase is not Phase.IDLE:
            _void_frozen_grants(record, turn)
            _apply(record, decision_on(record, turn, decider), turn)
        else:
            turn.put(record, due_at=None)
    undoings.release(turn)
    return Done(touched=tuple(due))


def _void_frozen_grants(record: StepRecord, turn: Turn) -> None:
    """End a grant by step alone as soon as its step tells that it is about a frozen tool (L10, G1)."""
    about = fence.tool_of(record.facts)
    for freeze in turn.standing_freezes():
        for name, each in turn.grants.items():
            is_its = each.facts.tool is None and (each.facts.step, each.facts.epoch) == record.place
            ends = grants.is_voided_by_freeze(each.facts, tool=freeze.tool, tool_of_step=about, now=turn.now)
            if is_its and ends:
                voided = replace(each.facts, voided_at=turn.now, void_reason=grants.FROZEN)
                turn.grants[name] = replace(each, facts=voided)


def decision_on(record: StepRecord, turn: Turn, decider: Decider = decide) -> Decision:
    """Decide one step from what is on record, without writing anything."""

    def is_key_taken(digest: str) -> bool:
        newest = newest_intent(record.key_for(digest), turn)
        own = newest is not None and newest.claim_of(record.place) is not None
        return claims.is_key_taken(None if newest is None else newest.facts, digest, has_own_claim=own)

    return decider(record.facts, turn.rules(record), turn.all_grants(), turn.now, is_key_taken)


def newest_intent(key: str, turn: Turn) -> IntentRecord | None:
    """The newest generation of a key."""
    found = (each for each in turn.intents.values() if each.key == key)
    return max(found, key=lambda each: each.facts.generation, default=None)


def _apply(record: StepRecord, decision: Decision, turn: Turn) -> None:
    match decision.phase:
        case Phase.PROPOSED:
            turn.drop_claim(record, Reason.SUPERSEDED)
            turn.move(record, decision.phase, None, due_at=decision.due_at, fenced_at=None, fenced_by=None)
        case Phase.REJECTED | Phase.EXEMPT:
            turn.drop_claim(record, decision.reason or Reason.DIVERGENCE)
            turn.move(record, decision.phase, decision.reason)
        case Phase.AGREED:
            _claim(record, decision, turn, is_committed=False)
            turn.move(record, decision.phase, decision.reason, due_at=None)
        case Phase.FENCED:
            fenced = {"fenced_at": decision.fenced_at, "fenced_by": decision.grant}
            turn.move(record, decision.phase, decision.reason, due_at=decision.due_at, **fenced)
        case Phase.COMMITTED:
            _commit(record, decision, turn)
        case Phase.IDLE:
            raise Impossible("nothing becomes idle by a decision")


def _commit(record: StepRecord, decision: Decision, turn: Turn) -> None:
    """Write a commit with its token, intent, claim and use of a grant (K1, G3)."""
    if decision.digest is None or decision.payload is None or decision.tool is None:
        raise Impossible("a commit binds a payload")
    intent = _claim(record, decision, turn, is_committed=True)
    commit = Commit(
        token=f"token-{1 + sum(each.commit is not None for each in turn.steps.values())}",
        tool=decision.tool,
        payload=decision.payload,
        digest=decision.digest,
        key=intent.key,
        authority="agreement" if decision.grant is None else "grant",
        grant=decision.grant,
        intent=intent.id,
        at=turn.now,
        expires_at=None if decision.grant is None else decision.due_at,
    )
    if decision.grant is not None:
        used = turn.grants[decision.grant]
        turn.grants[decision.grant] = replace(used, facts=replace(used.facts, uses=used.facts.uses + 1))
    turn.move(record, decision.phase, decision.reason, due_at=commit.expires_at, commit=commit)


def _claim(record: StepRecord, decision: Decision, turn: Turn, *, is_committed: bool) -> IntentRecord:
    """Find or open the intent that the step wants, with its claim (L1, L2)."""
    digest = decision.digest or ""
    intent = newest_intent(record.key_for(digest), turn)
    mine = None if intent is None else intent.claim_of(record.place)
    state = claims.state_of(record.facts.gate, is_committed=is_committed)
    at = turn.now if mine is None else mine.at
    claim = claims.Claim(
        step=record.facts.step, epoch=record.facts.epoch, state=state, at=at, is_committed=is_committed
    )
    if intent is None or mine is None:
        intent = _intent(record, decision, intent, turn)
        held = (*intent.claims, claim)
    else:
        held = tuple(claim if each is mine else each for each in intent.claims)
    wanted = turn.follow_claims(replace(intent, tool=intent.tool or decision.tool).with_claims(held))
    following.follow(wanted, turn, has_won=state is intents.ClaimState.WON)
    return turn.intents[wanted.id]


def _intent(record: StepRecord, decision: Decision, newest: IntentRecord | None, turn: Turn) -> IntentRecord:
    digest = decision.digest or ""
    generation = claims.generation_for(None if newest is None else newest.facts, digest)
    if newest is not None and newest.facts.generation == generation:
        return newest
    facts = intents.Intent(generation=generation, fence_digest=digest, state=intents.State.HELD)
    key = record.key_for(digest)
    return IntentRecord(id=f"intent-{len(turn.intents) + 1}", key=key, tool=decision.tool, facts=facts)


def _look_at_commit(record: StepRecord, turn: Turn) -> None:
    """The end of a grant takes back what rests on it alone (G5); a witness adds its authority (F7)."""
    commit = record.commit
    if commit is None or not commit.stands or turn.take_back(record) is not None:
        return
    is_alone = fence.rests_on_grant_alone(turn.pure_commit(commit), record.facts, turn.rules(record))
    if commit.authority == "grant" and not is_alone:
        commit = replace(commit, authority="both")
    end = commit.expires_at
    waits = commit.authority == "grant" and end is not None and end > turn.now
    turn.put(record, commit=commit, due_at=end if waits else None)
