"""What a world's history says by itself about forks, and about the undoing of effects. Nothing here asks the core."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencing.protocol.intents import Kind
from fencing.protocol.ledgers import Match
from fencing.protocol.world.events import (
    Admit,
    Adopt,
    ApproveUndoing,
    Ask,
    Event,
    Observe,
    OpenFork,
    Reconcile,
    Record,
    ReportUndoing,
    ResolveUndoing,
    Sweep,
    Waive,
)
from fencing.protocol.world.records import Done

if TYPE_CHECKING:
    from fencing.protocol.world import World

ACTS, LOST, WAITS = "acts", "lost", "waits"


class Forks:
    """The forks as they were opened, and the first word about each."""

    def __init__(self) -> None:
        self.opened: dict[str, tuple[OpenFork, datetime]] = {}
        self.home: dict[str, OpenFork] = {}
        self.winners: dict[str, str | None] = {}
        self.again: set[str] = set()

    def take(self, event: Event, done: Done, at: datetime) -> None:
        """Hear what was taken."""
        match event:
            case OpenFork() if not done.duplicate:
                self.opened[event.fork] = (event, at)
                self.home.update(dict.fromkeys(event.branches, event))
            case Reconcile() if not done.duplicate:
                if event.fork in self.winners:
                    self.again.add(event.fork)
                self.winners.setdefault(event.fork, event.winner)
                self._end_nested()
            case Sweep():
                for name, (asked, opened_at) in self.opened.items():
                    if asked.deadline_s is not None and at >= opened_at + timedelta(seconds=asked.deadline_s):
                        self.winners.setdefault(name, None)
                self._end_nested()
            case _:
                pass

    def _end_nested(self) -> None:
        """What lies in a lost branch is over without a winner, whatever is said about it later."""
        for name, (asked, _) in self.opened.items():
            if asked.parent is not None and self.gate(asked.parent) == LOST:
                self.winners.setdefault(name, None)

    def gate(self, branch: str | None) -> str:
        """Whether a branch acts, is lost, or waits."""
        is_won = True
        while branch is not None:
            asked = self.home[branch]
            if asked.fork in self.winners and self.winners[asked.fork] != branch:
                return LOST
            is_won &= asked.fork in self.winners
            branch = asked.parent
        return ACTS if is_won else WAITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the first call that would undo something to the moment at which it was known to be undone."""

    began: datetime
    at: datetime


class Undone:
    """Who approved and asked for what, what became of the calls, and which ledger rows were told."""

    def __init__(self) -> None:
        self.approvals: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.requester: dict[str, str] = {}
        self.calls: dict[str, dict[tuple[int, int], Kind | None]] = defaultdict(dict)
        self.began: dict[str, datetime] = {}
        self.done: dict[str, Span] = {}
        self.matches: dict[str, Match] = {}
        self.escapes: dict[str, str] = {}

    def take(self, event: Event, done: Done, at: datetime, world: World) -> None:  # noqa: PLR0912 - one line an event
        """Hear what was taken."""
        if done.duplicate:
            return
        match event:
            case Ask() if done.undoing is not None:
                self.requester[done.undoing] = event.by
            case ApproveUndoing():
                self.approvals[event.undoing].add((event.by, event.digest))
            case Admit() if done.undoing is not None and done.number is not None:
                place = (int((event.token or "").rpartition("/")[2]), done.number)
                self.calls[done.undoing][place] = None
                self.began[done.undoing] = at
            case ReportUndoing():
                self.calls[event.undoing][event.round, event.number] = event.outcome
                if event.outcome is Kind.SUCCEEDED:
                    self._end(event.undoing, at, world)
            case ResolveUndoing():
                last = max(self.calls[event.undoing])
                self.calls[event.undoing][last] = Kind.SUCCEEDED if event.happened else Kind.NOT_HAPPENED
                if event.happened:
                    self._end(event.undoing, at, world)
            case Record():
                self._end(event.undoing, at, world)
            case Waive():
                self._close(event.undoing, world)
            case Observe():
                self._observe(event, done)
            case Adopt():
                self.escapes.pop(event.effect, None)
            case _:
                pass

    def _observe(self, event: Observe, done: Done) -> None:
        if done.match is not None:
            self.matches[event.external_id] = done.match
        if done.match is Match.ESCAPE and event.action is not None:
            self.escapes[event.external_id] = event.action.payload_digest

    def _end(self, undoing: str, at: datetime, world: World) -> None:
        self.done[undoing] = Span(began=self.began.get(undoing, at), at=at)
        self._close(undoing, world)

    def _close(self, undoing: str, world: World) -> None:
        effect = next((each.effect for each in world.undoings if each.id == undoing), None)
        self.escapes.pop(effect or "", None)
