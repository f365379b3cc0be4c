"""What people of a world do about effects that should not have stayed (P1 to P6)."""

from __future__ import annotations

from dataclasses import replace

from fencing.protocol import deciding, intents
from fencing.protocol.compensations import Cause, State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Kind
from fencing.protocol.world import following, ledger, undoings
from fencing.protocol.world.events import ApproveUndoing, Ask, Record, ResolveUndoing, Waive
from fencing.protocol.world.records import Approval, Done, EffectRecord, IntentRecord, Result, UndoingRecord
from fencing.protocol.world.turn import Turn


def approve(event: ApproveUndoing, turn: Turn) -> Result:
    """Approve exactly what was shown (P2 to P4)."""
    record = turn.undoings.get(event.undoing)
    if record is None:
        return turn.refuse(_none(event.undoing))
    verdict = deciding.approve(_facts(record, turn), person=_number(event.by), digest=event.digest)
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case deciding.Same():
            return Done(duplicate=True)
        case deciding.Approved():
            said = Approval(round=record.round, by=event.by, digest=event.digest)
            record = turn.put_undoing(replace(record, approvals=(*record.approvals, said)))
            if verdict.is_last:
                following.move(record, State.APPROVED, turn)
            return Done()


def waive(event: Waive, turn: Turn) -> Result:
    """Let an effect stand (P6)."""
    record = turn.undoings.get(event.undoing)
    if record is None:
        return turn.refuse(_none(event.undoing))
    if _is_same(record, State.WAIVED, event):
        return Done(duplicate=True)
    refusal = deciding.waive(_facts(record, turn), digest=event.digest)
    return turn.refuse(refusal) if refusal is not None else _end(record, State.WAIVED, event, turn)


def record(event: Record, turn: Turn) -> Result:
    """Record what was done by hand (P6)."""
    record = turn.undoings.get(event.undoing)
    if record is None:
        return turn.refuse(_none(event.undoing))
    if _is_same(record, State.DONE, event):
        return Done(duplicate=True)
    refusal = deciding.record(_facts(record, turn))
    return turn.refuse(refusal) if refusal is not None else _end(record, State.DONE, event, turn)


def _is_same(record: UndoingRecord, state: State, event: Waive | Record) -> bool:
    return record.state is state and record.said is not None and record.said.by == event.by


def _end(record: UndoingRecord, state: State, said: Waive | Record, turn: Turn) -> Done:
    undoings.close_effect(following.move(record, state, turn, said=said), turn)
    return Done()


def resolve(event: ResolveUndoing, turn: Turn) -> Result:
    """Say whether an undoing in doubt happened (P5)."""
    record = turn.undoings.get(event.undoing)
    if record is None:
        return turn.refuse(_none(event.undoing))
    refusal = deciding.resolve(_facts(record, turn))
    if refusal is not None:
        if record.resolved is None:
            return turn.refuse(refusal)
        if record.resolved == event:
            return Done(duplicate=True)
        return turn.refuse(Refusal(code=Code.ALREADY_DECIDED, detail="Somebody resolved it already."))
    kind = Kind.SUCCEEDED if event.happened else Kind.NOT_HAPPENED
    last = record.tries[-1]
    told = replace(last, delivery=replace(last.delivery, outcome=kind))
    record = turn.put_undoing(replace(record, tries=(*record.tries[:-1], told), resolved=event))
    undoings.finish(record, turn) if event.happened else undoings.put_back(record, turn)
    return Done()


def ask(event: Ask, turn: Turn) -> Result:
    """Ask that an effect be undone, with a reason (P1)."""
    intent = turn.intents.get(event.intent or "")
    effect = ledger.escape_named(event.effect or "", turn)
    if intent is not None:
        return _ask_of_intent(event, intent, turn)
    if effect is not None:
        return _ask_of_effect(event, effect, turn)
    return turn.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such effect."))


def _ask_of_intent(event: Ask, intent: IntentRecord, turn: Turn) -> Result:
    newest = turn.newest_undoing(intent.id)
    if newest is not None and newest.is_open:
        return _there_already(newest, event, turn)
    if intent.facts.state is not intents.State.SUCCEEDED or (newest is not None and newest.state is State.DONE):
        return turn.refuse(Refusal(code=Code.NOTHING_TO_UNDO, detail="Only what succeeded is undone, and once."))
    return Done(undoing=following.propose(intent, turn, Cause.REQUESTED, requester=event.by).id)


def _ask_of_effect(event: Ask, effect: EffectRecord, turn: Turn) -> Result:
    acts = ledger.acts_about(effect, turn)
    still = next((each for each in acts if each.is_open), None)
    if still is not None:
        return _there_already(still, event, turn)
    if effect.adopted is not None or any(each.state is State.DONE for each in acts):
        return turn.refuse(Refusal(code=Code.NOTHING_TO_UNDO, detail="It is wanted by now, or undone already."))
    needed = acts[-1].needed if acts else 1
    return Done(undoing=ledger.propose(effect, turn, Cause.REQUESTED, needed=needed, requester=event.by).id)


def _there_already(record: UndoingRecord, event: Ask, turn: Turn) -> Result:
    if record.requester == event.by:
        return Done(duplicate=True, undoing=record.id)
    return turn.refuse(Refusal(code=Code.ALREADY_PROPOSED, detail=f"{record.id} is {record.state.value}."))


def _facts(record: UndoingRecord, turn: Turn) -> deciding.Undoing:
    intent = None if record.intent is None else turn.intents[record.intent]
    is_known = record.effect is not None or intent is None or intent.facts.state is intents.State.SUCCEEDED
    approvals = (each for each in record.approvals if each.round == record.round)
    return deciding.Undoing(
        state=record.state,
        digest=record.digest,
        needed=record.needed,
        approvals=tuple(deciding.Approval(person=_number(each.by), digest=each.digest) for each in approvals),
        is_known=is_known,
        requester=None if record.requester is None else _number(record.requester),
        barred=frozenset() if intent is None else frozenset(_number(each) for each in intent.behind),
    )


def _number(person: str) -> int:
    """The core counts people; here they have names."""
    return int.from_bytes(person.encode())


def _none(undoing: str) -> Refusal:
    return Refusal(code=Code.NOT_FOUND, detail=f"There is no compensation {undoing}.")
