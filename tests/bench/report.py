"""What the bench found, as values and as text: ratios first, since figures of one run move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """What stands beside a figure: the same done without this system, in the same run and the same unit."""

    what: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table. `least` and `aim` are in its unit; where `is_cost`, less is better."""

    name: str
    value: float
    unit: str
    least: float | None = None
    aim: float | None = None
    is_cost: bool = False
    raws: Sequence[Raw] = ()
    note: str = ""

    @property
    def verdict(self) -> str:
        """Where the figure stands between what is asked at least and the aim."""
        if self.least is None:
            return ""
        if _reaches(self.value, self.least, is_cost=self.is_cost):
            is_aim = self.aim is not None and _reaches(self.value, self.aim, is_cost=self.is_cost)
            return "aim" if is_aim else "good"
        return "MISSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one measurement gives: rows, and whatever else is worth keeping, by name."""

    figures: Sequence[Figure]
    more: Mapping[str, Any] = field(default_factory=dict)


def _reaches(value: float, bound: float, *, is_cost: bool) -> bool:
    return value <= bound if is_cost else value >= bound


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table for a terminal."""
    head = ("figure", "found", "at least", "aim", "", "beside it")
    rows = [head, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in [*widths, len(head[-1])]))
    return "\n".join(line.rstrip() for line in lines)


def as_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures as JSON objects."""
    return [{**asdict(figure), "verdict": figure.verdict} for figure in figures]


def number(value: float) -> str:
    """Write a number as long as it tells something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _row(figure: Figure) -> tuple[str, ...]:
    beside = [f"{each.what}: {number(each.value)}" for each in figure.raws]
    if figure.note:
        beside.append(figure.note)
    return (
        figure.name,
        f"{number(figure.value)} {figure.unit}",
        "" if figure.least is None else number(figure.least),
        "" if figure.aim is None else number(figure.aim),
        figure.verdict,
        "; ".join(beside),
    )
