"""The overview's figures and lines, from what the queries read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from dashboard.presenters.figures import Figure, Series, Words, bars
from dashboard.presenters.marks import Hue, Mark, Shape, mark_of
from dashboard.presenters.numbers import plural, seconds
from fencing.queries.overview import Delay, Hour, Undecided, Waiting

TOP_REASONS: Final = 6
_UNTIL: Final = {"approvals": "over", "reviews": "due"}
_PHASES: Final = (("committed", Hue.GOOD), ("rejected", Hue.REFUSED), ("exempt", Hue.NEUTRAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One kind of thing that waits for a person: what, since when, and where to go. `url` is empty without a page.

    `word` says what the moment is: since when the oldest waits, or by when the first is due.
    """

    mark: Mark
    what: str
    oldest: datetime
    url: str
    verb: str
    word: str = "oldest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of "do the rules hold": n of N, and the colour of an n above zero."""

    n: int | None
    of: int | None
    what: str
    alarm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """How long something took, in words; None where nothing was measured."""

    what: str
    count: int
    median: str | None
    p90: str | None
    p99: str | None


def lines_of(waiting: Mapping[str, tuple[Waiting, str]]) -> list[Line]:
    """Prepare what waits, by kind: (how much, where to go). Kinds of which nothing waits have no line."""
    known = {
        "doubts": (mark_of("intent", "in_doubt"), "effect in doubt", "effects in doubt", "Decide"),
        "incidents": (
            Mark(word="open", hue=Hue.DANGER, shape=Shape.TRIANGLE),
            "open incident",
            "open incidents",
            "Look",
        ),
        "notices": (
            mark_of("notice", "told"),
            "notice that nobody has seen",
            "notices that nobody has seen",
            "See",
        ),
        "approvals": (mark_of("grant", "pending"), "grant to approve", "grants to approve", "Approve"),
        "reviews": (
            Mark(word="owed", hue=Hue.WAITING, shape=Shape.SQUARE),
            "grant to review",
            "grants to review",
            "Review",
        ),
        "tools": (mark_of("tool_change", "pending"), "change of a tool to read", "changes of tools to read", "Read"),
        "divergences": (mark_of("vote", "differs"), "divergence to judge", "divergences to judge", "Judge"),
    }
    return [
        Line(
            mark=mark,
            what=plural(found.count, one, many),
            oldest=found.oldest,
            url=url,
            verb=verb,
            word=_UNTIL.get(kind, "oldest"),
        )
        for kind, (mark, one, many, verb) in known.items()
        if (entry := waiting.get(kind)) is not None
        for found, url in [entry]
        if found.count and found.oldest is not None
    ]


def rules_of(counters: Mapping[str, Any]) -> list[Rule]:
    """Prepare the invariants as n/N, in the protocol's order (section 1), and the escapes that were refused."""

    def rule(key: str, what: str, alarm: str) -> Rule:
        found = counters[key]
        return Rule(n=found["n"] if found else None, of=found["of"] if found else None, what=what, alarm=alarm)

    return [
        rule("i1_divergent_commits", "I1 divergent commits", "danger"),
        rule("i2_landed_escapes", "I2 landed escapes", "danger"),
        rule("i2_attempted_escapes", "attempted escapes, refused", "refused"),
        rule("i3_wrong_effects", "I3 extra, missing or doubled effects", "danger"),
        rule("i4_mixed_grades", "I4 mixed grades", "danger"),
        rule("i5_untraced_inputs", "I5 inputs without a trace", "danger"),
        rule("i6_undetected_edits", "I6 undetected edits", "danger"),
        rule("correlated_agreements", "agreements that are not independent", "waiting"),
    ]


def sentence_of(lines: Sequence[Line], undecided: int, oldest: Sequence[Undecided], now: datetime) -> tuple[str, str]:
    """Say in one sentence whether anything waits; with its hue."""
    if not lines and not undecided:
        return "Nothing waits: no effect is in doubt, no incident is open, every step is decided.", ""
    if not lines:
        since = seconds(max(0.0, (now - oldest[0].proposed_at).total_seconds())) if oldest else "a moment"
        steps = plural(undecided, "step is", "steps are")
        return f"Nothing waits for you: {steps} undecided, the oldest for {since}.", ""
    hue = "danger" if any(line.mark.hue is Hue.DANGER for line in lines) else "waiting"
    return f"Waiting for a person: {', '.join(line.what for line in lines)}.", hue


def decisions(hours: Sequence[Hour], now: datetime, window: timedelta) -> Figure:
    """Draw decisions by phase over time."""
    labels, by_name = _grid(hours, now, window)
    series = [Series(name=phase, values=by_name.get(phase, [0] * len(labels)), hue=hue) for phase, hue in _PHASES]
    shown = [one for one in series if any(one.values)]
    return bars(
        "decisions",
        "Decisions by phase, each hour",
        labels if shown else [],
        shown,
        Words(first="hour (UTC)", unit="steps"),
    )


def refusals(hours: Sequence[Hour]) -> Figure:
    """Draw refused inputs by reason, the most frequent first."""
    totals: dict[str, int] = {}
    for hour in hours:
        totals[hour.name] = totals.get(hour.name, 0) + hour.count
    top = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    others = sum(count for _, count in top[TOP_REASONS:])
    rows = [*top[:TOP_REASONS], *([("others", others)] if others else [])]
    words = Words(first="reason", is_lying=True, note="Late votes and conflicting repetitions stand here too.")
    labels = [name.replace("_", " ") for name, _ in rows]
    return bars(
        "refusals",
        "Side log by reason",
        labels,
        [Series(name="inputs", values=[count for _, count in rows], hue=Hue.REFUSED)],
        words,
    )


def quantiles(what: str, delay: Delay) -> Quantiles:
    """Prepare how long something took."""

    def said(value: float | None) -> str | None:
        return None if value is None else seconds(float(value))

    return Quantiles(what=what, count=delay.count, median=said(delay.median), p90=said(delay.p90), p99=said(delay.p99))


def _grid(hours: Sequence[Hour], now: datetime, window: timedelta) -> tuple[list[str], dict[str, list[float | None]]]:
    """Lay bins on a grid without gaps: an hour in which nothing happened is a zero, not a hole."""
    last = now.replace(minute=0, second=0, microsecond=0)
    count = int(window / timedelta(hours=1))
    bins = [last - timedelta(hours=back) for back in range(count - 1, -1, -1)]
    place = {at: index for index, at in enumerate(bins)}
    by_name: dict[str, list[float | None]] = {}
    for hour in hours:
        if hour.at in place:
            by_name.setdefault(hour.name, [0] * count)[place[hour.at]] = hour.count
    return [at.strftime("%H:00") for at in bins], by_name
