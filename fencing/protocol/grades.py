"""Grades (protocol, section 12): a grade holds fragments of exactly one epoch, all of them, and never changes (I4).

An attempt has one open epoch. A restart closes it and opens the next one; the store gives the number, a worker never
chooses one. Only fragments of the open epoch come in, the first of each seq stays, and what a restart dropped stays on
record and out of the grade. So the grade is a function of the attempt and its fragments, never of who was first.
"""

from __future__ import annotations

import hmac
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.errors import Code, Refusal

MAX_EXPECTED: Final = 10_000
"""The greatest count of an attempt: what misses is told whole, and a grade is one row."""


class State(StrEnum):
    """Whether an attempt still takes fragments."""

    OPEN = "open"
    PUBLISHED = "published"


class LaneState(StrEnum):
    """Whether a lane publishes."""

    RUNNING = "running"
    HALTED = "halted"


TRANSITIONS: Final[Mapping[State, Mapping[State, str]]] = MappingProxyType(
    {State.OPEN: {State.PUBLISHED: "the set is complete, and of the one open epoch"}, State.PUBLISHED: {}}
)
LANE_TRANSITIONS: Final[Mapping[LaneState, Mapping[LaneState, str]]] = MappingProxyType(
    {
        LaneState.RUNNING: {LaneState.HALTED: "a mixed grade was found"},
        LaneState.HALTED: {LaneState.RUNNING: "a reviewer resumes it with a reason"},
    }
)


class Spend(StrEnum):
    """What money for a model call was spent on (A6). Zombie is told by the clock of the restart, and never changes."""

    LIVE = "live"
    WASTED = "wasted"
    ZOMBIE = "zombie"


class Flaw(StrEnum):
    """What is wrong with a published grade. The first is what a lane halts for by name; so it does for the others."""

    MIXED = "mixed"
    INCOMPLETE = "incomplete"
    CHANGED = "changed"


REJECTS: Final = frozenset(
    {
        Code.UNKNOWN_ATTEMPT,
        Code.STALE_EPOCH,
        Code.FUTURE_EPOCH,
        Code.SEQ_OUT_OF_RANGE,
        Code.ALREADY_PUBLISHED,
        Code.BAD_PERMIT,
    }
)
"""The reasons for which a fragment is rejected (A2): what the gate counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A scoring job as far as it decides anything: how many fragments make it whole, and the one open epoch."""

    attempt: str
    expected: int
    epoch: int
    state: State = State.OPEN
    require_permits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A partial score that was accepted. `digest` is of the canonical body."""

    epoch: int
    seq: int
    digest: str
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """What a permit that was found by its token is for; None stands for a token that nobody gave."""

    attempt: str
    epoch: int
    seq: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The fragment is the first of its epoch and seq."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """The epoch and seq has a fragment; that one stays. `conflict` tells that this one's body is another."""

    conflict: bool


def judge_fragment(
    attempt: Attempt | None, offered: Fragment, known: Fragment | None, *, token: str | None, permit: Permit | None
) -> Accept | Duplicate | Refusal:
    """Answer a fragment (A2), first match. `known` is the one of the same epoch and seq; `permit` what the token found.

    A better-looking late body changes nothing: what is judged of a body is whether it is the one that is there.
    """
    if attempt is None:
        detail = "There is no such attempt: a fragment belongs to an attempt that its publisher made."
        return Refusal(code=Code.UNKNOWN_ATTEMPT, detail=detail, pointer="/attempt")
    if (refusal := check_place(attempt, epoch=offered.epoch, seq=offered.seq)) is not None:
        return refusal
    if known is not None:
        return Duplicate(conflict=known.digest != offered.digest or known.score != offered.score)
    if attempt.state is State.PUBLISHED:
        return already_published(attempt)
    if token is None and not attempt.require_permits:
        return Accept()
    return check_permit(attempt, offered, token, permit) or Accept()


def check_place(attempt: Attempt, *, epoch: int, seq: int) -> Refusal | None:
    """Refuse what is not of the open epoch, or of no fragment of the attempt (A2)."""
    extras = {"current_epoch": attempt.epoch}
    if epoch < attempt.epoch:
        detail = f"Epoch {epoch} of {attempt.attempt} is closed: the attempt was restarted, and is in {attempt.epoch}."
        return Refusal(code=Code.STALE_EPOCH, detail=detail, pointer="/epoch", extras=extras)
    if epoch > attempt.epoch:
        detail = f"Nobody opened epoch {epoch} of {attempt.attempt}: it is in epoch {attempt.epoch}."
        return Refusal(code=Code.FUTURE_EPOCH, detail=detail, pointer="/epoch", extras=extras)
    if not 0 <= seq < attempt.expected:
        detail = f"{attempt.attempt} has the fragments 0 to {attempt.expected - 1}, and no {seq}."
        return Refusal(code=Code.SEQ_OUT_OF_RANGE, detail=detail, pointer="/seq")
    return None


