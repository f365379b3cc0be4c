"""The few threads of a web process: shared out so that nobody gets all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from fencing.api.threads import Overloaded, Threads

Play = Callable[[Threads], Awaitable[None]]


def play(act: Play, *, count: int = 4, backlog: int = 10) -> None:
    """Let an act use a pool on a loop of its own."""

    async def run() -> None:
        threads = Threads(count=count, backlog=backlog, name="test")
        threads.start(asyncio.get_running_loop())
        await asyncio.wait_for(act(threads), 20)
        threads.stop(timeout=5)

    asyncio.run(run())


def test_an_owner_fills_half_of_the_threads_and_the_others_go_on() -> None:
    release, running = threading.Event(), threading.Semaphore(0)

    def wait() -> str:
        running.release()
        assert release.wait(20)
        return "flood"

    async def act(threads: Threads) -> None:
        flood = [threads.run(wait, b"one key") for _ in range(6)]
        for _ in range(2):
            await asyncio.to_thread(running.acquire, timeout=10)
        assert await threads.run(lambda: "other", b"another key") == "other"
        assert await threads.run(lambda: "own") == "own"
        assert not any(each.done() for each in flood)
        release.set()
        assert await asyncio.gather(*flood) == ["flood"] * 6

    play(act)


def test_an_owner_whose_line_is_too_long_is_sent_away_and_no_other() -> None:
    release = threading.Event()

    async def act(threads: Threads) -> None:
        flood = [threads.run(release.wait, b"one key") for _ in range(2 + 5)]
        with pytest.raises(Overloaded):
            threads.run(release.wait, b"one key")
        other = threads.run(lambda: "other", b"another key")
        assert await other == "other"
        release.set()
        await asyncio.gather(*flood)
        assert await threads.run(lambda: "again", b"one key") == "again"

    play(act)


def test_a_call_that_fails_gives_its_place_back() -> None:
    def fail() -> None:
        raise ValueError

    async def act(threads: Threads) -> None:
        results = await asyncio.gather(*[threads.run(fail, b"key") for _ in range(6)], return_exceptions=True)
        assert [type(each) for each in results] == [ValueError] * 6
        assert await threads.run(lambda: "well", b"key") == "well"

    play(act)
