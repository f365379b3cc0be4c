"""Rows of the side log in words: what was refused, whose input it was, and who has looked at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dashboard.presenters.marks import Mark, mark_of
from dashboard.presenters.numbers import grouped, plural
from fencing.protocol.explain import Sentence, explain_side_log
from fencing.queries.side_log import Row

# The numbers that are never folded into each other (S2), in the order of protocol 1.
APART: Final = (
    ("retries", "retry of a delivery", "retries of a delivery"),
    ("duplicates", "duplicate", "duplicates"),
    ("refusals", "refusal", "refusals"),
    ("stale_rejects", "stale reject", "stale rejects"),
    ("attempted_escapes", "attempted escape", "attempted escapes"),
    ("unauthenticated", "request without a good key", "requests without a good key"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row, ready for a list or its page."""

    row: Row
    mark: Mark
    sentence: Sentence
    is_late: bool = False

    @property
    def label(self) -> str:
        """What a box beside it chooses, for those who do not see the row."""
        about = [each for each in (self.row.step, self.row.run, self.row.attempt, self.row.lane) if each]
        return " ".join([self.row.reason.replace("_", " "), *(["of", *about[:2]] if about else [])])


def lines_of(rows: Iterable[Row], late: int = 0) -> list[Line]:
    """Prepare rows; the first `late` of them were still being written when the reader passed their place."""
    return [
        Line(
            row=row,
            mark=mark_of("side_log", row.counted_as.value),
            sentence=explain_side_log(row.kind, row.reason, row.detail),
            is_late=at < late,
        )
        for at, row in enumerate(rows)
    ]


def depth_sentence(open_rows: int, every: int) -> tuple[str, str]:
    """Say how deep the side log is; with its hue."""
    if not every:
        return "Nothing was ever refused or ignored.", ""
    if not open_rows:
        return f"Somebody has acknowledged every one of the {plural(every, 'row')}.", ""
    return f"Nobody has acknowledged {grouped(open_rows)} of the {plural(every, 'row')}.", "waiting"


def apart(counters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Prepare the numbers that stand apart: the figure and what it counts."""
    return [(grouped(counters[name]), one if counters[name] == 1 else many) for name, one, many in APART]


def told(fresh: int, chosen: int) -> str:
    """Say what an acknowledgement did."""
    mine = f"{plural(fresh, 'row')} acknowledged, in your name and for your reason."
    if fresh == chosen:
        return mine
    rest = plural(chosen - fresh, "other row had been acknowledged", "other rows had been acknowledged")
    return f"{mine} {rest} by somebody before, and stay so."
