"""Notices in words: what it is, how far it came, who was told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dashboard.notice_pages import address_of
from dashboard.presenters.marks import Mark, mark_of
from dashboard.presenters.numbers import plural
from fencing.protocol.groups import Group
from fencing.protocol.notices import PLANS, Kind
from fencing.queries.notices import Line, Place, Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A notice, ready for a list."""

    line: Line
    mark: Mark
    label: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldRow:
    """A person told, ready for a list."""

    told: Told
    mark: Mark
    groups: str


def rows_of(lines: Iterable[Line]) -> list[Row]:
    """Prepare notices."""
    return [row_of(line) for line in lines]


def row_of(line: Line) -> Row:
    """Prepare a notice."""
    mark = mark_of("notice", line.state)
    return Row(line=line, mark=mark, label=PLANS[line.kind].label, url=address_of(line.page))


def told_of(line: Line, told: Iterable[Told]) -> list[ToldRow]:
    """Prepare who was told; each with the groups that were asked then."""
    asks = PLANS[line.kind].asks
    return [
        ToldRow(
            told=each,
            mark=mark_of("telling", each.state),
            groups=named(asks[each.level]) if each.level < len(asks) else "",
        )
        for each in told
    ]


def next_words(line: Line) -> str:
    """Say whom it goes to next; empty where it goes to nobody."""
    asks = PLANS[line.kind].asks
    if line.due_at is None or line.told_level >= len(asks):
        return ""
    return f"{'Then' if line.told_level else 'First'} it goes to {named(asks[line.told_level])}"


def named(groups: Iterable[Group]) -> str:
    """Name groups in their order."""
    chosen = set(groups)
    return " and ".join(group.value for group in Group if group in chosen)


def kinds() -> list[tuple[str, str]]:
    """The kinds that can be chosen, by what they are called."""
    return [(kind.value, plan.label) for kind, plan in PLANS.items() if kind is not Kind.TEST]


def unseen_line(count: int) -> str:
    """Say how many wait."""
    return plural(count, "notice that nobody has seen", "notices that nobody has seen")


def places_sentence(places: Iterable[Place], now: datetime) -> tuple[str, str]:
    """Say whether the targets work; with its hue."""
    known = list(places)
    failing = [place for place in known if place.failures]
    if not known:
        return "Nobody has a place outside these pages where they are told of anything.", "waiting"
    if not failing:
        return f"{plural(len(known), 'target')}, and none of them fails.", ""
    paused = sum(1 for place in failing if place.paused_until is not None and place.paused_until > now)
    left = f" {plural(paused, 'is', 'are')} left alone for a while." if paused else ""
    return f"{plural(len(failing), 'target fails', 'targets fail')} of {len(known)}.{left}", "waiting"
