"""Work that is counted, never timed: lines of Python that were executed, the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TooMuchWork(AssertionError):
    """More lines were executed than were allowed; it stops there, and does not go on for minutes."""


class Work:
    """How many lines were executed so far, of how many."""

    def __init__(self, most: int) -> None:
        self.done, self.most = 0, most

    def __call__(self, frame: FrameType, event: str, _: Any) -> Work:
        """Count for `sys.settrace`, in every frame."""
        if event == "line":
            self.done += 1
            if self.done > self.most:
                message = f"more than {self.most} lines, the last one in {frame.f_code.co_qualname}"
                raise TooMuchWork(message)
        return self


@contextmanager
def at_most(lines: int) -> Iterator[Work]:
    """Let so many lines of Python be executed in this thread inside the block.

    What C does in one call counts as one line: it shows where the call is made too often, not where it takes long.
    """
    before, work = sys.gettrace(), Work(lines)
    sys.settrace(work)
    try:
        yield work
    finally:
        sys.settrace(before)
