"""Plain counts of what leaves no row of its own, spread over shards so that transactions do not queue for one row."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Final

import structlog
from django.db import DatabaseError, connection

SHARDS: Final = 32
FLUSH_AFTER_S: Final = 1.0

log = structlog.get_logger(__name__)


def count(name: str, by: int = 1) -> None:
    """Add to a count, as part of the caller's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fencing_tally (name, shard, count) VALUES (%s, %s, %s)"
            " ON CONFLICT (name, shard) DO UPDATE SET count = fencing_tally.count + excluded.count",
            [name, random.randrange(SHARDS), by],  # noqa: S311 - spreads load, guards nothing
        )


class Pending:
    """Counts that anybody can drive up without a key: kept in memory, put down once a second, lost with the process."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._flushed_at = 0.0

    def add(self, name: str) -> None:
        """Count one more, and put the counts down if that is due."""
        with self._lock:
            self._counts[name] += 1
            is_due = time.monotonic() - self._flushed_at >= FLUSH_AFTER_S
        if is_due:
            self.flush()

    def note(self, name: str) -> None:
        """Count one more and put nothing down: for who must not wait for the database."""
        with self._lock:
            self._counts[name] += 1

    def flush(self) -> None:
        """Put the counts down. Where the database is away they stay in memory; the request goes on."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            self._flushed_at = time.monotonic()
        try:
            while counts:
                name, by = next(iter(counts.items()))
                count(name, by)
                del counts[name]
        except DatabaseError as error:
            log.warning("tally_failed", error=type(error).__name__)
            with self._lock:
                self._counts.update(counts)


PENDING: Final = Pending()
