"""The gate (A7): pass, halt or wait, from the published grades of a lane and the thresholds of its reviewer.

Nothing unpublished enters it, no data is never a pass, and nothing of the fence ever reads what it says.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fencing.protocol.canonical import canonical_bytes, digest_of

# Student's t for a two-sided interval of 95 %, by degrees of freedom. Beyond the table two terms of its expansion are
# exact to four digits.
_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_Z: Final = 1.959963985
MOST_NAMED: Final = 5


class Gate(StrEnum):
    """What the gate says."""

    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    HALT = "halt"
    WAIT = "wait"


class Why(StrEnum):
    """The reasons, in the order in which they are looked for."""

    LANE_HALTED = "lane_halted"
    MIXED_GRADE = "mixed_grade"
    TOO_MANY_UNACKNOWLEDGED = "too_many_unacknowledged"
    NOTHING_PUBLISHED = "nothing_published"
    INCOMPLETE = "incomplete"
    TOO_FEW_PUBLISHED = "too_few_published"
    NO_SCORES = "no_scores"
    MEAN_TOO_LOW = "mean_too_low"
    TOO_MANY_REJECTS = "too_many_rejects"
    THRESHOLDS_MET = "thresholds_met"


GATE_OF: Final[Mapping[Why, Gate]] = {
    Why.LANE_HALTED: Gate.HALT,
    Why.MIXED_GRADE: Gate.HALT,
    Why.TOO_MANY_UNACKNOWLEDGED: Gate.HALT,
    Why.NOTHING_PUBLISHED: Gate.WAIT,
    Why.INCOMPLETE: Gate.WAIT,
    Why.TOO_FEW_PUBLISHED: Gate.WAIT,
    Why.NO_SCORES: Gate.WAIT,
    Why.MEAN_TOO_LOW: Gate.HALT,
    Why.TOO_MANY_REJECTS: Gate.HALT,
    Why.THRESHOLDS_MET: Gate.PASS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What a reviewer asks of a lane; None where nothing is asked (A5)."""

    min_published: int | None = None
    min_mean: float | None = None
    max_reject_ratio: float | None = None
    max_unacknowledged: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An attempt that is not published, and what it misses; all there but not published misses nothing."""

    attempt: str
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A published grade as the gate reads it."""

    attempt: str
    digest: str
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Everything that the gate is computed from.

    `mixed` counts the grades that were ever found mixed; `mixed_unreplaced` those for which no regrade is published.
    `grades` are the published ones that it reads; `waiting` the first of the `incomplete` attempts.
    """

    halted_for: str | None = None
    published: int
    mixed: int
    mixed_unreplaced: int
    grades: Sequence[Grade]
    incomplete: int
    waiting: Sequence[Open] = ()
    rejects: int
    accepted: int
    unacknowledged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean, and where the true one lies with 95 % (Student's t); no interval for fewer than two."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why the gate says what it says: a code, and a sentence."""

    code: Why
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the gate says at one moment."""

    gate: Gate
    reasons: tuple[Reason, ...]
    figures: Mapping[str, Any]
    snapshot: str


def judge_gate(lane: Lane, thresholds: Thresholds) -> Reading:
    """Compute the gate (A7), first match: of the first group in which a reason holds, all are told."""
    scored = interval([grade.mean for grade in lane.grades if grade.mean is not None])
    inputs = lane.rejects + lane.accepted
    ratio = lane.rejects / inputs if inputs else None
    groups = (_halted(lane, thresholds), _waiting(lane, thresholds, scored), _missed(thresholds, scored, ratio))
    told = next(filter(None, map(tuple, groups)), ((Why.THRESHOLDS_MET, _passed(lane, thresholds, scored)),))
    reasons = tuple(Reason(code=why, detail=detail) for why, detail in told)
    figures = {
        "published": lane.published,
        "incomplete": lane.incomplete,
        "mixed": lane.mixed,
        "rejects": lane.rejects,
        "accepted": lane.accepted,
        "reject_ratio": ratio,
        "unacknowledged": lane.unacknowledged,
        "scored": sum(1 for grade in lane.grades if grade.mean is not None),
        "mean": scored.mean if scored else None,
        "interval": None if scored is None or scored.low is None else [scored.low, scored.high],
    }
    return Reading(gate=GATE_OF[reasons[0].code], reasons=reasons, figures=figures, snapshot=snapshot_of(lane.grades))


def snapshot_of(grades: Iterable[Grade]) -> str:
    """Digest the set of grades that was read, whatever the order of their publication."""
    return digest_of(canonical_bytes([[each.attempt, each.digest] for each in sorted(grades, key=_by_attempt)]))


def interval(means: Sequence[float]) -> Interval | None:
    """The mean of published grades and its interval; None without any."""
    count = len(means)
    if count == 0:
        return None
    mean = statistics.mean(means)
    if count == 1:
        return Interval(mean=mean, low=None, high=None)
    squares = [(each - mean) * (each - mean) / (count - 1) for each in means]
    half = student(count - 1) * math.sqrt(sum(squares) / count)
    low, high = mean - half, mean + half
    is_finite = math.isfinite(low) and math.isfinite(high)
    return Interval(mean=mean, low=low if is_finite else None, high=high if is_finite else None)


def student(freedom: int) -> float:
    """Student's t that leaves 2.5 % on each side."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    third, fifth = _Z**3, _Z**5
    return _Z + (third + _Z) / (4 * freedom) + (5 * fifth + 16 * third + 3 * _Z) / (96 * freedom**2)


