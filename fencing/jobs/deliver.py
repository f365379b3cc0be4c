"""The deliver job: a wake-up of the courier, which lives as long as its worker process.

The courier runs in a thread of its own. So a job of the queue ends at once however long calls take, and nothing that
the queue remembers of jobs is ever taken for a delivery.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Final

from django.conf import settings

from fencing.gateway import dispatching
from fencing.gateway.calling import Caller
from fencing.gateway.courier import Courier, listen
from fencing.services.wakeups import ALIVE_S, alive, bell

QUEUE: Final = "deliver"
_couriers: list[Courier] = []


def drain() -> None:
    """Wake the courier of this process."""
    for courier in _couriers:
        courier.nudge()


def start(stopping: threading.Event) -> threading.Thread:
    """Start a courier that works until `stopping`; its thread ends when all that was under way is told."""
    thread = threading.Thread(target=lambda: asyncio.run(_work(stopping)), name=QUEUE, daemon=True)
    thread.start()
    return thread


async def _work(stopping: threading.Event) -> None:
    courier = Courier(dispatching, Caller(settings.FENCE_TOOL_HOSTS))
    _couriers.append(courier)
    ears = asyncio.create_task(listen(settings.REDIS_URL, bell(QUEUE), (alive(QUEUE), ALIVE_S), courier.nudge))
    try:
        await courier.run(stopping)
    finally:
        _couriers.remove(courier)
        ears.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ears
