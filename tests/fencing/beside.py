"""Use cases beside each other: each in a thread and a transaction of its own, on rows that are really committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

import psycopg
from django.db import connection, connections, transaction

from tests.sweeping import empty_tables
from tests.throwaway import throw_away

T = TypeVar("T")
WAIT_S: Final = 15.0
BLOCKED: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


def connect_as(role: str) -> psycopg.Connection[Any]:
    """Open a connection to the test database as a role, beside Django's."""
    settings = connection.settings_dict
    password = throw_away().folder.secret(role)
    return psycopg.connect(host=settings["HOST"], dbname=settings["NAME"], user=role, password=password)


def empty_database() -> None:
    """Remove what was committed. Nothing may be open beside it."""
    connections.close_all()
    with connect_as("fence_owner") as owner:
        empty_tables(owner)


class Crowd:
    """A few threads with a connection each, which let acts begin at the same moment."""

    def __init__(self, size: int) -> None:
        self._threads = [ThreadPoolExecutor(1) for _ in range(size)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.submit(connections.close_all)
            thread.shutdown()

    def at_once(self, *acts: Callable[[], T]) -> list[T]:
        """Let all acts begin at the same moment, and give what they came to, in the order of the acts."""
        gate = threading.Barrier(len(acts))

        def behind_the_gate(act: Callable[[], T]) -> T:
            connection.ensure_connection()
            gate.wait(WAIT_S)
            return act()

        futures = [thread.submit(behind_the_gate, act) for thread, act in zip(self._threads, acts, strict=False)]
        return [future.result(WAIT_S) for future in futures]


def at_once(*acts: Callable[[], T]) -> list[T]:
    """Let all acts begin at the same moment, once."""
    with Crowd(len(acts)) as crowd:
        return crowd.at_once(*acts)


def alone(act: Callable[[], T]) -> T:
    """Act in a thread that is about to end: its connection ends with it."""
    try:
        return act()
    finally:
        connections.close_all()


@contextmanager
def held() -> Iterator[Callable[[Callable[[], T]], Future[T]]]:
    """Hold a transaction open around the block, and commit it at its end.

    The block gets a function that starts an act beside it; it returns once the act waits for a lock, or has ended.
    """
    with ThreadPoolExecutor(4) as threads, connect_as("fence_owner") as watcher:
        watcher.autocommit = True

        def start(act: Callable[[], T]) -> Future[T]:
            future = threads.submit(alone, act)
            wait_until(lambda: future.done() or count(watcher, BLOCKED) > 0)
            return future

        with transaction.atomic():
            yield start


def count(connection_: psycopg.Connection[Any], statement: str) -> int:
    """Return the number that a query finds."""
    row = connection_.execute(statement).fetchone()
    return int(row[0]) if row else 0


def wait_until(holds: Callable[[], bool], within_s: float = WAIT_S) -> None:
    """Return when a condition holds; fail where it never does."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.01)
