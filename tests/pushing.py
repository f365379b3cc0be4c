"""A push tool for tests, as a real server in a thread, and a courier that calls it without the rest of the system."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.db import connection

from fencing.demo.push_tool import Ledger, PushTool
from fencing.gateway import dispatching, outcomes
from fencing.gateway.calling import Caller, Request
from fencing.gateway.courier import Courier, Desk
from fencing.gateway.outgoing import Outgoing
from fencing.protocol.pushing import Ended

LOCAL: Final = frozenset({"127.0.0.1", "localhost"})
WAIT_S: Final = 15.0


class Serving:
    """A push tool that serves in a thread of its own."""

    def __init__(self, *, secret: str | None = None, seed: int = 1) -> None:
        self.tool = PushTool(secret=secret, seed=seed)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self.tool.start(), self.loop).result(WAIT_S)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ledger(self) -> Ledger:
        return self.tool.ledger

    def hurry(self) -> None:
        """Have all that is slow answered now."""
        self.loop.call_soon_threadsafe(self.tool.is_hurried.set)

    def close(self) -> None:
        async def end() -> None:
            await self.tool.stop()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0.02)  # sockets are closed by the loop, after their tasks

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(WAIT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(WAIT_S)
        self.loop.close()


@contextmanager
def serving(**values: Any) -> Iterator[Serving]:
    """Serve a push tool for a while."""
    server = Serving(**values)
    try:
        yield server
    finally:
        server.close()


def definition(server: Serving, tool: str = "pay", *, policy: Mapping[str, Any] | None = None, **members: Any) -> Any:
    """Define the tool `pay` (idempotent) or `note` (not) of a server."""
    busy = [425, 429, {"status": 409, "pointer": "/code", "equals": "in_progress"}]
    rules = {"grace_s": 0, "lease_s": 2, "timeout_s": 1, "max_deliveries": 4, "nothing_done": busy, **(policy or {})}
    return {
        "tool": tool,
        "mode": "push",
        "idempotent": tool == "pay",
        "endpoint": f"{server.url}/{tool}",
        "read_back": f"{server.url}/effects/{{key}}",
        "ledger": f"{server.url}/ledger",
        "resources": ["/invoice"],
        "policy": rules,
        **members,
    }


@contextmanager
def courier(*, chance: Callable[[], float] = lambda: 0.0, desk: Desk = dispatching) -> Iterator[Courier]:
    """Call what is due, from a thread with connections of its own."""
    stopping = threading.Event()
    made: list[Courier] = []
    ready = threading.Event()

    async def work() -> None:
        made.append(Courier(desk, Caller(LOCAL), chance=chance))
        ready.set()
        await made[0].run(stopping)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    assert ready.wait(WAIT_S)
    try:
        yield made[0]
    finally:
        stopping.set()
        made[0].nudge()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def sent(taken: Outgoing) -> Ended:
    """Call the tool for what was taken, and tell nobody: as a worker that dies before it can."""
    headers = {"Idempotency-Key": taken.idempotency_key, "Fence-Token": taken.token}
    callee = taken.callee
    timeout_s = float(callee.policy.timeout_s)
    return call(Request(url=callee.endpoint, body=taken.body, timeout_s=timeout_s, headers=headers))


def expire(delivery: str) -> None:
    """Let a lease run out now, as time would: its end is what the sweep looks at."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fencing_delivery DISABLE TRIGGER USER")
        cursor.execute("UPDATE fencing_delivery SET lease_until = clock_timestamp() WHERE id = %s", [delivery])
        cursor.execute("UPDATE fencing_intent SET due_at = clock_timestamp() WHERE state = 'in_flight'")
        cursor.execute("ALTER TABLE fencing_delivery ENABLE TRIGGER USER")
    outcomes.sweep_intents()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE fencing_intent SET not_before = NULL WHERE state = 'ready'")


def call(request: Any, *, open_hosts: frozenset[str] = LOCAL, context: Any = None) -> Ended:
    """Make one call in a loop of its own."""

    async def once() -> Ended:
        caller = Caller(open_hosts, context)
        try:
            return await caller.call(request)
        finally:
            await caller.aclose()

    return asyncio.run(once())


def let_go() -> None:
    """Let go of connections that were cut with bytes still on their way: their loop ends before they are closed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def eventually(holds: Callable[[], bool], within_s: float = WAIT_S) -> None:
    """Return when a condition holds; fail where it never does."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)
