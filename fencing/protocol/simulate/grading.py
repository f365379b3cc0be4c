"""The grade part of the simulator: four injected orders, on the core that decides and on a publisher that appends.

The second one is the control: it keeps fragments by attempt alone and publishes once there are enough. It mixes two
epochs where a worker outlives a restart; a suite that did not see that could not see anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from fencing.protocol import grades
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.simulate.figures import Figure

EXPECTED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A worker sends a fragment of the epoch that it believes in."""

    epoch: int
    seq: int
    body: str = "sample"

    def __str__(self) -> str:
        return f"fragment {self.seq} of epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """The attempt is restarted."""

    def __str__(self) -> str:
        return "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The publisher publishes."""

    def __str__(self) -> str:
        return "publish"


Event = Sent | Restarted | Published
RESTART, PUBLISH = Restarted(), Published()

# What is injected, as attempts of two fragments.
ORDERS: Final[dict[str, tuple[Event, ...]]] = {
    "late_old_fragment": (
        Sent(epoch=1, seq=0, body="old"),
        RESTART,
        Sent(epoch=2, seq=0, body="new"),
        Sent(epoch=1, seq=1, body="late"),
        PUBLISH,
        Sent(epoch=2, seq=1, body="new"),
        PUBLISH,
    ),
    "same_fragment_twice": (Sent(epoch=1, seq=0), Sent(epoch=1, seq=0), Sent(epoch=1, seq=1), PUBLISH),
    "publish_before_complete": (Sent(epoch=1, seq=0), PUBLISH),
    "zombie_across_restart": (
        Sent(epoch=1, seq=0, body="zombie"),
        RESTART,
        Sent(epoch=1, seq=1, body="zombie"),
        Sent(epoch=2, seq=0, body="new"),
        Sent(epoch=2, seq=1, body="new"),
        PUBLISH,
    ),
}


@dataclass(slots=True, kw_only=True)
class Played:
    """What came of one order: the epochs inside the grade, None where none was published, and what was refused."""

    grade: tuple[int, ...] | None = None
    side_log: list[Code] = field(default_factory=list)
    stale: int = 0

    @property
    def is_mixed(self) -> bool:
        """Whether the grade holds fragments of two epochs."""
        return self.grade is not None and len(set(self.grade)) > 1


class Publisher(Protocol):
    """Plays the events of one attempt."""

    def __call__(self, events: Sequence[Event]) -> Played:
        """Give what came of them."""


def enforcing(events: Sequence[Event]) -> Played:
    """Play on the core that decides."""
    attempt = grades.Attempt(attempt="a", expected=EXPECTED, epoch=1)
    kept: dict[tuple[int, int], grades.Fragment] = {}
    played = Played()
    for event in events:
        match event:
            case Sent():
                part = grades.Fragment(epoch=event.epoch, seq=event.seq, digest=event.body)
                played.stale += event.epoch < attempt.epoch
                known = kept.get((event.epoch, event.seq))
                verdict = grades.judge_fragment(attempt, part, known, token=None, permit=None)
                if isinstance(verdict, Refusal):
                    played.side_log.append(verdict.code)
                elif isinstance(verdict, grades.Accept):
                    kept[event.epoch, event.seq] = part
            case Restarted():
                number = grades.judge_restart(attempt, expected_epoch=attempt.epoch)
                attempt = attempt if isinstance(number, Refusal) else replace(attempt, epoch=number)
            case Published():
                attempt = _publish(attempt, kept, played)
    return played


def _publish(attempt: grades.Attempt, kept: dict[tuple[int, int], grades.Fragment], played: Played) -> grades.Attempt:
    parts = [part for part in kept.values() if part.epoch >= attempt.epoch]
    if attempt.state is grades.State.PUBLISHED:
        return attempt
    verdict = grades.judge_publish(attempt, parts, is_lane_halted=False, expected=None)
    if not isinstance(verdict, grades.Publish):
        return attempt
    played.grade = tuple(part.epoch for part in parts)
    return replace(attempt, state=grades.State.PUBLISHED)


def appending(events: Sequence[Event]) -> Played:
    """Play on a publisher that appends by attempt alone."""
    kept: list[int] = []
    played = Played()
    for event in events:
        if isinstance(event, Sent):
            kept.append(event.epoch)
        elif isinstance(event, Published) and len(kept) >= EXPECTED and played.grade is None:
            played.grade = tuple(kept)
    return played


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeFigures:
    """What the four orders show on both publishers."""

    ours: tuple[Figure, Figure]
    control: Figure

    @property
    def lines(self) -> tuple[str, ...]:
        """The figures as they are printed."""
        mixed, stale = self.ours
        return (
            f"grades     orders={len(ORDERS)} {mixed} {stale}",
            f"grades     appending by attempt alone: {self.control}",
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each figure that is not what it must be."""
        return tuple(self._wrong())

    def _wrong(self) -> Iterator[str]:
        for figure, of in ((self.ours[0], 3), (self.ours[1], 2), (self.control, 3)):
            if not figure.is_right or figure.of != of:
                yield f"{figure} and must be {figure.must_be}/{of}"


def play_orders() -> GradeFigures:
    """Play every order on both publishers."""
    ours = [enforcing(events) for events in ORDERS.values()]
    control = [appending(events) for events in ORDERS.values()]
    found = sum(played.side_log.count(Code.STALE_EPOCH) for played in ours)
    stale = Figure(name="stale_in_side_log", n=found, of=sum(played.stale for played in ours), must_be=2)
    mixed = _mixed("mixed_grades", ours, must_be=0)
    return GradeFigures(ours=(mixed, stale), control=_mixed("mixed_grades", control, must_be=2))


def _mixed(name: str, played: Sequence[Played], *, must_be: int) -> Figure:
    published = [each for each in played if each.grade is not None]
    return Figure(name=name, n=sum(each.is_mixed for each in published), of=len(published), must_be=must_be)
