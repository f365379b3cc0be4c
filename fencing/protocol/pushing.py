"""What became of a push call, as a table (L5), and how long the next one waits.

A call ends in one of a few ways; where an answer came, its status and body say the rest. The first row of `TABLE` that
matches decides. What no row explains is unknown, and what is unknown may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from fencing.protocol.intents import MAX_BUSY_S, Kind

if TYPE_CHECKING:
    from fencing.protocol.policies import Policy
    from fencing.protocol.strict_json import Json

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 60.0
_MAX_DIGITS: Final = 9


class End(StrEnum):
    """How a call ended, before anything is read of an answer."""

    NOT_OPENED = "not_opened"
    """No connection, or none that may be used: refused, unresolved, a closed address, TLS that does not verify."""
    NOT_BEGUN = "not_begun"
    """The connection broke before the first byte of the request was given to it."""
    LOST = "lost"
    """The request began to leave, and no whole answer came."""
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A call that is over. `body` is the answer's JSON object, None where it is none that can be read.

    `says` is a short sentence of our own for people: never a word of the answer, and never of a credential.
    """

    how: End
    status: int = 0
    body: Mapping[str, Json] | None = None
    retry_after: str | None = None
    says: str = ""

    @property
    def family(self) -> int:
        """The hundreds of the status."""
        return self.status // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: when it matches, what that makes of the delivery, and the sentence that says so."""

    when: Callable[[Ended, Policy], bool]
    kind: Kind
    says: str


def _is(*ends: End) -> Callable[[Ended, Policy], bool]:
    return lambda ended, _policy: ended.how in ends


def _status(*statuses: int) -> Callable[[Ended, Policy], bool]:
    return lambda ended, _policy: ended.status in statuses


def _family(family: int) -> Callable[[Ended, Policy], bool]:
    return lambda ended, _policy: ended.family == family


NO_CONTENT: Final = 204

TABLE: Final = (
    Row(when=_is(End.NOT_OPENED), kind=Kind.NOT_SENT, says="No connection was opened: nothing was sent."),
    Row(when=_is(End.NOT_BEGUN), kind=Kind.NOT_SENT, says="The connection broke before anything was sent."),
    Row(when=_is(End.LOST), kind=Kind.UNKNOWN, says="No whole answer came: it may have happened."),
    Row(
        when=lambda ended, policy: policy.says_already_done(ended.status, _json(ended)),
        kind=Kind.SUCCEEDED,
        says="The tool has this very effect already.",
    ),
    Row(
        when=lambda ended, policy: policy.says_nothing_done(ended.status, _json(ended)),
        kind=Kind.BUSY,
        says="The tool was busy, and did nothing.",
    ),
    Row(when=_status(NO_CONTENT), kind=Kind.SUCCEEDED, says="The tool did it, and had nothing to say."),
    Row(
        when=lambda ended, _policy: ended.family == 2 and ended.body is not None,  # noqa: PLR2004 - 2xx
        kind=Kind.SUCCEEDED,
        says="The tool did it.",
    ),
    Row(when=_family(2), kind=Kind.UNKNOWN, says="The answer cannot be read: it may have happened."),
    Row(when=_family(3), kind=Kind.UNKNOWN, says="The tool pointed elsewhere; no redirect is followed."),
    Row(
        when=_status(408, 409, 425, 429),
        kind=Kind.UNKNOWN,
        says="The tool's definition does not say whether such an answer means that nothing was done.",
    ),
    Row(when=_family(4), kind=Kind.FAILED, says="The tool refused it."),
    Row(when=_family(5), kind=Kind.UNKNOWN, says="The tool, or something before it, broke: it may have happened."),
    Row(when=lambda _ended, _policy: True, kind=Kind.UNKNOWN, says="The answer is none that is known."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a call comes to. `is_fault` counts against the tool's circuit breaker; `wait_s` is the tool's own word."""

    kind: Kind
    says: str
    response: Json = None
    wait_s: float | None = None
    is_fault: bool = False


def classify(ended: Ended, policy: Policy, *, now: datetime) -> Verdict:
    """Say what became of a delivery whose call is over (L5)."""
    row = next(row for row in TABLE if row.when(ended, policy))
    says = f"{row.says} {ended.says}".strip() if ended.how is not End.ANSWERED else f"{row.says} (HTTP {ended.status})"
    wait_s = retry_after_s(ended.retry_after, now) if row.kind in (Kind.BUSY, Kind.UNKNOWN) else None
    return Verdict(
        kind=row.kind,
        says=says,
        response=_json(ended) if row.kind in (Kind.SUCCEEDED, Kind.FAILED) else None,
        wait_s=wait_s,
        is_fault=row.kind in (Kind.UNKNOWN, Kind.NOT_SENT),
    )


def _json(ended: Ended) -> Json:
    return None if ended.body is None else dict(ended.body)


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Read a `Retry-After` in seconds or as a date; None for nonsense. Never less than 0, or longer than an hour."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(min(int(text[-_MAX_DIGITS:]) if len(text) <= _MAX_DIGITS else MAX_BUSY_S, MAX_BUSY_S))
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), MAX_BUSY_S)


def pause_s(tries: int, chance: float) -> float:
    """Say how long the next try waits after `tries` (1 or more); a `chance` in [0, 1) spreads many of them."""
    longest = min(FIRST_PAUSE_S * 2.0 ** min(tries - 1, 20), LONGEST_PAUSE_S)
    return longest * (0.5 + chance / 2)
