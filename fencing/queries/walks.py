"""Where a reader of the side log stands: a keyset, and what they have not been able to see so far.

A row's moment is taken before its transaction commits (design 10). While somebody reads from the newest row down, a
transaction that was open may commit a row above the place that they have reached. So a walk remembers the snapshot of
its last part. What was not in it, is now, and has a moment before the walk began, comes with the next part, once. What
has a later moment is new: it stands at the top of the next walk.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from fencing.protocol.errors import Code, Refusal

MAX_WALK: Final = 16_000
_PARTS: Final = 6
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SNAPSHOT: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):((?:[0-9]{1,19},)*[0-9]{1,19})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A row's place in the order: its moment, then its id."""

    at: datetime
    id: uuid.UUID

    def encode(self) -> str:
        """Write it as text without a dot."""
        return f"{_micros(self.at)}_{self.id.hex}"

    @classmethod
    def decode(cls, text: str) -> Key:
        """Read what `encode` wrote.

        Raises:
            ValueError, OverflowError: it is none.
        """
        moment, _, last = text.partition("_")
        return cls(at=_moment(moment), id=uuid.UUID(hex=last))


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A place in the side log.

    `last` is the row that was passed last. `seen` is PostgreSQL's snapshot of what could be seen so far. Where more
    came late than a part holds, `until` is the snapshot up to which it is being read, and `late_last` the last of it.
    """

    began: datetime
    last: Key
    seen: str
    until: str = ""
    late_last: Key | None = None

    def encode(self) -> str:
        """Write it so that it can stand in an address."""
        late = "" if self.late_last is None else self.late_last.encode()
        text = ".".join(("w", str(_micros(self.began)), self.last.encode(), self.seen, self.until, late))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Walk | Refusal:
        """Read what `encode` wrote; anything else is `invalid_value`."""
        try:
            if len(text) > MAX_WALK or not text.isascii():
                raise ValueError  # noqa: TRY301 - one way out for every kind of nonsense
            padded = text + "=" * (-len(text) % 4)
            parts = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").split(".")
            return cls._made_of(parts)
        except (ValueError, OverflowError, binascii.Error):
            detail = "The cursor is none that this list gave: take `next` of the page before, as it stands."
            return Refusal(code=Code.INVALID_VALUE, detail=detail, extras={"parameter": "cursor"})

    @classmethod
    def _made_of(cls, parts: list[str]) -> Walk:
        if len(parts) != _PARTS or parts[0] != "w" or bool(parts[4]) is not bool(parts[5]):
            raise ValueError
        return cls(
            began=_moment(parts[1]),
            last=Key.decode(parts[2]),
            seen=_snapshot(parts[3]),
            until=_snapshot(parts[4]) if parts[4] else "",
            late_last=Key.decode(parts[5]) if parts[5] else None,
        )


def _snapshot(text: str) -> str:
    """Check that a text is what PostgreSQL reads as a snapshot."""
    found = _SNAPSHOT.fullmatch(text)
    if found is None:
        raise ValueError
    low, high = int(found[1]), int(found[2])
    between = [int(each) for each in found[3].split(",")] if found[3] else []
    if not 0 < low <= high < 2**63 or between != sorted(set(between)) or not all(low <= x < high for x in between):
        raise ValueError
    return text


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _moment(text: str) -> datetime:
    return _EPOCH + int(text) * _MICROSECOND
