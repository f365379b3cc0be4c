"""What happened in order: events on a true scale, and the time between them drawn as well as written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dashboard.presenters.marks import Hue, Mark
from dashboard.presenters.moments import Moment, moment
from dashboard.presenters.numbers import seconds

WIDTH: Final = 1000
_STEPS: Final = 6
_LONGEST_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, before it is laid out. `text` is ours; `quoted` comes from outside."""

    at: datetime
    mark: Mark
    text: str
    quoted: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An event with its place: `x` of 1000 on the strip, and the gap before it in words and as a length of 0 to 6."""

    at: Moment
    hue: Hue
    mark: Mark
    text: str
    quoted: str
    href: str
    x: int
    gap: str
    gap_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Entries from the first to the last, and how long it took in all."""

    entries: tuple[Entry, ...]
    span: str


def timeline(events: Iterable[Event], now: datetime | None = None) -> Timeline:
    """Lay events out by time. Events of the same instant keep the order in which they were given."""
    ordered = sorted(events, key=lambda event: event.at)
    span = (ordered[-1].at - ordered[0].at).total_seconds() if ordered else 0.0
    return Timeline(
        entries=tuple(_entry(ordered, index, span, now) for index in range(len(ordered))),
        span=seconds(span) if ordered else "",
    )


def _entry(ordered: Sequence[Event], index: int, span: float, now: datetime | None) -> Entry:
    event = ordered[index]
    gap = (event.at - ordered[index - 1].at).total_seconds() if index else 0.0
    at = moment(event.at, now)
    assert at is not None  # noqa: S101 - it has a moment
    since = (event.at - ordered[0].at).total_seconds()
    return Entry(
        at=at, hue=event.mark.hue, mark=event.mark, text=event.text, quoted=event.quoted, href=event.href,
        x=round(WIDTH * since / span) if span else 0,
        gap=seconds(gap) if index else "",
        gap_size=gap_size(gap) if index else 0,
    )  # fmt: skip


def gap_size(gap_s: float) -> int:
    """Give the drawn length of a gap: by its logarithm, since milliseconds and days stand on one line."""
    if gap_s <= 0:
        return 0
    share = math.log10(1 + gap_s * 1000) / math.log10(1 + _LONGEST_S * 1000)
    return min(_STEPS, max(1, round(share * _STEPS)))
