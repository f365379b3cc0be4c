"""Freezes of a world: set, and lifted by another person (L10)."""

from __future__ import annotations

from dataclasses import replace

from fencing.protocol import fence, freezes, grants
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.world.events import LiftFreeze, SetFreeze
from fencing.protocol.world.permits import stop
from fencing.protocol.world.records import Done, FreezeRecord, GrantRecord, Result
from fencing.protocol.world.turn import Turn


def freeze(event: SetFreeze, turn: Turn) -> Result:
    """Freeze a tool or the run: its grants end, and what rests on them alone is taken back."""
    earlier = next((each for each in turn.freezes.values() if each.asked == event and each.lifted_by is None), None)
    if earlier is not None:
        return Done(duplicate=True, freeze=earlier.id)
    if event.tool is not None and turn.definition(event.tool) is None:
        return turn.refuse(Refusal(code=Code.UNKNOWN_TOOL, detail=f"No tool {event.tool} is registered."))
    ended = [name for name, record in turn.grants.items() if _ends(event, record, turn)]
    for name in ended:
        record = turn.grants[name]
        facts = replace(record.facts, voided_at=turn.now, void_reason=grants.FROZEN)
        turn.grants[name] = replace(record, facts=facts)
    made = FreezeRecord(id=f"freeze-{len(turn.freezes) + 1}", asked=event, at=turn.now)
    turn.freezes[made.id] = made
    return Done(freeze=made.id, touched=stop(set(ended), turn))


def _ends(event: SetFreeze, record: GrantRecord, turn: Turn) -> bool:
    step = None if record.facts.step is None else turn.steps.get((record.facts.step, record.facts.epoch))
    about = None if step is None else fence.tool_of(step.facts)
    return grants.is_voided_by_freeze(record.facts, tool=event.tool, tool_of_step=about, now=turn.now)


def lift(event: LiftFreeze, turn: Turn) -> Result:
    """Lift somebody else's freeze."""
    record = turn.freezes.get(event.freeze)
    if record is None:
        return turn.refuse(Refusal(code=Code.NOT_FOUND, detail=f"There is no freeze {event.freeze}."))
    if record.lifted_by == event.by:
        return Done(duplicate=True)
    lifted = None if record.lifted_by is None else {"by": record.lifted_by, "at": None}
    refusal = freezes.check_lift(by_setter=event.by == record.asked.by, lifted=lifted)
    if refusal is not None:
        return turn.refuse(refusal)
    turn.freezes[event.freeze] = replace(record, lifted_by=event.by)
    return Done()
