"""What each of many may use of something: token buckets in the memory of this process, refilled by time."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass

MAX_OWNERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A bucket's size: what it holds at `most`, and what flows in each second."""

    most: float
    per_s: float


class Allowances:
    """One bucket an owner, full at first. Several processes each count for themselves: it guards a process."""

    def __init__(self) -> None:
        self._left: dict[Hashable, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, owner: Hashable, size: Size, amount: float = 1.0, *, now: float | None = None) -> float:
        """Take an amount. Gives 0 where it was there; else nothing is taken, and it will be in so many seconds."""
        with self._lock:
            left, moment = self._now(owner, size, now)
            if left < amount:
                return (amount - left) / size.per_s
            self._left[owner] = (left - amount, moment)
        return 0.0

    def owe(self, owner: Hashable, size: Size, amount: float, *, now: float | None = None) -> None:
        """Take what was used already: the bucket may be left with a debt."""
        with self._lock:
            left, moment = self._now(owner, size, now)
            if len(self._left) >= MAX_OWNERS:
                self._left.clear()
            self._left[owner] = (left - amount, moment)

    def wait_s(self, owner: Hashable, size: Size, *, now: float | None = None) -> float:
        """How many seconds it takes until a debt is paid; 0 where there is none."""
        if owner not in self._left:
            return 0.0
        with self._lock:
            left, _ = self._now(owner, size, now)
        return max(0.0, -left / size.per_s)

    def clear(self) -> None:
        """Fill every bucket, as a restart does."""
        with self._lock:
            self._left.clear()

    def _now(self, owner: Hashable, size: Size, now: float | None) -> tuple[float, float]:
        moment = time.monotonic() if now is None else now
        left, at = self._left.get(owner, (size.most, moment))
        return min(size.most, left + (moment - at) * size.per_s), moment
