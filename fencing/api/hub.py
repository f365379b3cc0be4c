"""Where reads wait: topics, who waits for them, and what wakes them. One hub a process, all of it on the event loop.

A signal is a hint that something of a topic may have changed. It may be lost, doubled or early: whoever is woken looks
again. Signals come through Redis; once a second one query over every step that is waited for stands in for those that
were lost, and the other topics are simply looked at again every few seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from fencing.services.signals import CHANNEL

MEMORY_S = 60.0
NET_S = 1.0
CANCEL_AGAIN_S = 0.05
LOOK_AGAIN_S = 3.0
RETRY_S = (0.1, 0.5, 1.0, 2.0)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What a read waits for. For a step `seen` is the phase that the read was answered with: any other one wakes it."""

    name: str
    seen: str | None = None

    @classmethod
    def parse(cls, text: str) -> Topic:
        """Read one topic of the header `X-Fence-Wait`: `name` or `name=seen`. No identifier (N1) has the sign in it."""
        name, _, seen = text.strip().partition("=")
        return cls(name=name, seen=seen or None)


@dataclass(eq=False, slots=True, kw_only=True)
class Waiter:
    """One read that waits."""

    topics: tuple[Topic, ...]
    woken: asyncio.Future[None]
    since: float = field(default=0.0)


# Given the topics that are waited for, the names of those that have changed. It may use a database connection.
Net = Callable[[Collection[Topic]], Awaitable[Collection[str]]]


class Hub:
    """The topics of one process. Every method belongs to the loop's own thread."""

    def __init__(self, *, redis_url: str, net: Net) -> None:
        self.is_connected = False
        self.is_closing = False
        self._redis_url = redis_url
        self._net = net
        self._clock = itertools.count(1)
        # When each topic was signalled last, by the clock of marks. Forgetting drops the older of two halves: to look
        # through all of them each time would cost a busy system more than every signal did.
        self._signalled: dict[str, int] = {}
        self._signalled_before: dict[str, int] = {}
        self._forgot_at = 0.0
        self._waiters: dict[str, set[Waiter]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen."""
        self._tasks = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._watch())]

    async def stop(self) -> None:
        """Send everybody who waits home, with what they have."""
        self.close()
        running = set(self._tasks)
        while running:
            # A client of Redis that is just connecting takes a cancellation for a lost connection: it is told again.
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_S)

    def close(self) -> None:
        """Let nobody wait from now on."""
        self.is_closing = True
        self.wake_all()

    # -- waiting ------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """Take the moment before a read looks: what is signalled after it wakes that read (no lost wake-up)."""
        return next(self._clock)

    async def wait(self, topics: tuple[Topic, ...], *, since: int, seconds: float) -> bool:
        """Wait until one of `topics` was signalled after `since`. False when `seconds` are over, or at closing."""
        if self.is_closing:
            return False
        if not self.is_quiet(topics, since=since):
            return True
        loop = asyncio.get_running_loop()
        waiter = Waiter(topics=topics, woken=loop.create_future(), since=loop.time())
        self._add(waiter)
        try:
            await asyncio.wait_for(waiter.woken, seconds)
        except TimeoutError:
            return False
        finally:
            self._remove(waiter)
        return not self.is_closing

    def is_quiet(self, topics: tuple[Topic, ...], *, since: int) -> bool:
        """Whether none of `topics` was signalled after `since`."""
        return all(
            self._signalled.get(topic.name, 0) <= since and self._signalled_before.get(topic.name, 0) <= since
            for topic in topics
        )

    @property
    def waiting(self) -> int:
        """How many reads wait."""
        return len(self._everybody())

    def signal(self, names: Iterable[str]) -> None:
        """Something of these topics may have changed."""
        moment = next(self._clock)
        for name in names:
            self._signalled[name] = moment
            for waiter in self._waiters.get(name, ()):
                wake(waiter)

    def wake_all(self) -> None:
        """Signals may have been lost: everybody looks again."""
        for waiter in self._everybody():
            wake(waiter)

    def _everybody(self) -> set[Waiter]:
        return set().union(*self._waiters.values())

    def _add(self, waiter: Waiter) -> None:
        for topic in waiter.topics:
            self._waiters.setdefault(topic.name, set()).add(waiter)

    def _remove(self, waiter: Waiter) -> None:
        for topic in waiter.topics:
            others = self._waiters.get(topic.name, set())
            others.discard(waiter)
            if not others:
                self._waiters.pop(topic.name, None)

    # -- where signals come from --------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Follow the channel, for ever; while Redis is away the net alone wakes who waits."""
        tries = 0
        while True:
            try:
                await self._follow()
            except (RedisError, OSError) as error:
                if self.is_connected or tries == 0:
                    log.warning("signals_away", error=type(error).__name__)
            except Exception:  # a listener that ends in silence costs every waiting read a second
                log.exception("listener_failed")
            tries = 0 if self.is_connected else tries + 1
            self.is_connected = False
            await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])

    async def _follow(self) -> None:
        # No option that only TCP knows: the URL may name a socket file.
        client = redis.asyncio.Redis.from_url(self._redis_url, socket_connect_timeout=2, health_check_interval=10)
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as channel:
                await channel.subscribe(CHANNEL)
                self.is_connected = True
                self.wake_all()  # what was signalled while nobody listened
                while True:
                    message = await channel.get_message(timeout=10.0)
                    if message is not None:
                        self.signal(names_in(message["data"]))
        finally:
            await client.aclose()

    async def _watch(self) -> None:
        """The net: find what no signal announced, and forget old signals."""
        while True:
            await asyncio.sleep(NET_S)
            try:
                self._look_again()
                await self._cast()
                self._forget()
            except Exception:
                log.exception("net_failed")

    async def _cast(self) -> None:
        topics = {topic for waiter in self._everybody() for topic in waiter.topics if topic.seen is not None}
        if topics:
            self.signal(await self._net(topics))

    def _look_again(self) -> None:
        now = asyncio.get_running_loop().time()
        for waiter in self._everybody():
            if now - waiter.since >= LOOK_AGAIN_S and any(topic.seen is None for topic in waiter.topics):
                wake(waiter)

    def _forget(self) -> None:
        # A mark is as old as the read that took it at most, and a read is answered well within this time.
        now = asyncio.get_running_loop().time()
        if now - self._forgot_at >= MEMORY_S:
            self._forgot_at = now
            self._signalled, self._signalled_before = {}, self._signalled


def wake(waiter: Waiter) -> None:
    """Let one read look again."""
    if not waiter.woken.done():
        waiter.woken.set_result(None)


def names_in(data: object) -> list[str]:
    """Read a message of the channel: a JSON list of topics. Anything else says nothing."""
    try:
        names = json.loads(data) if isinstance(data, str | bytes) else None
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
