"""An audit whose rows are really committed, a place of its own for heads, and a superuser who switches triggers off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg import sql
from pytest_django import Settings
from pytest_django.plugin import DjangoDbBlocker

from fencing.models import AuditEvent
from fencing.services.signing import ensure_keys
from tests.fencing.beside import empty_database
from tests.throwaway import throw_away

Connection = psycopg.Connection[Any]


@pytest.fixture
def db(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database without a transaction around the test: what is committed is removed afterwards."""
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.fixture
def heads(tmp_path: Path, settings: Settings) -> Path:
    """The file of heads of this test."""
    settings.FENCE_HEADS = tmp_path / "heads"
    return tmp_path / "heads" / "audit-heads.ndjson"


@pytest.fixture
def audit(db: None, heads: Path) -> None:
    """An empty audit that can be sealed."""
    ensure_keys()


@pytest.fixture
def superuser(audit: None) -> Iterator[Connection]:
    """Somebody who may do anything, with every trigger off."""
    connected = psycopg.connect(
        host=connection.settings_dict["HOST"],
        dbname=connection.settings_dict["NAME"],
        user="postgres",
        password=throw_away().folder.secret("postgres"),
        autocommit=True,
    )
    connected.execute("SET session_replication_role = replica")
    yield connected
    connected.close()


def write_rows(count: int = 1, **values: Any) -> list[AuditEvent]:
    """Write rows into the audit, each with something in every column."""
    rows = [
        AuditEvent(
            **{
                "actor": f"anna-{index}",
                "role": "oncall",
                "verb": "issue_grant",
                "kind": "grant",
                "subject": f"night-shift-{index}",
                "run": "run-88",
                "before": {"state": "pending"},
                "after": {"state": "live", "uses": index, "share": 0.5},
                "reason": "Überweisung 決済 🦆",
                "source": "192.0.2.7",
                "request": f"req-{index}",
                **values,
            }
        )
        for index in range(count)
    ]
    return AuditEvent.objects.bulk_create(rows)


def change(superuser: Connection, row: int, column: str, value: object) -> None:
    """Change one column of a row behind the system's back."""
    table, name = sql.Identifier(AuditEvent._meta.db_table), sql.Identifier(column)
    superuser.execute(sql.SQL("UPDATE {} SET {} = %s WHERE id = %s").format(table, name), [value, row])
