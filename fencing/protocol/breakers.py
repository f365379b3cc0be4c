"""Circuit breakers: a tool that does not answer is left alone for a while, and holds up no other tool (design 4).

A breaker holds calls back and decides nothing else: what is unknown stays so, and nothing is given up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

FAULTS: Final = 5
FIRST_REST_S: Final = 2.0
LONGEST_REST_S: Final = 60.0


class State(StrEnum):
    """Whether a tool is called."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


TRANSITIONS = MappingProxyType(
    {
        State.CLOSED: MappingProxyType({State.OPEN: "faults in a row"}),
        State.OPEN: MappingProxyType({State.PROBING: "its rest is over: one call may try"}),
        State.PROBING: MappingProxyType({State.CLOSED: "the tool answered", State.OPEN: "the tool did not answer"}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One tool's breaker. `until` ends its rest, or the wait for its probe; `faults` came one after the other."""

    state: State = State.CLOSED
    faults: int = 0
    until: datetime | None = None

    def room(self, now: datetime) -> int | None:
        """How many calls may begin: None for as many as else may."""
        if self.state is State.CLOSED:
            return None
        return 1 if self.until is None or now >= self.until else 0

    def probe(self, now: datetime, wait_s: float) -> Breaker:
        """The breaker once its one call has begun; where that is never heard of again, the next may try."""
        return replace(self, state=State.PROBING, until=now + timedelta(seconds=wait_s))

    def after(self, *, is_fault: bool, now: datetime) -> Breaker:
        """The breaker after a call is over: a definite answer of any kind closes it."""
        if not is_fault:
            return Breaker()
        faults = self.faults + 1
        if self.state is State.CLOSED and faults < FAULTS:
            return replace(self, faults=faults)
        if self.state is State.OPEN:
            # A call that began before: it says nothing new.
            return replace(self, faults=faults)
        rest_s = min(FIRST_REST_S * 2.0 ** min(max(faults - FAULTS, 0), 10), LONGEST_REST_S)
        return Breaker(state=State.OPEN, faults=faults, until=now + timedelta(seconds=rest_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """How many calls a tool's rate still allows: as many as a second brings, at most."""

    tokens: float
    at: datetime

    @classmethod
    def full(cls, rate_per_s: float, now: datetime) -> Bucket:
        """A bucket that nobody has drawn from."""
        return cls(tokens=max(rate_per_s, 1.0), at=now)

    def filled(self, rate_per_s: float, now: datetime) -> Bucket:
        """The bucket as it is now."""
        grown = self.tokens + max((now - self.at).total_seconds(), 0.0) * rate_per_s
        return Bucket(tokens=min(grown, max(rate_per_s, 1.0)), at=now)
