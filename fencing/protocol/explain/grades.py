"""Grades in words: what an attempt waits for, what was published, and what the gate of a lane says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from fencing.protocol.explain.wording import Part, Sentence, Tone, clock, name, parts, strong
from fencing.protocol.gate import Gate, Reading

MOST_NAMED: Final = 5
TONES: Final = {Gate.PASS: Tone.GOOD, Gate.WAIT: Tone.WAITING, Gate.HALT: Tone.REFUSED}


def explain_gate(reading: Reading) -> Sentence:
    """Say what the gate says, and why: "Wait: 19 of 20 attempts are published; attempt a-17 misses seq 4 and 9."."""
    told = " ".join(reason.detail for reason in reading.reasons)
    return Sentence(tone=TONES[reading.gate], head=parts(strong(reading.gate.value.capitalize())), rest=parts(told))


def explain_attempt(
    *,
    epoch: int,
    expected: int,
    missing: Sequence[int],
    grade: tuple[datetime, float | None] | None,
    dropped: int,
    now: datetime,
) -> Sentence:
    """Say where an attempt is: published, whole, or what it misses. `grade` is when, and its mean."""
    old = f" {dropped} of closed epochs are on record and in no grade." if dropped else ""
    if grade is not None:
        at, mean = grade
        score = "without a score" if mean is None else f"with a mean score of {mean:.6g}"
        rest = parts(f"{expected} fragments of epoch {epoch}, {score}, at {clock(at, now)}.{old}")
        return Sentence(tone=Tone.GOOD, head=parts(strong("Published")), rest=rest)
    if not missing:
        rest = parts(f"all {expected} fragments of epoch {epoch} are there, and nobody has published them.{old}")
        return Sentence(tone=Tone.WAITING, head=parts(strong("Whole")), rest=rest)
    rest = parts(f"epoch {epoch} has {expected - len(missing)} of {expected} fragments; it {_misses(missing)}.{old}")
    return Sentence(tone=Tone.WAITING, head=parts(strong("Incomplete")), rest=rest)


def explain_flaw(attempt: str, flaw: str, detail: str) -> tuple[Part, ...]:
    """Say what was found wrong with a grade."""
    return parts("the grade of ", name(attempt), f" is {flaw}: {detail}")


def _misses(missing: Sequence[int]) -> str:
    if len(missing) < MOST_NAMED:
        return f"misses seq {' and '.join(map(str, missing))}"
    return f"misses seq {missing[0]} and {len(missing) - 1} more"
