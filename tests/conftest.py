"""What every test can ask for: a database, Valkey, connections as one of the roles, and a whole running system."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from tests import length
from tests.live import LiveSystem
from tests.throwaway import throw_away

# What commits for a whole folder stands together, at the end, so that nobody else sees its rows. Browser tests come
# last of all: Playwright's loop runs in this thread from its first test to the end of the run.
LAST = ("filling", "faults", "browser")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know `--long`: searches that look longer, faults by the thousand."""
    parser.addoption("--long", action="store_true", help="play the long forms of searches and fault tests (hours)")


def pytest_configure(config: pytest.Config) -> None:
    """Tell `--long` to modules that read it while they are collected."""
    if config.getoption("--long"):
        os.environ[length.VARIABLE] = "1"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the folders of `LAST` come last, each of them together."""
    top = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(top).parts[0] if item.path.is_relative_to(top) else ""
        return LAST.index(folder) + 1 if folder in LAST else 0

    items.sort(key=place)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Leave the test database: it goes with its server, and a session that is still open must not fail a run."""
    return throw_away().has_postgres


@pytest.fixture(scope="session")
def servers() -> None:
    """PostgreSQL and Valkey of this test run; the first test that asks for them starts them."""
    throw_away().start()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(servers: None) -> None:
    """Start the servers before pytest-django makes the test database, as the owner role."""


@pytest.fixture
def valkey(servers: None) -> str:
    """The address of an empty Valkey."""
    with closing(redis.Redis.from_url(settings.REDIS_URL)) as client:
        client.flushdb()
    return settings.REDIS_URL


@pytest.fixture
def connect_as(db: None) -> Iterator[Callable[[str], psycopg.Connection]]:
    """Open a connection of its own to the test database as `fence_owner`, `fence_app` or `fence_fencer`."""
    opened: list[psycopg.Connection] = []

    def connect(role: str) -> psycopg.Connection:
        password = throw_away().folder.secret(role)
        name = connection.settings_dict["NAME"]
        opened.append(psycopg.connect(host=connection.settings_dict["HOST"], dbname=name, user=role, password=password))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def live_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    """A real `manage.py up` on a free port with a data folder of its own, shared by the whole run."""
    with LiveSystem.start(tmp_path_factory.mktemp("live")) as system:
        yield system
