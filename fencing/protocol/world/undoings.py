"""The one delivery of an approval in a world: its token, its call, its outcome, and the end of its lease (P5, P7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from fencing.protocol import approvals, deciding, undoing
from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Phase
from fencing.protocol.freezes import check_frozen
from fencing.protocol.intents import ClaimState, Delivery, Kind
from fencing.protocol.rules import retries_of
from fencing.protocol.world import following
from fencing.protocol.world.events import Admit, ReportUndoing
from fencing.protocol.world.records import Done, Incident, Result, Try, UndoingRecord
from fencing.protocol.world.turn import Turn

if TYPE_CHECKING:
    from fencing.protocol.claims import Claim


def release(turn: Turn) -> None:
    """Mint the tokens of what was approved (the fencer's alone, F9)."""
    for record in list(turn.undoings.values()):
        if record.state is State.APPROVED and record.action is not None and record.round not in record.released:
            turn.put_undoing(replace(record, released=(*record.released, record.round)))


def approved_by(token: str | None, turn: Turn) -> tuple[UndoingRecord, int] | None:
    """Find the compensation and the round that a token was minted for."""
    found = ((each, number) for each in turn.undoings.values() for number in each.released)
    return next(((each, number) for each, number in found if each.token(number) == token), None)


def admit(event: Admit, record: UndoingRecord, number: int, turn: Turn) -> Result:
    """Let the one call of an approval through, or refuse it (L3, L4, P5)."""
    run = turn.run if record.in_run else None
    definition = turn.definition(event.action.tool)
    refusal = approvals.judge(
        approvals.Call(action=event.action, run=None if event.step is None else turn.run, step=event.step),
        run=run,
        state=record.state,
        is_current=number == record.round,
        payload=record.digest or "",
        definition=definition,
    ) or check_frozen(turn.standing_freezes(), run=run, tool=event.action.tool)
    if refusal is not None:
        return turn.refuse(refusal)
    verdict = deciding.admit(
        record.state,
        record.tries_of(number),
        is_behind=_is_behind(record, turn),
        not_before=record.not_before,
        now=turn.now,
    )
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case deciding.Done():
            return Done(undoing=record.id)
        case deciding.Admitted():
            lease_until = turn.now + timedelta(seconds=retries_of(definition).lease_s)
            opened = Delivery(number=verdict.number, payload=event.action.payload_digest, lease_until=lease_until)
            tries = (*record.tries, Try(round=number, at=turn.now, delivery=opened))
            following.move(record, State.IN_FLIGHT, turn, tries=tries, not_before=None)
            return Done(undoing=record.id, number=verdict.number)


def _is_behind(record: UndoingRecord, turn: Turn) -> bool:
    """Whether a later effect of the run is approved, and not undone yet: it goes first (P7)."""
    before_it = (State.APPROVED, State.IN_FLIGHT, State.IN_DOUBT)
    return any(
        each.state in before_it and each.effect_at > record.effect_at
        for each in turn.undoings.values()
        if each.in_run and record.in_run and each.effect_at is not None and record.effect_at is not None
    )


def report(event: ReportUndoing, turn: Turn) -> Result:
    """Record what became of the delivery of an approval (P5)."""
    record = turn.undoings.get(event.undoing)
    found = None if record is None else _find(record, event.round, event.number)
    if record is None or found is None:
        return turn.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such delivery of this compensation."))
    recorded = _record(record, found, event.outcome, turn, retry_after_s=event.retry_after_s)
    if recorded.refusal is not None:
        return turn.refuse(recorded.refusal)
    return Done(duplicate=not recorded.is_news, undoing=record.id)


def _find(record: UndoingRecord, number: int, of: int) -> Try | None:
    return next((each for each in record.tries if (each.round, each.delivery.number) == (number, of)), None)


def _record(
    record: UndoingRecord, told: Try, outcome: Kind, turn: Turn, *, retry_after_s: float | None = None
) -> deciding.Recorded:
    current = record.tries_of(record.round)
    recorded = deciding.report(
        record.state,
        told.delivery,
        is_newest=bool(current) and told.round == record.round and current[-1].number == told.delivery.number,
        outcome=outcome,
        retry_after_s=retry_after_s,
        now=turn.now,
    )
    if recorded.is_news and recorded.is_effective:
        record = turn.put_undoing(_with_outcome(record, told, outcome))
    if recorded.is_news:
        _follow(record, recorded, turn)
    return recorded


def _with_outcome(record: UndoingRecord, told: Try, outcome: Kind) -> UndoingRecord:
    after = replace(told, delivery=replace(told.delivery, outcome=outcome))
    return replace(record, tries=tuple(after if each is told else each for each in record.tries))


def _follow(record: UndoingRecord, recorded: deciding.Recorded, turn: Turn) -> None:
    match recorded.state:
        case State.DONE:
            finish(record, turn)
        case State.PROPOSED:
            put_back(record, turn)
        case State.APPROVED:
            _wait_again(record, recorded, turn)
        case State.IN_DOUBT:
            following.move(record, State.IN_DOUBT, turn)
        case _:
            pass
    if recorded.has_conflict:
        turn.open_incident(Incident(kind="outcome_conflict", intent=record.intent, undoing=record.id))


def _wait_again(record: UndoingRecord, recorded: deciding.Recorded, turn: Turn) -> None:
    """Nothing was sent: it is sent again, unless somebody has come to want the effect (P4, P5, B5)."""
    after = State.APPROVED
    if record.effect is None and record.intent is not None:
        has_won = any(each.state is ClaimState.WON for each in _claimed_meanwhile(record, turn))
        after = undoing.state_after_claims(after, turn.intents[record.intent].facts, has_won=has_won)
    following.move(record, after, turn, not_before=recorded.not_before if after is State.APPROVED else None)


def put_back(record: UndoingRecord, turn: Turn) -> UndoingRecord:
    """It did not undo the effect after all: due again, unless somebody wants the effect by now (P4, P5)."""
    after = State.PROPOSED
    if record.effect is None and record.intent is not None:
        has_won = any(each.state is ClaimState.WON for each in _claimed_meanwhile(record, turn))
        after = undoing.state_after_failure(turn.intents[record.intent].facts, has_won=has_won)
    return following.move(record, after, turn, not_before=None)


def finish(record: UndoingRecord, turn: Turn) -> UndoingRecord:
    """It is undone: an escape is closed, and who wants the effect since gets a new generation of it (B6)."""
    meanwhile = _claimed_meanwhile(record, turn)
    done = following.move(record, State.DONE, turn, not_before=None)
    close_effect(done, turn)
    meanwhile = [each for each in meanwhile if not _is_taken_back(each, turn)]
    if meanwhile and done.intent is not None:
        following.open_next(turn.intents[done.intent], meanwhile, turn)
    return done


def _is_taken_back(claim: Claim, turn: Turn) -> bool:
    """Take a commit back whose authority ended while it waited for the undoing: nothing of it is out (F8, G5)."""
    record = turn.steps[claim.step, claim.epoch]
    reason = turn.lost_authority(record)
    if reason is None:
        return False
    turn.move(turn.close_commit(record, reason), Phase.REJECTED, reason)
    return True


def close_effect(record: UndoingRecord, turn: Turn) -> None:
    """What a person made of an escape stays: it holds nothing back any more (L8)."""
    for place, each in turn.effects.items():
        if record.effect is not None and place == (record.tool, record.effect):
            turn.effects[place] = replace(each, is_open=False)


def _claimed_meanwhile(record: UndoingRecord, turn: Turn) -> list[Claim]:
    """Claims that are not lost, and were made since the undoing began: nobody had them when it was approved.

    Where a late success made it doubtful, that approval has lapsed: it began with the calls of the last one.
    """
    tried = {each.round for each in record.tries}
    is_lapsed = record.state is State.IN_DOUBT and record.round not in tried
    began_in = max(tried, default=None) if is_lapsed else record.round
    began = min((each.at for each in record.tries if each.round == began_in), default=None)
    if record.effect is not None or record.intent is None or began is None:
        return []
    return [each for each in turn.intents[record.intent].claims if not each.is_lost and each.at >= began]


def expire_leases(turn: Turn) -> None:
    """Close leases of undoings that ran out: nobody knows, and no machine tries again (P5)."""
    for record in list(turn.undoings.values()):
        last = record.tries[-1] if record.tries and record.state is State.IN_FLIGHT else None
        if last is not None and last.delivery.is_open and turn.now >= last.delivery.lease_until:
            _record(record, last, Kind.UNKNOWN, turn)
