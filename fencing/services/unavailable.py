"""Which errors of the database mean "not now": nothing was done, and the same may be tried again (H4, N6)."""

from __future__ import annotations

from typing import Final

from django.db import InterfaceError, OperationalError
from psycopg import errors as pg
from psycopg_pool import PoolTimeout

TOO_BUSY: Final = "is too busy"


def why_unavailable(error: Exception) -> str | None:
    """What is the matter with the database, as the end of a sentence; None where the error is a fault of ours."""
    cause = error.__cause__ or error
    match cause:
        case pg.ReadOnlySqlTransaction():
            return "is read-only"
        case pg.DiskFull() | pg.OutOfMemory():
            return "is full"
        case PoolTimeout() | pg.TooManyConnections():
            return "has no free connection"
        case pg.DeadlockDetected() | pg.SerializationFailure() | pg.LockNotAvailable() | pg.QueryCanceled():
            return TOO_BUSY
    return "is away" if isinstance(error, OperationalError | InterfaceError) else None
