"""A small world in memory: the services' use cases over frozen values, with the clock as an argument.

It composes the same pure functions as the services do, in the same order, and has no rules of its own. The simulator,
the property tests and the page that asks "what if the order had been different?" drive it. One world is one run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from fencing.protocol.epochs import RunEpochs
from fencing.protocol.world import fencer, freezing, gateway, inputs, permits
from fencing.protocol.world.events import (
    Admit,
    Approve,
    Cast,
    Event,
    Issue,
    LiftFreeze,
    Propose,
    Replay,
    Report,
    Resolve,
    Restart,
    Review,
    Revoke,
    SetFreeze,
    Sweep,
    Work,
)
from fencing.protocol.world.records import (
    Done,
    Entry,
    FreezeRecord,
    GrantRecord,
    Incident,
    IntentRecord,
    Opening,
    Result,
    SideRow,
    StepRecord,
    Tools,
)
from fencing.protocol.world.turn import Impossible, Turn

__all__ = ["Done", "Entry", "Event", "Impossible", "Result", "World"]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One run with everything on record for it.

    `start` is the epoch in which it was opened, `history` every event that arrived, with its answer. `decider` is the
    decision of its fencer, exchanged only to compare the fence with something else.
    """

    tools: Tools
    run: str
    start: int
    epochs: RunEpochs
    steps: tuple[StepRecord, ...] = ()
    grants: tuple[GrantRecord, ...] = ()
    freezes: tuple[FreezeRecord, ...] = ()
    intents: tuple[IntentRecord, ...] = ()
    openings: tuple[Opening, ...] = ()
    incidents: tuple[Incident, ...] = ()
    side_log: tuple[SideRow, ...] = ()
    history: tuple[Entry, ...] = ()
    decider: fencer.Decider = fencer.decide

    @classmethod
    def opened(
        cls, tools: Tools, *, run: str = "run-88", epoch: int = 7, decider: fencer.Decider = fencer.decide
    ) -> World:
        """Open a run with nothing on record, in an epoch that its planner names."""
        return cls(tools=tools, run=run, start=epoch, epochs=RunEpochs(epoch=epoch, counter=epoch), decider=decider)

    def handle(self, event: Event, now: datetime) -> tuple[World, Result]:
        """Give the world after an event at a moment of its clock, and the answer. A refusal is an answer, too (N7).

        Raises `Impossible` where a rule of the core asks for what its own tables do not allow.
        """
        turn = self.turn(now)
        result = _answer(event, turn, self.decider)
        after = replace(
            self,
            epochs=turn.epochs,
            steps=tuple(turn.steps.values()),
            grants=tuple(turn.grants.values()),
            freezes=tuple(turn.freezes.values()),
            intents=tuple(turn.intents.values()),
            openings=tuple(turn.openings),
            incidents=tuple(turn.incidents),
            side_log=tuple(turn.side_log),
            history=(*self.history, Entry(at=now, event=event, result=result)),
        )
        return after, result

    def turn(self, now: datetime) -> Turn:
        """Open a transaction on what is on record. Nothing of it reaches the world by itself."""
        turn = Turn(self.run, self.tools, self.epochs, now)
        turn.steps = {record.place: record for record in self.steps}
        turn.grants = {record.facts.name: record for record in self.grants}
        turn.freezes = {record.id: record for record in self.freezes}
        turn.intents = {record.id: record for record in self.intents}
        turn.openings, turn.incidents = list(self.openings), list(self.incidents)
        turn.side_log = list(self.side_log)
        return turn

    @property
    def record(self) -> tuple[object, ...]:
        """What decides anything: everything but the history and the side log."""
        return self.epochs, self.steps, self.grants, self.freezes, self.intents, self.openings, self.incidents

    def step(self, name: str, epoch: int) -> StepRecord | None:
        """One epoch of a step, if it is on record."""
        return next((each for each in self.steps if each.place == (name, epoch)), None)


def _answer(event: Event, turn: Turn, decider: fencer.Decider) -> Result:  # noqa: PLR0912 - one line an event
    match event:
        case Propose():
            return inputs.propose(event, turn)
        case Cast():
            return inputs.cast(event, turn)
        case Restart():
            return inputs.restart(event, turn)
        case Replay():
            return inputs.replay(event, turn)
        case Issue():
            return permits.issue(event, turn)
        case Approve():
            return permits.approve(event, turn)
        case Revoke():
            return permits.revoke(event, turn)
        case Review():
            return permits.review(event, turn)
        case SetFreeze():
            return freezing.freeze(event, turn)
        case LiftFreeze():
            return freezing.lift(event, turn)
        case Work():
            return fencer.work(event, turn, decider)
        case Sweep():
            return gateway.sweep(event, turn)
        case Admit():
            return gateway.admit(event, turn)
        case Report():
            return gateway.report(event, turn)
        case Resolve():
            return gateway.resolve(event, turn)
        case _:
            assert_never(event)
