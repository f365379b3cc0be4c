"""A small world in memory: the services' use cases over frozen values, with the clock as an argument.

It composes the same pure functions as the services do, in the same order, and has no rules of its own. The simulator,
the property tests and the page that asks "what if the order had been different?" drive it. One world is one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from fencing.protocol.branches import EMPTY, Tree
from fencing.protocol.epochs import RunEpochs
from fencing.protocol.world import branching, fencer, freezing, gateway, inputs, ledger, people, permits, undoings
from fencing.protocol.world.events import (
    Admit,
    Adopt,
    Approve,
    ApproveUndoing,
    Ask,
    Cast,
    Event,
    Issue,
    LiftFreeze,
    Observe,
    OpenFork,
    Propose,
    Reconcile,
    Record,
    Replay,
    Report,
    ReportUndoing,
    Resolve,
    ResolveUndoing,
    Restart,
    Review,
    Revoke,
    SetFreeze,
    Sweep,
    Waive,
    Work,
)
from fencing.protocol.world.records import (
    Done,
    EffectRecord,
    Entry,
    ForkRecord,
    FreezeRecord,
    GrantRecord,
    Incident,
    IntentRecord,
    Opening,
    Result,
    SideRow,
    StepRecord,
    Tools,
    UndoingRecord,
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
    tree: Tree = EMPTY
    forks: tuple[ForkRecord, ...] = ()
    intents: tuple[IntentRecord, ...] = ()
    undoings: tuple[UndoingRecord, ...] = ()
    effects: tuple[EffectRecord, ...] = ()
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
            tree=turn.tree,
            forks=tuple(turn.forks.values()),
            intents=tuple(turn.intents.values()),
            undoings=tuple(turn.undoings.values()),
            effects=tuple(turn.effects.values()),
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
        turn.tree = self.tree
        turn.forks = {record.asked.fork: record for record in self.forks}
        turn.intents = {record.id: record for record in self.intents}
        turn.undoings = {record.id: record for record in self.undoings}
        turn.effects = {(record.tool, record.id): record for record in self.effects}
        turn.openings, turn.incidents = list(self.openings), list(self.incidents)
        turn.side_log = list(self.side_log)
        return turn

    @property
    def record(self) -> tuple[object, ...]:
        """What decides anything: everything but the history and the side log."""
        promised = self.epochs, self.steps, self.grants, self.freezes, self.tree, self.forks
        return *promised, self.intents, self.undoings, self.effects, self.openings, self.incidents

    def step(self, name: str, epoch: int) -> StepRecord | None:
        """One epoch of a step, if it is on record."""
        return next((each for each in self.steps if each.place == (name, epoch)), None)


_HANDLERS: Final[Mapping[type[Any], Callable[[Any, Turn], Result]]] = {
    Propose: inputs.propose,
    Cast: inputs.cast,
    Restart: inputs.restart,
    Replay: inputs.replay,
    OpenFork: branching.open_fork,
    Reconcile: branching.reconcile,
    Issue: permits.issue,
    Approve: permits.approve,
    Revoke: permits.revoke,
    Review: permits.review,
    SetFreeze: freezing.freeze,
    LiftFreeze: freezing.lift,
    Sweep: gateway.sweep,
    Admit: gateway.admit,
    Report: gateway.report,
    Resolve: gateway.resolve,
    ReportUndoing: undoings.report,
    Observe: ledger.observe,
    Adopt: ledger.adopt,
    Ask: people.ask,
    ApproveUndoing: people.approve,
    Waive: people.waive,
    Record: people.record,
    ResolveUndoing: people.resolve,
}


def _answer(event: Event, turn: Turn, decider: fencer.Decider) -> Result:
    return fencer.work(event, turn, decider) if isinstance(event, Work) else _HANDLERS[type(event)](event, turn)
