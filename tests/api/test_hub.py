"""The hub: no wake-up is lost between a look and a wait, whatever Redis does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import pytest
import redis.asyncio

from fencing.api import hub as hubs
from fencing.api.hub import Hub, Topic
from fencing.services.signals import CHANNEL, Publisher

CLOSED = "redis://127.0.0.1:1/0"
STEP = Topic(name="step:run-88/pay/7", seen="proposed")
EVENTS = Topic(name="events")

T = TypeVar("T")


async def nothing_moved(_topics: Collection[Topic]) -> Collection[str]:
    return ()


async def with_hub(
    url: str, play: Callable[[Hub], Awaitable[T]], net: hubs.Net = nothing_moved, *, connected: bool = True
) -> T:
    """Play with a running hub."""
    hub = Hub(redis_url=url, net=net)
    hub.start()
    try:
        async with asyncio.timeout(15):
            await until(lambda: hub.is_connected is connected)
            return await play(hub)
    finally:
        await hub.stop()


async def until(holds: Callable[[], bool]) -> None:
    """Look every few milliseconds: the hub itself has nothing to say about its connection."""
    while not holds():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.01)


def test_a_signal_wakes_who_waits_for_its_topic_and_nobody_else(valkey: str) -> None:
    async def play(hub: Hub) -> tuple[bool, bool]:
        mine = asyncio.ensure_future(hub.wait((STEP,), since=hub.mark(), seconds=5))
        other = asyncio.ensure_future(hub.wait((EVENTS,), since=hub.mark(), seconds=0.8))
        await asyncio.sleep(0.05)
        assert Publisher(valkey).publish([STEP.name])
        return await mine, await other

    assert asyncio.run(with_hub(valkey, play)) == (True, False)


def test_over_a_socket_file_a_signal_wakes_within_a_blink(valkey: str) -> None:
    # The net would wake it too, a second later at most: only the time tells that the signal itself arrived.
    assert valkey.startswith("unix://")

    async def play(hub: Hub) -> float:
        loop, publisher, best = asyncio.get_running_loop(), Publisher(valkey), 9.0
        for _ in range(5):
            waiting = asyncio.ensure_future(hub.wait((STEP,), since=hub.mark(), seconds=5))
            await asyncio.sleep(0.01)
            began = loop.time()
            await asyncio.to_thread(publisher.publish, [STEP.name])
            assert await waiting
            best = min(best, loop.time() - began)
        return best

    assert asyncio.run(with_hub(valkey, play)) < 0.1


def test_a_signal_between_the_look_and_the_wait_is_not_missed(valkey: str) -> None:
    async def play(hub: Hub) -> bool:
        mark = hub.mark()
        Publisher(valkey).publish([STEP.name])
        await asyncio.sleep(0.3)
        return await hub.wait((STEP,), since=mark, seconds=0.01)

    assert asyncio.run(with_hub(valkey, play)) is True


def test_a_signal_from_before_the_look_wakes_nobody(valkey: str) -> None:
    async def play(hub: Hub) -> bool:
        Publisher(valkey).publish([STEP.name])
        await asyncio.sleep(0.3)
        return await hub.wait((STEP,), since=hub.mark(), seconds=0.3)

    assert asyncio.run(with_hub(valkey, play)) is False


def test_the_net_wakes_who_waits_for_a_step_that_moved_while_redis_is_away() -> None:
    asked: list[set[Topic]] = []

    async def net(topics: Collection[Topic]) -> Collection[str]:
        asked.append(set(topics))
        return [STEP.name]

    async def play(hub: Hub) -> bool:
        return await hub.wait((STEP,), since=hub.mark(), seconds=5)

    assert asyncio.run(with_hub(CLOSED, play, net, connected=False)) is True
    assert asked[0] == {STEP}


def test_a_net_that_fails_is_cast_again() -> None:
    tries: list[int] = []

    async def net(_topics: Collection[Topic]) -> Collection[str]:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError
        return [STEP.name]

    async def play(hub: Hub) -> bool:
        return await hub.wait((STEP,), since=hub.mark(), seconds=8)

    assert asyncio.run(with_hub(CLOSED, play, net, connected=False)) is True


def test_broad_topics_are_looked_at_again_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "LOOK_AGAIN_S", 0.5)

    async def play(hub: Hub) -> bool:
        return await hub.wait((EVENTS,), since=hub.mark(), seconds=5)

    assert asyncio.run(with_hub(CLOSED, play, connected=False)) is True


def test_a_connection_that_broke_is_made_again_and_everybody_looks(valkey: str) -> None:
    async def play(hub: Hub) -> tuple[bool, bool]:
        waiting = asyncio.ensure_future(hub.wait((EVENTS,), since=hub.mark(), seconds=10))
        await asyncio.sleep(0.05)
        admin = redis.asyncio.Redis.from_url(valkey)
        assert await admin.client_kill_filter(_type="pubsub") >= 1
        woken = await waiting
        await until(lambda: hub.is_connected)
        again = asyncio.ensure_future(hub.wait((EVENTS,), since=hub.mark(), seconds=5))
        await asyncio.sleep(0.05)
        await admin.publish(CHANNEL, '["events"]')
        await admin.aclose()
        return woken, await again

    assert asyncio.run(with_hub(valkey, play)) == (True, True)


@pytest.mark.parametrize("message", ["", "not json", "{}", "5", "[5, null]", b"\xff"])
def test_a_message_that_says_nothing_harms_nobody(valkey: str, message: str | bytes) -> None:
    async def play(hub: Hub) -> bool:
        admin = redis.asyncio.Redis.from_url(valkey)
        mark = hub.mark()
        await admin.publish(CHANNEL, message)
        await admin.publish(CHANNEL, '["events"]')
        await admin.aclose()
        return await hub.wait((EVENTS,), since=mark, seconds=5)

    assert asyncio.run(with_hub(valkey, play)) is True


def test_nobody_waits_in_a_hub_that_closes(valkey: str) -> None:
    async def play(hub: Hub) -> tuple[bool, bool]:
        waiting = asyncio.ensure_future(hub.wait((EVENTS,), since=hub.mark(), seconds=10))
        await asyncio.sleep(0.05)
        hub.close()
        return await waiting, await hub.wait((EVENTS,), since=hub.mark(), seconds=10)

    assert asyncio.run(with_hub(valkey, play)) == (False, False)


def test_a_hub_stops_at_any_moment_of_connecting(valkey: str) -> None:
    async def play() -> None:
        async with asyncio.timeout(10):
            for tenths in range(0, 40, 2):
                hub = Hub(redis_url=valkey, net=nothing_moved)
                hub.start()
                await asyncio.sleep(tenths / 10_000)
                await hub.stop()

    asyncio.run(play())


def test_old_signals_are_forgotten(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MEMORY_S", 0.1)

    async def play(hub: Hub) -> int:
        hub.signal(f"step:run/{number}/1" for number in range(100))
        await asyncio.sleep(2.3)
        # That memory does not grow shows nowhere else.
        return len(hub._signalled) + len(hub._signalled_before)  # noqa: SLF001

    assert asyncio.run(with_hub(valkey, play)) == 0


def test_a_publisher_whose_redis_is_away_neither_raises_nor_waits_again() -> None:
    publisher = Publisher(CLOSED)
    assert publisher.publish(["events"]) is False
    assert publisher.publish(["events"]) is False


def test_a_topic_is_read_with_the_phase_that_was_seen() -> None:
    assert Topic.parse(" step:run-88/pay:1@x/7=proposed") == Topic(name="step:run-88/pay:1@x/7", seen="proposed")
    assert Topic.parse("wanted:replica") == Topic(name="wanted:replica")