def _by_attempt(grade: Grade) -> tuple[str, str]:
    return grade.attempt, grade.digest


def _halted(lane: Lane, asked: Thresholds) -> Iterator[tuple[Why, str]]:
    if lane.halted_for is not None:
        yield Why.LANE_HALTED, f"The lane is halted: {lane.halted_for.rstrip('.')}."
    if lane.mixed_unreplaced:
        yield Why.MIXED_GRADE, f"{_counted(lane.mixed_unreplaced, 'published grade')} found mixed, and not graded anew."
    if asked.max_unacknowledged is not None and lane.unacknowledged > asked.max_unacknowledged:
        told = f"{_counted(lane.unacknowledged, 'reject')} not acknowledged by anybody, {asked.max_unacknowledged} may."
        yield Why.TOO_MANY_UNACKNOWLEDGED, told


def _waiting(lane: Lane, asked: Thresholds, scored: Interval | None) -> Iterator[tuple[Why, str]]:
    if lane.published == 0:
        yield Why.NOTHING_PUBLISHED, "No grade is published."
    if lane.incomplete:
        of = lane.incomplete + lane.published
        yield Why.INCOMPLETE, f"{lane.published} of {of} attempts are published{_told(lane.waiting, lane.incomplete)}."
    if asked.min_published is not None and lane.published < asked.min_published:
        yield Why.TOO_FEW_PUBLISHED, f"{lane.published} of at least {asked.min_published} grades are published."
    if asked.min_mean is not None and scored is None and lane.published:
        yield Why.NO_SCORES, "No published grade has a score, and a mean is asked for."


def _missed(asked: Thresholds, scored: Interval | None, ratio: float | None) -> Iterator[tuple[Why, str]]:
    if asked.min_mean is not None and scored is not None and scored.mean < asked.min_mean:
        yield Why.MEAN_TOO_LOW, f"The mean score is {scored.mean:.6g}, below {asked.min_mean:.6g}."
    if asked.max_reject_ratio is not None and ratio is not None and ratio > asked.max_reject_ratio:
        yield Why.TOO_MANY_REJECTS, f"{ratio:.2%} of the fragments were rejected, {asked.max_reject_ratio:.2%} may be."


def _passed(lane: Lane, asked: Thresholds, scored: Interval | None) -> str:
    score = "" if scored is None else f", with a mean score of {scored.mean:.6g}"
    met = " Every threshold is met." if asked != Thresholds() else " No threshold is set."
    mixed = f"{lane.mixed} mixed and graded anew" if lane.mixed else "none mixed"
    return f"{_counted(lane.published, 'grade')} published, {mixed}{score}.{met}"


def _told(waiting: Sequence[Open], count: int) -> str:
    lines = [f"attempt {each.attempt} {_lacks(each.missing)}" for each in waiting[:MOST_NAMED]]
    more = f", and {count - len(lines)} more" if count > len(lines) else ""
    return f"; {', '.join(lines)}{more}" if lines else ""


def _lacks(missing: Sequence[int]) -> str:
    if not missing:
        return "is whole and not published"
    shown = (
        " and ".join(map(str, missing)) if len(missing) < MOST_NAMED else f"{missing[0]} and {len(missing) - 1} more"
    )
    return f"misses seq {shown}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing} was" if number == 1 else f"{number} {thing}s were"
