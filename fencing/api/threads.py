"""A few threads that run blocking calls for one event loop. Leaner than an executor: one queue, batched answers.

Nobody gets all of them: the calls of one owner (a key) that are more than its share wait in a line of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Overloaded(Exception):
    """More calls wait for a thread than the pool lets wait."""


class Call(Generic[T]):
    """One blocking call on its way through the pool."""

    __slots__ = ("error", "future", "owner", "run", "value")

    def __init__(self, run: Callable[[], T], future: asyncio.Future[T], owner: Hashable) -> None:
        self.run = run
        self.future = future
        self.owner = owner
        self.value: T | None = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Hand the result to whoever awaits it, unless nobody does any more."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.value)  # type: ignore[arg-type]
        else:
            self.future.set_exception(self.error)


class Threads:
    """`count` threads beside one event loop, and at most `backlog` calls that wait for one of them.

    An owner's calls fill half of the threads (two at least) and half of the backlog at most: a flood waits for itself.
    """

    def __init__(self, *, count: int, backlog: int, name: str) -> None:
        self.count = count
        self.backlog = backlog
        self.name = name
        self.waiting = 0
        self.share = max(2, count // 2)
        self._in_line: dict[Hashable, deque[Call[Any]]] = {}
        self._in_threads: Counter[Hashable] = Counter()
        self._queue: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._done: deque[Call[Any]] = deque()
        self._announced = False
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads. They are daemons: a call that never ends does not keep the process alive."""
        self._loop = loop
        for number in range(self.count):
            thread = threading.Thread(target=self._serve, name=f"{self.name}-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def run(self, call: Callable[[], T], owner: Hashable = None) -> asyncio.Future[T]:
        """Queue a call; its result is the future's. A call without an owner is the process's own, and waits for none.

        Raises `Overloaded` where too many wait already: an answer that comes too late helps nobody.
        """
        line = self._in_line.get(owner, ())
        if self._loop is None or self.waiting >= self.backlog + self.count or len(line) >= self.backlog // 2:
            raise Overloaded
        future: asyncio.Future[T] = self._loop.create_future()
        self.waiting += 1
        made = Call(call, future, owner)
        if owner is not None and self._in_threads[owner] >= self.share:
            self._in_line.setdefault(owner, deque()).append(made)
        else:
            self._begin(made)
        return future

    def stop(self, timeout: float) -> None:
        """Let the threads finish what is queued, and wait for them for `timeout` seconds in all."""
        for _ in self._threads:
            self._queue.put(None)
        share = timeout / max(1, len(self._threads))
        for thread in self._threads:
            thread.join(share)
        self._threads.clear()

    def _serve(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                call.value = call.run()
            except BaseException as error:  # noqa: BLE001 - whoever awaits the call judges its error
                call.error = error
            self._done.append(call)
            self._announce()

    def _announce(self) -> None:
        # One wake-up of the loop carries every call that was done by then. The flag is set before the wake-up and
        # cleared before the deque is read, so that a call that is added in between announces itself again.
        if not self._announced and self._loop is not None:
            self._announced = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                return  # the loop is closed: nobody awaits anything any more

    def _drain(self) -> None:
        self._announced = False
        while self._done:
            call = self._done.popleft()
            self.waiting -= 1
            self._end(call.owner)
            call.settle()

    def _begin(self, call: Call[Any]) -> None:
        if call.owner is not None:
            self._in_threads[call.owner] += 1
        self._queue.put(call)

    def _end(self, owner: Hashable) -> None:
        """Let the next of an owner's line in. All of this belongs to the loop's own thread."""
        if owner is None:
            return
        self._in_threads[owner] -= 1
        line = self._in_line.get(owner)
        if line:
            self._begin(line.popleft())
        if not line:
            self._in_line.pop(owner, None)
        if not self._in_threads[owner]:
            del self._in_threads[owner]
