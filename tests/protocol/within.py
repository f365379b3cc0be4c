"""Bounded time: what hangs fails, instead of hanging the run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(BaseException):
    """Something did not come to an end in the time that it has. No `except Exception` swallows it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the block takes longer. Python's own pattern matcher looks for signals, too."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"it took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
