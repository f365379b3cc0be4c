"""How often a key may call, and how much it may be refused (H1): whoever floods the door waits outside.

What is refused leaves a row in the side log (N7), and perhaps the head of a body or a vote beside it. A key that is
refused without an end would fill the disk, so it may be refused so much at once and so much each second; then it is
told to wait (429), whatever it sends. What was refused before stands in the side log; a 429 is counted alone.
"""

from __future__ import annotations

import hashlib
import math
import time
from typing import Final

from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.services.allowances import Allowances, Size

# Both follow the key's rate, which an operator sets: a restart that makes thousands of steps stale is no flood.
REFUSED_AT_ONCE_S: Final = 2.0
REFUSED_SHARE: Final = 0.01
LEAST_AT_ONCE: Final = 1000.0
LEAST_PER_S: Final = 1.0
# A refused input of this many bytes counts as one more: about what is kept of it.
BYTES_OF_ONE: Final = 4096
MOST_OF_BYTES: Final = 1000.0
# A key that has to wait is not even looked up again for so long (seconds), lest its flood keep the others waiting.
HELD_AT_LEAST_S: Final = 0.05
HELD_AT_MOST_S: Final = 5.0
MAX_HELD: Final = 10_000


class Buckets:
    """The buckets of every key, in this process."""

    def __init__(self) -> None:
        self._calls = Allowances()
        self._refusals = Allowances()

    def take(self, caller: Caller, *, now: float | None = None) -> Refusal | None:
        """Take one call, or refuse it, with the seconds after which one is there again."""
        if caller.credential_id is None:
            return None
        owed_s = self._refusals.wait_s(caller.credential_id, refusals_of(caller), now=now)
        if owed_s > 0:
            detail = f"So much of what the key {caller.name} sent was refused that it must wait; see the side log."
            return _limited(detail, owed_s)
        rate = float(caller.rate_per_s)
        wait_s = self._calls.take(caller.credential_id, Size(most=rate, per_s=rate), now=now)
        if wait_s > 0:
            return _limited(f"The key {caller.name} may call {caller.rate_per_s} times a second.", wait_s)
        return None

    def charge(self, caller: Caller, *, refused: int, length: int = 0, now: float | None = None) -> None:
        """Count inputs that were refused, and the bytes of what they left behind."""
        amount = refused + min(MOST_OF_BYTES, length / BYTES_OF_ONE)
        if caller.credential_id is not None and amount > 0:
            self._refusals.owe(caller.credential_id, refusals_of(caller), amount, now=now)

    def clear(self) -> None:
        """Forget everything, as a restart does."""
        self._calls.clear()
        self._refusals.clear()


class Held:
    """Keys that have to wait, by a hash of their header: told so without asking the database who they are."""

    def __init__(self) -> None:
        self._until: dict[bytes, tuple[float, float, str]] = {}

    def hold(self, header: bytes, refusal: Refusal, *, now: float | None = None) -> None:
        """Remember a refusal for as long as it told, or a few seconds: a key's rights may change meanwhile."""
        moment = time.monotonic() if now is None else now
        wait_s = refusal.extras["retry_after"]
        if isinstance(wait_s, float) and wait_s >= HELD_AT_LEAST_S:
            if len(self._until) >= MAX_HELD:
                self._until.clear()
            known_until, ends = moment + min(wait_s, HELD_AT_MOST_S), moment + wait_s
            self._until[_mark(header)] = (known_until, ends, refusal.detail)

    def find(self, header: bytes, *, now: float | None = None) -> Refusal | None:
        """Give the refusal of a key that still has to wait, with what is left of its time."""
        if not self._until or not header:
            return None
        moment = time.monotonic() if now is None else now
        known_until, ends, detail = self._until.get(_mark(header), (0.0, 0.0, ""))
        if moment < known_until:
            return _limited(detail, ends - moment)
        self._until.pop(_mark(header), None)
        return None

    def clear(self) -> None:
        """Forget everything, as a restart does."""
        self._until.clear()


def refusals_of(caller: Caller) -> Size:
    """How much a key may be refused."""
    most = max(LEAST_AT_ONCE, REFUSED_AT_ONCE_S * caller.rate_per_s)
    return Size(most=most, per_s=max(LEAST_PER_S, REFUSED_SHARE * caller.rate_per_s))


def _limited(detail: str, wait_s: float) -> Refusal:
    return Refusal(code=Code.RATE_LIMITED, detail=detail, extras={"retry_after": math.ceil(wait_s * 1000) / 1000})


def _mark(header: bytes) -> bytes:
    return hashlib.sha256(header).digest()


BUCKETS: Final = Buckets()
HELD: Final = Held()
