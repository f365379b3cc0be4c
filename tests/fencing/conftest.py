"""The database, as each of its roles and with or without a transaction around the test; and a tool that serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from pytest_django import Settings
from pytest_django.plugin import DjangoDbBlocker

from fencing.models import registry
from fencing.services import straight
from tests.fencing.beside import empty_database
from tests.fencing.racing import Race
from tests.pushing import LOCAL, Serving, serving
from tests.stores import SqlStore

Connection = psycopg.Connection[Any]
Connect = Callable[[str], Connection]


@pytest.fixture
def committed(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database without a transaction around the test: what is committed is removed afterwards.

    A module whose tests all want it has its fixture `db` ask for this one.
    """
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.fixture
def server(settings: Settings) -> Iterator[Serving]:
    """A tool that serves on this machine, which the operator allows."""
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as made:
        yield made


@pytest.fixture
def straight_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the services try the straight way with every request, also a lone one, as the lanes of the API do."""
    monkeypatch.setattr(straight, "AT_LEAST", 1)
    # Registries of earlier tests were removed with them.
    monkeypatch.setattr(registry, "LATEST_S", -1.0)


@pytest.fixture
def straight_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the services try the straight way with every request, also alone and inside the test's transaction.

    Gives how many rows came back from each of its statements.
    """
    counts: list[int] = []
    call = straight._call  # noqa: SLF001 - the one door to the database

    def counted(statement: str, items: str) -> Sequence[tuple[Any, ...]]:
        rows = call(statement, items)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(straight, "AT_LEAST", 1)
    monkeypatch.setattr(straight, "OUTSIDE_TRANSACTIONS", False)
    monkeypatch.setattr(straight, "_call", counted)
    # Registries of earlier tests were rolled back with them.
    monkeypatch.setattr(registry, "LATEST_S", -1.0)
    return counts


@pytest.fixture
def app(connect_as: Connect) -> Connection:
    """The role of the web processes."""
    return connect_as("fence_app")


@pytest.fixture
def fencer(connect_as: Connect) -> Connection:
    """The role of the workers."""
    return connect_as("fence_fencer")


@pytest.fixture
def owner(connect_as: Connect) -> Connection:
    """The role of migrations, who has every privilege: what stops it is a trigger or a constraint."""
    return connect_as("fence_owner")


@pytest.fixture
def as_fencer(fencer: Connection) -> SqlStore:
    """A store for factories whose rows the fencer writes."""
    return SqlStore(connection=fencer)


@pytest.fixture
def as_owner(owner: Connection) -> SqlStore:
    """A store for factories whose rows the owner writes."""
    return SqlStore(connection=owner)


@pytest.fixture
def race(connect_as: Connect) -> Iterator[Race]:
    """Connections that commit, and empty tables afterwards."""
    race = Race(connect=connect_as)
    yield race
    race.end()
