"""Telling others after a commit: waiting reads by their topics, workers by their queues. A hint that may be lost (N6).

What is announced while an announcement is on its way goes out with the next one, so that a busy process sends few.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cache

from fencing.services import signals, wakeups


class Announcer:
    """One thread that sends what has gathered. Whoever announces never waits for Redis."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._topics: set[str] = set()
        self._queues: set[str] = set()
        self._thread: threading.Thread | None = None

    def announce(self, topics: Iterable[str], queues: Iterable[str]) -> None:
        """Have these topics signalled and these queues woken, soon."""
        with self._lock:
            self._topics.update(topics)
            self._queues.update(queues)
            if not (self._topics or self._queues):
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, name="announcer", daemon=True)
                self._thread.start()
            self._lock.notify()

    def _send(self) -> None:
        while True:
            with self._lock:
                while not (self._topics or self._queues):
                    self._lock.wait()
                topics, self._topics = self._topics, set()
                queues, self._queues = self._queues, set()
            for queue in queues:
                wakeups.wake(queue)
            if topics:
                signals.publish(topics)


def announce(topics: Iterable[str], queues: Iterable[str]) -> None:
    """Announce what was committed. Call it after the commit, never inside a transaction."""
    _announcer().announce(topics, queues)


@cache
def _announcer() -> Announcer:
    return Announcer()
