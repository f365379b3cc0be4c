"""What becomes of an effect's undoing in a world, as claims and outcomes come and go (P1, P2, P4, B4 to B6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fencing.protocol import compensations, intents, undoing
from fencing.protocol.compensations import Cause, State
from fencing.protocol.intents import ClaimState
from fencing.protocol.policies import Policy
from fencing.protocol.world.records import IntentRecord, UndoingRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fencing.protocol.actions import Action
    from fencing.protocol.claims import Claim
    from fencing.protocol.strict_json import Json
    from fencing.protocol.world.turn import Turn


def follow(intent: IntentRecord, turn: Turn, *, has_won: bool = False) -> State | None:
    """Let what would undo an effect follow the intent's claims and outcome; give its new state, None for none."""
    record = turn.newest_undoing(intent.id)
    if record is None or record.state not in compensations.WITHDRAWABLE:
        return None
    after = undoing.state_after_claims(record.state, intent.facts, has_won=has_won)
    action = record.action if after is State.WITHDRAWN else build(intent.tool, intent.action, turn)
    is_changed = action != record.action
    if after is not record.state or is_changed:
        move(replace(record, action=action), after, turn, is_changed=is_changed)
    return after


def move(record: UndoingRecord, after: State, turn: Turn, *, is_changed: bool = False, **columns: Any) -> UndoingRecord:
    """Move a compensation. Approvals that are worth nothing any more are those of an earlier round (P2, P4, P5)."""
    if compensations.lapses(record.state, after, is_changed=is_changed):
        columns["round"] = record.round + 1
    return turn.put_undoing(replace(record, state=after, **columns))


def build(tool: str | None, action: Action | None, turn: Turn) -> Action | None:
    """Build the exact action that would undo an effect (P2); None where a person does it by hand (P6)."""
    told: Json = None if action is None else {"tool": action.tool, "args": action.args}
    return compensations.undoing(turn.definition(tool), told, None, turn.tools)


def needed(tool: str | None, turn: Turn) -> int:
    """How many people approve the undoing of a tool's effect (P3)."""
    definition = turn.definition(tool)
    return (Policy() if definition is None else definition.policy).compensation_approvals


def new_id(turn: Turn) -> str:
    """Name the next compensation."""
    return f"undoing-{len(turn.undoings) + 1}"


def propose(intent: IntentRecord, turn: Turn, cause: Cause, *, requester: str | None = None) -> UndoingRecord:
    """Propose to undo the effect of an intent (P1). It may be held at once (P4)."""
    made = UndoingRecord(
        id=new_id(turn),
        tool=intent.tool,
        cause=cause,
        state=State.HELD if ClaimState.OPEN in intent.facts.claims else State.PROPOSED,
        needed=needed(intent.tool, turn),
        action=build(intent.tool, intent.action, turn),
        intent=intent.id,
        effect_at=intent.left_at,
        requester=requester,
    )
    return turn.put_undoing(made)


def propose_if_owed(intent: IntentRecord, turn: Turn) -> str | None:
    """Propose to undo what a lost branch sent and nobody wants (B4); give the id of the compensation."""
    newest = turn.newest_undoing(intent.id)
    state = None if newest is None else newest.state
    is_of_lost_branch = any(turn.steps[each.step, each.epoch].facts.gate.is_lost for each in intent.claims)
    if not undoing.is_owed(intent.facts, state, is_of_lost_branch=is_of_lost_branch):
        return None
    return propose(intent, turn, Cause.BRANCH_LOST).id


def open_next(intent: IntentRecord, wanting: Sequence[Claim], turn: Turn) -> None:
    """Give an effect that is undone, and wanted again meanwhile, its next generation, with these claims (B6)."""
    held = tuple(replace(each, at=turn.now) for each in wanting)
    generation = intent.facts.generation + 1
    facts = intents.Intent(generation=generation, fence_digest=intent.facts.fence_digest, state=intents.State.HELD)
    made = IntentRecord(id=f"intent-{len(turn.intents) + 1}", key=intent.key, tool=intent.tool, facts=facts)
    made = made.with_claims(held)
    state = intents.State.READY if made.facts.may_act else intents.State.HELD
    turn.intents[made.id] = replace(made, facts=replace(made.facts, state=state))
    lost = tuple(
        replace(each, state=ClaimState.LOST, is_committed=False) if each in wanting else each for each in intent.claims
    )
    turn.intents[intent.id] = intent.with_claims(lost)
    for each in wanting:
        record = turn.steps[each.step, each.epoch]
        if record.commit is not None and record.commit.stands and record.commit.intent == intent.id:
            turn.put(record, commit=replace(record.commit, intent=made.id))
