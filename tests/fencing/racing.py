"""Two transactions beside each other on real connections: who waits for whom, and how each may end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.stores import SqlStore
from tests.sweeping import empty_tables

WAIT_S = 10.0

Act = Callable[[SqlStore], object]


@dataclass(kw_only=True, slots=True)
class Racer:
    """One connection with a thread of its own."""

    connection: psycopg.Connection[Any]
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))

    @property
    def store(self) -> SqlStore:
        """Rows that this racer writes."""
        return SqlStore(connection=self.connection)

    def start(self, act: Act) -> Future[str]:
        """Begin an act in the racer's own transaction, commit it, and tell how it ended (see `ending`)."""
        return self.thread.submit(self.ending, act)

    def ending(self, act: Act) -> str:
        """Act and commit: `done`, the name of the guard or constraint that refused, or the error's class."""
        try:
            act(self.store)
            self.connection.commit()
        except psycopg.IntegrityError as error:
            self.connection.rollback()
            return str(error.diag.constraint_name)
        except psycopg.Error as error:
            self.connection.rollback()
            return type(error).__name__
        return "done"

    def waits(self, future: Future[str], watcher: psycopg.Connection[Any]) -> bool:
        """Tell whether the racer waits for a lock before it ends."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until and not future.done():
            (blockers,) = watcher.execute(
                "SELECT pg_blocking_pids(%s)", [self.connection.info.backend_pid]
            ).fetchone() or ((),)
            if blockers:
                return True
            time.sleep(0.005)
        return False


@dataclass(kw_only=True, slots=True)
class Race:
    """Racers over rows that are really committed."""

    connect: Callable[[str], psycopg.Connection[Any]]
    racers: list[Racer] = field(default_factory=list)
    _watcher: psycopg.Connection[Any] | None = None

    def racer(self, role: str = "fence_fencer") -> Racer:
        """Open another connection."""
        self.racers.append(Racer(connection=self.connect(role)))
        return self.racers[-1]

    @property
    def watcher(self) -> psycopg.Connection[Any]:
        """A connection of the owner that sees who waits, and reads what was committed."""
        if self._watcher is None:
            self._watcher = self.connect("fence_owner")
            self._watcher.autocommit = True
        return self._watcher

    def read(self, statement: str, *values: object) -> Any:
        """Return the one value that a query finds among what is committed."""
        row = self.watcher.execute(statement, values).fetchone()
        return row[0] if row else None

    def behind(self, first: tuple[Racer, Act], second: tuple[Racer, Act]) -> str:
        """Hold the first act's transaction open until the second waits for it, commit it, and tell the second's end."""
        (holder, act), (waiter, acting) = first, second
        act(holder.store)
        future = waiter.start(acting)
        assert waiter.waits(future, self.watcher), f"did not wait: {future.result(WAIT_S)}"
        holder.connection.commit()
        return future.result(WAIT_S)

    def at_once(self, *acts: tuple[Racer, Act]) -> list[str]:
        """Let all acts begin at the same moment, and return their ends in order."""
        gate = threading.Barrier(len(acts))

        def behind_the_gate(act: Act) -> Act:
            def acting(store: SqlStore) -> object:
                gate.wait(WAIT_S)
                return act(store)

            return acting

        futures = [racer.start(behind_the_gate(act)) for racer, act in acts]
        return [future.result(WAIT_S) for future in futures]

    def end(self) -> None:
        """Close every transaction and remove what was committed."""
        for racer in self.racers:
            racer.thread.shutdown(wait=True)
            racer.connection.rollback()
        self.watcher.autocommit = False
        empty_tables(self.watcher)
