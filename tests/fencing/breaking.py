"""How the tests of the invariants say that the database refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest


@contextmanager
def refused(connection: psycopg.Connection[Any], by: str, on: str | None = None) -> Iterator[None]:
    """Expect the block to fail at the guard or constraint `by` (of the table `on`); its transaction goes on."""
    with pytest.raises(psycopg.IntegrityError) as caught, allowed(connection):
        yield
    assert caught.value.diag.constraint_name == by, caught.value
    assert on in (None, caught.value.diag.table_name)


@contextmanager
def forbidden(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Expect the block to fail because the connection's role has no such privilege."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        yield


@contextmanager
def allowed(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Run the block with every deferred check at its end, so that a refusal shows here and not never."""
    connection.execute("SELECT 1")  # so that the block is a savepoint and commits nothing
    with connection.transaction():
        yield
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        connection.execute("SET CONSTRAINTS ALL DEFERRED")
