"""The road of the lanes: connections of the event loop's own, on which statements run without a thread, in turns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
import structlog
from django.db import connection

from fencing.services.unavailable import why_unavailable

# So many statements at once. More would share the same processors, and travel alone: a statement costs about as much
# for ten items as for one, and whoever waits for a turn goes together with those that came meanwhile.
TURNS: Final = max(1, (os.cpu_count() or 1) // 2)
# Items that others hold are passed over (SKIP LOCKED); a unique key that somebody is writing is the one thing to wait
# for. A statement that waits longer is given up, and its items take the careful way.
LOCK_MS: Final = 100
# Where the database cannot be reached nobody tries again sooner than this; the careful way asks by itself.
PAUSE_S: Final = 1.0
CONNECT_S: Final = 3.0
# A statement takes milliseconds. One that is not answered for so long is on a line that leads nowhere.
ANSWER_S: Final = 5.0

log = structlog.get_logger(__name__)


class Road:
    """A connection for each of `TURNS`, opened when it is first wanted. Belongs to the loop's own thread.

    Take a `turn` first, and ask while you have it.
    """

    def __init__(self) -> None:
        self._idle: list[psycopg.AsyncConnection[Any]] = []
        self.turn = asyncio.Semaphore(TURNS)
        self._closed_until = 0.0

    async def ask(self, statement: str, parameter: str) -> Sequence[tuple[Any, ...]]:
        """Run one statement in a transaction of its own. No rows where it fails: then nothing is known to be done."""
        line = await self._line()
        if line is None:
            return ()
        try:
            async with asyncio.timeout(ANSWER_S), psycopg.AsyncCursor(line) as cursor:
                await cursor.execute(statement, [parameter], prepare=True)
                rows = await cursor.fetchall()
        except TimeoutError:
            log.warning("road_without_answer")
            await line.close()
            return ()
        except psycopg.Error as fault:
            why = why_unavailable(fault)
            log.info("straight_way_left", fault=type(fault).__name__, why=why)
            if line.broken or line.closed:
                return ()
            rows = []
        except BaseException:
            # Cancelled in the middle: what runs on that connection belongs to nobody any more.
            await line.close()
            raise
        self._idle.append(line)
        return rows

    async def _line(self) -> psycopg.AsyncConnection[Any] | None:
        while self._idle:
            line = self._idle.pop()
            if not line.closed:
                return line
        loop = asyncio.get_running_loop()
        if loop.time() < self._closed_until:
            return None
        try:
            return await psycopg.AsyncConnection.connect(**parameters(), autocommit=True)
        except (psycopg.Error, OSError) as fault:
            log.warning("road_closed", fault=type(fault).__name__)
            self._closed_until = loop.time() + PAUSE_S
            return None

    async def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().close()


def parameters() -> Mapping[str, Any]:
    """How Django connects, without what is Django's own."""
    own = {"cursor_factory", "context", "prepare_threshold", "pool"}
    given = {name: value for name, value in connection.get_connection_params().items() if name not in own}
    given["options"] = f"{given.get('options', '')} -c lock_timeout={LOCK_MS}".strip()
    return {"connect_timeout": int(CONNECT_S), **given}