def check_permit(attempt: Attempt, offered: Fragment, token: str | None, permit: Permit | None) -> Refusal | None:
    """Refuse a fragment whose permit is missing, not genuine byte for byte, or of another fragment (A6)."""
    if token is None:
        detail = f"{attempt.attempt} takes fragments with their permits only (POST /permits)."
    elif permit is None or not hmac.compare_digest(permit.token.encode(), token.encode("utf-8", "replace")):
        detail = "This is no permit of this system."
    elif (permit.attempt, permit.epoch, permit.seq) != (attempt.attempt, offered.epoch, offered.seq):
        detail = f"The permit is for fragment {permit.seq} of {permit.attempt} in epoch {permit.epoch}."
    else:
        return None
    return Refusal(code=Code.BAD_PERMIT, detail=detail, pointer="/permit")


def judge_restart(attempt: Attempt, *, expected_epoch: int) -> int | Refusal:
    """Give the epoch that a restart opens, or refuse it: of two restarts at once, one gets it (A3)."""
    if attempt.state is State.PUBLISHED:
        return already_published(attempt)
    if expected_epoch != attempt.epoch:
        detail = f"{attempt.attempt} is in epoch {attempt.epoch}, not {expected_epoch}. Read it, then decide."
        code = Code.STALE_EPOCH if expected_epoch < attempt.epoch else Code.FUTURE_EPOCH
        return Refusal(code=code, detail=detail, pointer="/expected_epoch", extras={"current_epoch": attempt.epoch})
    return attempt.epoch + 1


def already_published(attempt: Attempt) -> Refusal:
    """Refuse what would change a published attempt."""
    detail = f"{attempt.attempt} is published; a new grade is a new attempt that names it (regrade_of)."
    return Refusal(code=Code.ALREADY_PUBLISHED, detail=detail, extras={"current_epoch": attempt.epoch})


def missing_of(attempt: Attempt, present: Iterable[int]) -> list[int]:
    """Tell which fragments of the open epoch are not there."""
    there = set(present)
    return [seq for seq in range(attempt.expected) if seq not in there]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The grade that is published."""

    mean: float | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """Nothing is published: some fragments are missing, or the caller counts differently than the store."""

    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Nothing is published. `found` is the foreign epoch inside; None where the lane was halted before."""

    found: int | None = None


def judge_publish(
    attempt: Attempt, fragments: Sequence[Fragment], *, is_lane_halted: bool, expected: int | None
) -> Publish | Incomplete | Halt:
    """Decide whether an open attempt is published (A4). `fragments` are all that no restart has dropped.

    A fragment of an epoch that nobody opened cannot be there; where it is, everything of this lane is in doubt.
    """
    if is_lane_halted:
        return Halt()
    foreign = next((each.epoch for each in fragments if each.epoch != attempt.epoch), None)
    if foreign is not None:
        return Halt(found=foreign)
    missing = missing_of(attempt, (each.seq for each in fragments))
    if missing or expected not in (None, attempt.expected):
        return Incomplete(missing=tuple(missing))
    parts = sorted(fragments, key=lambda each: each.seq)
    return Publish(mean=mean_of(parts), digest=grade_digest(attempt.attempt, attempt.epoch, parts))


def mean_of(fragments: Iterable[Fragment]) -> float | None:
    """The mean of the scores that there are; None where no fragment has one."""
    scores = [each.score for each in fragments if each.score is not None]
    # Exact until it is rounded once: no order of the fragments gives another mean, and no sum overflows.
    return statistics.mean(scores) if scores else None


def grade_digest(attempt: str, epoch: int, fragments: Iterable[Fragment]) -> str:
    """Digest a grade: whose it is, and in the order of seq each fragment's body and score."""
    parts = [
        {"seq": each.seq, "body": each.digest, "score": None if each.score is None else each.score.hex()}
        for each in fragments
    ]
    return digest_of(canonical_bytes({"attempt": attempt, "epoch": epoch, "fragments": parts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A grade as it is stored, read again: what it says of itself, and the fragments that it holds, by their place."""

    attempt: str
    epoch: int
    expected: int
    mean: float | None
    digest: str
    fragments: tuple[tuple[str, Fragment] | None, ...]


def flaw_of(grade: Published) -> tuple[Flaw, str] | None:
    """Tell what is wrong with a published grade, the gravest first, and in words (A4, I4); None where all is well.

    It holds for what the database stores now, whoever changed it: nothing of what the grade says is believed.
    """
    held = [each for each in grade.fragments if each is not None]
    owners = sorted({attempt for attempt, _ in held} - {grade.attempt})
    if owners:
        return Flaw.MIXED, f"it holds fragments of {owners[0]}"
    epochs = sorted({part.epoch for _, part in held} | ({grade.epoch} if held else set()))
    if len(epochs) > 1:
        return Flaw.MIXED, f"it holds fragments of epoch {' and '.join(map(str, epochs))}"
    if len(held) != len(grade.fragments) or [part.seq for _, part in held] != list(range(grade.expected)):
        return Flaw.INCOMPLETE, f"it holds {len(held)} of {grade.expected} fragments"
    parts = [part for _, part in held]
    if grade_digest(grade.attempt, grade.epoch, parts) != grade.digest or not _alike(mean_of(parts), grade.mean):
        return Flaw.CHANGED, "its fragments no longer give the digest and the mean that it was published with"
    return None


def classify_spend(*, was_closed: bool, has_fragment: bool) -> Spend:
    """Tell what money was spent on (A6): after its epoch was closed it is zombie spend, whatever came of it."""
    if was_closed:
        return Spend.ZOMBIE
    return Spend.LIVE if has_fragment else Spend.WASTED


def _alike(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-300)
