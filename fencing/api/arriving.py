"""Bodies as they arrive: read into memory up to a limit, or piece by piece by a thread that writes them to a disk."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from fencing.api.bodies import MAX_BULK, Body, Overflow

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

EMPTY: Final = Body(data=b"")
# Beyond this nobody reads on, not even to hash it.
MAX_READ: Final = 4 * MAX_BULK
# A client that sends nothing for so long has given up.
STALL_S: Final = 60.0


class Disconnected(Exception):
    """The client went away."""


async def read_body(scope: Scope, receive: Receive, take: Callable[[int], None]) -> Body | None:
    """Read the body. Beyond the limit it is only counted and hashed; far beyond it, None: the rest is not read.

    `take` is told what is kept in memory, before it is.
    """
    if scope["method"] in ("GET", "HEAD"):
        return EMPTY
    chunks: list[bytes] = []
    kept = 0
    more = True
    while more and kept <= MAX_BULK:
        chunk, more = await next_chunk(receive)
        take(len(chunk))
        chunks.append(chunk)
        kept += len(chunk)
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if kept <= MAX_BULK:
        return Body(data=data)
    overflow = Overflow(data)
    while more:
        chunk, more = await next_chunk(receive)
        overflow.add(chunk)
        if overflow.length > MAX_READ:
            return None
    return overflow.body()


async def next_chunk(receive: Receive) -> tuple[bytes, bool]:
    """One piece of the body, and whether there is more of it."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message.get("body", b""), message.get("more_body", False)


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Arriving(io.RawIOBase):
    """The body of one request as a file, for a thread beside the event loop: a piece is taken when it is asked for.

    Of all of it, no more than one piece is in memory. Reading raises `OSError` where the client went away, or sends
    nothing any more.
    """

    def __init__(self, receive: Receive, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._receive = receive
        self._loop = loop
        self._held = b""
        self.is_over = False
        """Whether all of it has arrived. Where nobody asked for the rest, the connection is of no further use."""

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Give what has arrived, as much as there is room for; 0 at the end."""
        while not self._held and not self.is_over:
            self._held = self._next()
        taken, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def _next(self) -> bytes:
        coming = asyncio.run_coroutine_threadsafe(next_chunk(self._receive), self._loop)
        try:
            chunk, more = coming.result(STALL_S)
        except Disconnected:
            raise ConnectionAbortedError("The client went away.") from None
        except TimeoutError:
            coming.cancel()
            raise
        self.is_over = not more
        return chunk
