"""What tools' own ledgers say in a world: matched with what was delivered, and adopted by a person (L8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fencing.protocol import adopting, compensations, intents, ledgers
from fencing.protocol.actions import Action
from fencing.protocol.compensations import Cause
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Delivery
from fencing.protocol.ledgers import Match, Seen, Wanted
from fencing.protocol.world import following
from fencing.protocol.world.events import Adopt, Observe
from fencing.protocol.world.records import Done, EffectRecord, Incident, Result, UndoingRecord
from fencing.protocol.world.turn import Turn


def has_open_escape(payload: str, turn: Turn) -> bool:
    """Whether this very action happened without authority, and waits for a person."""
    return any(each.digest == payload and each.match is Match.ESCAPE and each.is_open for each in turn.effects.values())


def observe(event: Observe, turn: Turn) -> Result:
    """Match a ledger row, and record it."""
    known = turn.effects.get((event.tool, event.external_id))
    digest = None if event.action is None else event.action.payload_digest
    if known is not None:
        return _again(event, digest, known, turn)
    seen = Seen(tool=event.tool, digest=digest, key=event.of)
    matched = ledgers.match(seen, of_key=_of_key(event.of, turn), of_payload=list(_of_payload(digest, turn)))
    wanted = matched.wanted
    told = digest or (None if wanted is None else wanted.digest)
    record = EffectRecord(
        asked=event,
        match=matched.match,
        at=turn.now,
        tool=event.tool,
        digest=told,
        action=event.action or _stored(told, turn),
        intent=None if wanted is None else wanted.intent,
        undoing=None if wanted is None else wanted.compensation,
        is_open=matched.match in (Match.ESCAPE, Match.DOUBLED),
    )
    turn.effects[event.tool, event.external_id] = record
    if record.is_open:
        _alarm(record, turn)
    elif matched.contradicts and record.intent is not None:
        turn.contradict(record.intent)
    return Done(match=matched.match, intent=record.intent)


def _again(event: Observe, digest: str | None, known: EffectRecord, turn: Turn) -> Result:
    told = ((digest, known.digest), (event.of, known.asked.of))
    if any(new is not None and old is not None and new != old for new, old in told):
        detail = f"The ledger row {event.external_id} of {event.tool} was told with other content."
        return turn.refuse(Refusal(code=Code.EFFECT_CONFLICT, detail=detail, pointer="/external_id"))
    return Done(duplicate=True, match=known.match, intent=known.intent)


def _stored(digest: str | None, turn: Turn) -> Action | None:
    sent = (action for intent in turn.intents.values() for action in intent.sent)
    undone = (each.action for each in turn.undoings.values() if each.action is not None)
    return next((each for each in (*sent, *undone) if each.payload_digest == digest), None)


def _of_key(of: str | None, turn: Turn) -> Wanted | None:
    """What our idempotency key names, None where we never gave it."""
    intent = turn.intents.get(of or "")
    if intent is not None:
        named = _named(intent.facts.deliveries)
        has_effect = any(each.intent == of and each.match is Match.INTENT for each in turn.effects.values())
        return None if named is None else _wanted(named, turn, intent=intent.id, has_effect=has_effect)
    for undoing in turn.undoings.values():
        for number in undoing.released:
            named = _named(undoing.tries_of(number)) if undoing.token(number) == of else None
            if named is not None:
                rows = (each for each in turn.effects.values() if each.match is Match.COMPENSATION)
                has_effect = any(each.asked.of == of for each in rows)
                return _wanted(named, turn, compensation=undoing.id, has_effect=has_effect)
    return None


def _named(deliveries: tuple[Delivery, ...]) -> Delivery | None:
    """Of the deliveries of one key, the newest that may be out, else the newest."""
    return max(deliveries, key=lambda each: (each.may_be_out, each.number), default=None)


def _of_payload(digest: str | None, turn: Turn) -> Iterator[Wanted]:
    """The deliveries of a payload that may have done it and have no row yet: effects, then undoings, oldest first."""
    if digest is None:
        return
    taken = {each.intent for each in turn.effects.values() if each.match is Match.INTENT}
    for intent in turn.intents.values():
        first = next((each for each in intent.facts.deliveries if each.may_be_out), None)
        if first is not None and first.payload == digest and intent.id not in taken:
            yield _wanted(first, turn, intent=intent.id, has_effect=False)
    seen = sum(each.match is Match.COMPENSATION and each.digest == digest for each in turn.effects.values())
    tries = [(each, undoing) for undoing in turn.undoings.values() for each in undoing.tries]
    out = [each for each in tries if each[0].delivery.may_be_out and each[0].delivery.payload == digest]
    for each, undoing in sorted(out, key=lambda pair: pair[0].at)[seen:]:
        yield _wanted(each.delivery, turn, compensation=undoing.id, has_effect=False)


def _wanted(
    delivery: Delivery, turn: Turn, *, has_effect: bool, intent: str | None = None, compensation: str | None = None
) -> Wanted:
    action = _stored(delivery.payload, turn)
    return Wanted(
        tool="" if action is None else action.tool,
        digest=delivery.payload,
        delivery=str(delivery.number),
        intent=intent,
        compensation=compensation,
        may_be_out=delivery.may_be_out,
        has_effect=has_effect,
    )


def _alarm(record: EffectRecord, turn: Turn) -> None:
    """Call a person to an effect that should not be there, and propose what would undo it (P1)."""
    is_escape = record.match is Match.ESCAPE
    cause = Cause.LANDED_ESCAPE if is_escape else Cause.DOUBLED
    turn.open_incident(Incident(kind=cause.value, intent=record.intent, effect=record.id))
    propose(record, turn, cause, needed=following.needed(record.tool, turn))


def propose(
    record: EffectRecord, turn: Turn, cause: Cause, *, needed: int, requester: str | None = None
) -> UndoingRecord:
    """Propose to undo a ledger row that should not be there (P1)."""
    made = UndoingRecord(
        id=following.new_id(turn),
        tool=record.tool,
        cause=cause,
        state=compensations.State.PROPOSED,
        needed=needed,
        action=following.build(record.tool, record.action, turn),
        intent=record.intent,
        effect=record.id,
        effect_at=record.at,
        in_run=record.match is Match.DOUBLED,
        requester=requester,
    )
    return turn.put_undoing(made)


def acts_about(record: EffectRecord, turn: Turn) -> list[UndoingRecord]:
    """What would undo a ledger row, oldest first."""
    return [each for each in turn.undoings.values() if (each.tool, each.effect) == (record.tool, record.id)]


def escape_named(effect: str, turn: Turn) -> EffectRecord | None:
    """Find a ledger row that should not be there by the tool's own name of it."""
    wrong = (each for each in turn.effects.values() if each.match in (Match.ESCAPE, Match.DOUBLED))
    return next((each for each in wrong if each.id == effect), None)


