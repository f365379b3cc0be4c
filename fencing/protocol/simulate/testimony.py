"""What a world's history says by itself: who said what, which grants lived, what became of deliveries.

The invariants are counted from here, from the inputs as they arrived and not from what the core made of them, and
nothing here asks the core's deciding functions: a fault in one of them must not hide itself.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Kind
from fencing.protocol.simulate.speculated import Forks, Undone
from fencing.protocol.world.events import (
    Admit,
    Adopt,
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
    Revoke,
    SetFreeze,
)
from fencing.protocol.world.records import Entry, Place

if TYPE_CHECKING:
    from fencing.protocol.actions import Action
    from fencing.protocol.world import World

MAY_BE_OUT = frozenset({None, Kind.UNKNOWN, Kind.SUCCEEDED})


class Grant:
    """What happened to one grant, in the order in which it happened."""

    def __init__(self, asked: Issue, at: datetime, needed: int) -> None:
        self.asked, self.needed = asked, needed
        self.live_at: datetime | None = None if needed else at
        self.approvals = 0
        self.is_ended = False

    def approve(self, at: datetime) -> None:
        """A second person approved."""
        self.approvals += 1
        if self.live_at is None and self.approvals >= self.needed:
            self.live_at = at

    def is_over(self, now: datetime) -> bool:
        """Whether its time is over, or it was revoked, or voided."""
        return self.is_ended or self.live_at is None or now >= self.live_at + timedelta(seconds=self.asked.ttl_s)


class Testimony:
    """The history of a world, read once from its beginning."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.votes: dict[Place, list[tuple[str, str, Action | None]]] = defaultdict(list)
        self.pinned: dict[Place, Propose] = {}
        self.grants: dict[str, Grant] = {}
        self.freezes: dict[str, SetFreeze] = {}
        self.run_epoch: int | None = None
        self.replays: dict[str, int] = {}
        self.told: dict[str, dict[int, Kind | None]] = defaultdict(dict)
        self.contradicted: set[str] = set()
        self.adopted: dict[str, str] = {}
        self.forks = Forks()
        self.undone = Undone()
        for entry in world.history:
            self._take(entry)

    def digests(self, place: Place) -> set[str]:
        """D, the distinct digests that arrived for a step (F3)."""
        said = {digest for _, digest, _ in self.votes[place]}
        pinned = self.pinned.get(place)
        own = None if pinned is None else (pinned.action.fence_digest if pinned.action else pinned.digest)
        return said | ({own} if own else set())

    def paths(self, place: Place) -> set[str]:
        """The paths that voted."""
        return {path for path, _, _ in self.votes[place]}

    def tools(self, place: Place) -> set[str]:
        """Every tool that was named for a step."""
        pinned = self.pinned.get(place)
        own = None if pinned is None else (pinned.action.tool if pinned.action else pinned.tool)
        return {action.tool for _, _, action in self.votes[place] if action} | ({own} if own else set())

    def gate(self, place: Place) -> str:
        """Whether a step's branch "acts", is "lost", or "waits" (B3, B4)."""
        pinned = self.pinned.get(place)
        return self.forks.gate(None if pinned is None else pinned.branch)

    def own_epoch(self, step: str, start: int) -> int:
        """A step's own number, from the restarts and replays that were answered."""
        run = start if self.run_epoch is None else self.run_epoch
        return max(run, self.replays.get(step, run))

    def deliveries_out(self, intent: str) -> list[int]:
        """The deliveries whose effect may have happened, by what was recorded of each."""
        return [number for number, kind in self.told[intent].items() if kind in MAY_BE_OUT]

    def may_be_out(self, intent: str) -> bool:
        """Whether an effect may have happened: by what was recorded, or by a success that contradicts it."""
        return intent in self.contradicted or intent in self.adopted or bool(self.deliveries_out(intent))

    def _take(self, entry: Entry) -> None:  # noqa: PLR0912 - one line an event
        done, event, at = entry.result, entry.event, entry.at
        if isinstance(done, Refusal):
            self._take_refused(event, done)
            return
        self.forks.take(event, done, at)
        self.undone.take(event, done, at, self.world)
        match event:
            case Cast():
                self._hear(event)
            case Propose() if not done.duplicate:
                self.pinned[event.step, event.epoch] = event
            case Issue() if not done.duplicate:
                definition = None if event.tool is None else self.world.tools(event.tool)
                needed = 0 if definition is None else definition.policy.grant_approvals - 1
                self.grants[event.name] = Grant(event, at, needed)
            case Approve() if not done.duplicate:
                self.grants[event.name].approve(at)
            case Revoke():
                self.grants[event.name].is_ended = True
            case SetFreeze() if not done.duplicate:
                self.freezes[done.freeze or ""] = event
                self._freeze_grants(event.tool)
            case LiftFreeze():
                self.freezes.pop(event.freeze, None)
            case Restart() if not done.duplicate:
                self.run_epoch = done.epoch
                self._end_grants(None)
            case Replay() if not done.duplicate and done.epoch is not None:
                self.replays[event.step] = done.epoch
                self._end_grants(event.step)
            case Admit() if done.intent is not None and done.number is not None:
                self.told[done.intent][done.number] = None
            case Report() if self.told[event.intent].get(event.number) in (None, Kind.UNKNOWN):
                self.told[event.intent][event.number] = event.outcome
            case Resolve() if not done.duplicate:
                self._resolve(event)
            case Adopt():
                self.adopted[event.intent] = event.effect
            case _:
                pass

    def _take_refused(self, event: Event, refusal: Refusal) -> None:
        """What was refused and counts all the same: an equivocation, and a success that contradicts the record."""
        if isinstance(event, Cast) and refusal.code is Code.EQUIVOCATION:
            self._hear(event)
        elif isinstance(event, Report) and refusal.code is Code.OUTCOME_CONFLICT and event.outcome is Kind.SUCCEEDED:
            self.contradicted.add(event.intent)

    def _hear(self, event: Cast) -> None:
        digest = event.action.fence_digest if event.action else event.digest
        if digest is not None:
            self.votes[event.step, event.epoch].append((event.path, digest, event.action))

    def is_frozen(self, tool: str) -> bool:
        """Whether a freeze stands that a call of this tool lies in (L10)."""
        return any(event.tool in (None, tool) for event in self.freezes.values())

    def _freeze_grants(self, tool: str | None) -> None:
        """End what a freeze ends: every grant that is known to be about its tool."""
        for grant in self.grants.values():
            asked = grant.asked
            named = {asked.tool} if asked.tool else self.tools((asked.step or "", asked.epoch))
            grant.is_ended |= tool is None or tool in named

    def _end_grants(self, step: str | None) -> None:
        for grant in self.grants.values():
            grant.is_ended |= step is None or grant.asked.step == step

    def _resolve(self, event: Resolve) -> None:
        self.contradicted.discard(event.intent)
        about = self.deliveries_out(event.intent) or [max(self.told[event.intent], default=1)]
        for number in about[-1:] if event.happened else about:
            self.told[event.intent][number] = Kind.SUCCEEDED if event.happened else Kind.NOT_HAPPENED
