"""Numbers as people read them: n/N with the words of what they count, grouped digits, durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dashboard.presenters.marks import Hue

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_TENTHS_BELOW_S: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """n of N and what they count. With N = 0 (or nothing known) it is "no data", never 0 % and never 0/0."""

    n: str
    of: str
    what: str
    hue: Hue
    has_data: bool


def grouped(number: int | None) -> str:
    """Write a whole number with commas between thousands; None is the word."""
    return "none" if number is None else f"{number:,}"


def ratio(n: int | None, of: int | None, what: str, *, alarm: Hue = Hue.NEUTRAL) -> Ratio:
    """Prepare n/N. `alarm` is the colour of an n above 0; where one is set, 0 of something is good news."""
    if n is None or not of:
        return Ratio(n="", of="", what=what, hue=Hue.NEUTRAL, has_data=False)
    calm = Hue.GOOD if alarm is not Hue.NEUTRAL else Hue.NEUTRAL
    return Ratio(n=grouped(n), of=grouped(of), what=what, hue=alarm if n else calm, has_data=True)


def seconds(duration: float) -> str:
    """Write a duration in seconds with at most two units: `0.4 s`, `41 s`, `8 min 12 s`, `6 h 5 min`, `3 d 4 h`."""
    if duration < 0:
        return f"-{seconds(-duration)}"
    if duration < 1:
        return f"{duration * 1000:.0f} ms" if duration < 0.0995 else f"{duration:.1f} s"  # noqa: PLR2004 - rounds to 0.1
    if duration < _TENTHS_BELOW_S:
        return f"{duration:.1f} s"
    whole = int(duration)
    if whole < _MINUTE:
        return f"{whole} s"
    for size, unit, smaller, smaller_unit in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    raise AssertionError(duration)


def plural(number: int, one: str, many: str = "") -> str:
    """Write a count with its noun: `1 vote`, `2 votes`, `1,204 entries`."""
    return f"{grouped(number)} {one if number == 1 else many or one + 's'}"


def size(octets: int) -> str:
    """Write a number of bytes: `812 B`, `60 KiB`, `1.5 MiB`."""
    if octets < 1024:  # noqa: PLR2004 - a KiB
        return f"{octets} B"
    kib = octets / 1024
    return f"{kib:.0f} KiB" if kib < 1024 else f"{kib / 1024:.1f} MiB"  # noqa: PLR2004 - a MiB