def adopt(event: Adopt, turn: Turn) -> Result:
    """Take an escape for the effect that an intent wants, by a person's word."""
    intent, escape = turn.intents.get(event.intent), escape_named(event.effect, turn)
    if intent is None or escape is None or escape.match is not Match.ESCAPE:
        return turn.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such intent, or no such landed escape."))
    if escape.adopted is not None:
        if escape.adopted == event:
            return Done(duplicate=True)
        return turn.refuse(Refusal(code=Code.ALREADY_DECIDED, detail="Somebody adopted the effect already."))
    acts = acts_about(escape, turn)
    refusal = adopting.check_undecided(is_open=escape.is_open, undoing=[each.state for each in acts])
    refusal = refusal or adopting.check_fit(intent.facts, digest=escape.digest, wanted=_wanted_by(intent.id, turn))
    if refusal is not None:
        return turn.refuse(refusal)
    turn.effects[escape.tool, escape.id] = replace(escape, is_open=False, adopted=event)
    for each in acts:
        if each.state in compensations.WITHDRAWABLE:
            following.move(each, compensations.State.WITHDRAWN, turn)
    sent = intent.sent if escape.action is None else (*intent.sent, escape.action)
    turn.move_intent(replace(intent, sent=sent, left_at=escape.at), intents.State.SUCCEEDED, not_before=None)
    return Done(intent=intent.id, settled=intents.State.SUCCEEDED)


def _wanted_by(intent: str, turn: Turn) -> set[str]:
    """The payloads that the standing commits of an intent's claims bind."""
    live = [turn.steps[each.step, each.epoch].commit for each in turn.intents[intent].claims if not each.is_lost]
    return {each.payload for each in live if each is not None and each.stands}
