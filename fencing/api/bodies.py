"""The body of a request as a value. What is too large to be taken is still hashed and counted (S1)."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

from fencing.services.side_log import HEAD_OF_BODY, RefusedBody

MAX_BULK: Final = 32 * 1024 * 1024
# An action of 256 KiB and the prose beside it, with every character escaped, still fit.
MAX_SINGLE: Final = 4 * 1024 * 1024
# A few bulk bodies at once, and thousands of ordinary ones.
MAX_IN_MEMORY: Final = 8 * MAX_BULK


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a request carried. Of a body that is too large `data` is empty, and `refused` tells what is kept of it."""

    data: bytes
    refused: RefusedBody | None = None

    @property
    def length(self) -> int:
        """How many bytes arrived."""
        return self.refused.length if self.refused is not None else len(self.data)

    @property
    def kept(self) -> RefusedBody | None:
        """What the side log keeps of it; None for a request without a body."""
        return self.refused or (RefusedBody.of(self.data) if self.data else None)


class NoRoom(Exception):
    """More of bodies is in memory than this process has room for."""


class Room:
    """The memory for bodies that arrive or are worked on. Belongs to the event loop's own thread."""

    def __init__(self, most: int) -> None:
        self.left = most

    @contextlib.contextmanager
    def space(self) -> Iterator[Callable[[int], None]]:
        """Give one request a function that takes so many bytes; they are given back at its end.

        That function raises `NoRoom` where there are not so many left.
        """
        taken = 0

        def take(length: int) -> None:
            nonlocal taken
            if length > self.left:
                raise NoRoom
            self.left -= length
            taken += length

        try:
            yield take
        finally:
            self.left += taken


class Overflow:
    """What is remembered of a body that is too large to be taken, while the rest of it arrives."""

    def __init__(self, data: bytes) -> None:
        self.length = len(data)
        self._head = data[:HEAD_OF_BODY]
        self._hash = hashlib.sha256(data)

    def add(self, chunk: bytes) -> None:
        """Count and hash one more chunk."""
        self.length += len(chunk)
        self._hash.update(chunk)

    def body(self) -> Body:
        """The body as it stands in the side log."""
        kept = RefusedBody(sha256=self._hash.hexdigest(), length=self.length, head=self._head)
        return Body(data=b"", refused=kept)


def body_of(request: HttpRequest) -> Body:
    """The body of a request: as the shell read it, or read here where another server carries the request."""
    known = getattr(request, "fence_body", None)
    if isinstance(known, Body):
        return known
    data = request.read(MAX_BULK + 1)
    if len(data) <= MAX_BULK:
        return Body(data=data)
    overflow = Overflow(data)
    while chunk := request.read(1 << 20):
        overflow.add(chunk)
    return overflow.body()
