"""The courier: one event loop that calls push tools, many at once, and has the database told what became of it.

It takes work when a bell rings, and looks by itself each second. Database work is done beside the loop in short
transactions, in one thread that takes and one that settles: calls that end hold up none that begins. What it holds in
memory may be lost at any moment: the leases tell (L5).
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import redis.asyncio
import redis.exceptions
import structlog
from django.db import close_old_connections, connections

from fencing.gateway.calling import Caller, Request
from fencing.gateway.dispatching import Taken
from fencing.gateway.outgoing import Outgoing
from fencing.protocol.pushing import End, Ended

log = structlog.get_logger(__name__)
T = TypeVar("T")

MOST_CALLS: Final = 1000
BATCH: Final = 16
LOOK_S: Final = 1.0
AGAIN_S: Final = 1.0
# When to look again while another worker takes: it is done in milliseconds, and may have looked too early.
BUSY_S: Final = 0.005
# How long calls that are under way may go on when the worker is to stop; its supervisor waits longer.
GRACE_S: Final = 8.0


class Desk(Protocol):
    """The database side: what is due, and what became of it."""

    def take_plain(self, limit: int) -> Taken:
        """Give what is plainly to be called now, and tell whether that is all."""

    def take(self, limit: int) -> list[Outgoing]:
        """Give what else is to be called now."""

    def settle(self, ended: Sequence[tuple[Outgoing, Ended]], chance: Sequence[float]) -> list[float]:
        """Record how calls ended; give how long each waits for its next try."""


class Courier:
    """Calls tools until it is told to stop. `nudge` may come from any thread."""

    def __init__(self, desk: Desk, caller: Caller, *, chance: Callable[[], float] = random.random) -> None:
        self._desk, self._caller, self._chance = desk, caller, chance
        self._taking = ThreadPoolExecutor(1, thread_name_prefix="courier-takes")
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="courier-settles")
        self._calls: set[asyncio.Task[None]] = set()
        self._ended: asyncio.Queue[tuple[Outgoing, Ended]] = asyncio.Queue()
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def nudge(self) -> None:
        """Say that there may be something due."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._bell.set)

    async def run(self, stopping: threading.Event) -> None:
        """Take and call until `stopping`; then let calls end for a while, and tell what became of all."""
        self._loop = asyncio.get_running_loop()
        settling = asyncio.create_task(self._settle())
        try:
            while not stopping.is_set():
                self._bell.clear()
                if await self._take() < BATCH:
                    await self._rest()
        finally:
            await self._end(settling)

    async def _take(self) -> int:
        """Take and begin what is due; give how many calls began. What is plain has left before the rest is judged."""
        if (room := self._room) <= 0:
            return 0
        try:
            plain = await _in(self._taking, lambda: self._desk.take_plain(room))
            self._begin(plain.calls)
            if plain.is_busy:
                asyncio.get_running_loop().call_later(BUSY_S, self._bell.set)
            if plain.is_all or (left := self._room) <= 0:
                return len(plain.calls)
            rest = await _in(self._taking, lambda: self._desk.take(left))
            self._begin(rest)
        except Exception:
            log.exception("take_failed")
            return 0
        return len(plain.calls) + len(rest)

    @property
    def _room(self) -> int:
        return min(BATCH, MOST_CALLS - len(self._calls))

    def _begin(self, calls: Iterable[Outgoing]) -> None:
        for outgoing in calls:
            task = asyncio.create_task(self._call(outgoing))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._bell.wait()
        except TimeoutError:
            pass

    async def _call(self, outgoing: Outgoing) -> None:
        callee = outgoing.callee
        request = Request(
            url=callee.endpoint,
            body=outgoing.body,
            timeout_s=float(callee.policy.timeout_s),
            credential=callee.credential,
            headers={"Idempotency-Key": outgoing.idempotency_key, "Fence-Token": outgoing.token},
        )
        try:
            ended = await self._caller.call(request)
        except asyncio.CancelledError:
            ended = Ended(how=End.LOST, says="The worker was stopped.")
        self._ended.put_nowait((outgoing, ended))

    async def _settle(self) -> None:
        """Have what ended written down, all that ended meanwhile in one transaction."""
        while True:
            batch = [await self._ended.get()]
            while not self._ended.empty() and len(batch) < BATCH:
                batch.append(self._ended.get_nowait())
            await self._written(batch)
            for _ in batch:
                self._ended.task_done()

    async def _written(self, batch: list[tuple[Outgoing, Ended]]) -> None:
        chance = [self._chance() for _ in batch]
        while True:
            try:
                pauses = await _in(self._settling, lambda: self._desk.settle(batch, chance))
            except Exception:
                # What is known must not be lost for a database that is away: the lease may have run out meanwhile,
                # and a report after that is still taken.
                log.exception("settle_failed", calls=len(batch))
                await asyncio.sleep(AGAIN_S)
                continue
            loop = asyncio.get_running_loop()
            for pause_s in pauses:
                loop.call_later(pause_s, self._bell.set)
            self._bell.set()
            return

    async def _end(self, settling: asyncio.Task[None]) -> None:
        if self._calls:
            await asyncio.wait(self._calls, timeout=GRACE_S)
        for task in list(self._calls):
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=1.0)
        try:
            async with asyncio.timeout(3.0):
                await self._ended.join()
        except TimeoutError:
            log.warning("calls_not_told", calls=self._ended.qsize())
        settling.cancel()
        await self._caller.aclose()
        for thread in (self._taking, self._settling):
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)


async def _in(thread: ThreadPoolExecutor, act: Callable[[], T]) -> T:
    """Do database work in a thread, on a connection that is known to work."""

    def fresh() -> T:
        close_old_connections()
        return act()

    return await asyncio.get_running_loop().run_in_executor(thread, fresh)


async def listen(url: str, name: str, alive: tuple[str, int], nudge: Callable[[], None]) -> None:
    """Nudge whenever the bell `name` rings, until cancelled. `alive` is a key to hold, and for how many seconds.

    Where Redis is away it tries again: the courier looks by itself meanwhile.
    """
    while True:
        client = redis.asyncio.Redis.from_url(url, socket_timeout=LOOK_S + 2)
        try:
            while True:
                await client.set(alive[0], 1, ex=alive[1])
                if await client.blpop([name], timeout=LOOK_S) is not None:
                    nudge()
        except (redis.exceptions.RedisError, OSError):
            await asyncio.sleep(AGAIN_S)
        finally:
            await client.aclose()
