"""What fault tests share: rows that are really committed, and a web process whose line to the database can be cut."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from pytest_django.plugin import DjangoDbBlocker

from tests.api.conftest import make_key
from tests.api.serving import Web, database_url
from tests.faults.cutting import Cutter
from tests.faults.desk import ROLES, Desk
from tests.faults.own import Own
from tests.faults.plausible import Operation, operations
from tests.faults.targets import make_targets
from tests.fencing.beside import empty_database
from tests.stories import TOOLS, register

# A lease ends with the clock, and here nobody is in a hurry: a slow machine must not look like a silent gateway.
PATIENT_TOOLS = [{**tool, "policy": {**tool.get("policy", {}), "lease_s": 600}} for tool in TOOLS]


@pytest.fixture(scope="package")
def committed(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database without a transaction around anything: what a module commits is removed at its end."""
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.fixture
def db(committed: None) -> None:
    """What pytest-django looks for in a test's fixtures, to know that it needs the test database."""


@pytest.fixture(scope="package")
def cutter(committed: None) -> Iterator[Cutter]:
    """A line to the test database that can be cut."""
    with (
        tempfile.TemporaryDirectory(prefix="fence-cut-") as folder,
        Cutter.between(Path(folder), Path(connection.settings_dict["HOST"])) as cutter,
    ):
        yield cutter


@pytest.fixture(scope="package")
def desk(cutter: Cutter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Everybody's keys, and a web process behind the line."""
    with ThreadPoolExecutor(1) as thread:
        keys = thread.submit(_made).result()
    url = database_url("fence_app").replace(database_url().partition("host=")[2], "")
    settings = {"FENCE_DATABASE_URL_APP": f"{url}{cutter.sockets}", "FENCE_WEB_THREADS": "1"}
    with Web.start(tmp_path_factory.mktemp("cut"), **settings) as web:
        desk = Desk(web=web, keys=keys)
        yield desk
        desk.close()


@pytest.fixture(scope="package")
def calls(desk: Desk) -> list[Operation]:
    """Every call of the OpenAPI document."""
    return operations(desk.get("auditor", "/openapi.json").json())


@pytest.fixture
def targets(desk: Desk) -> list[dict[str, Any]]:
    """Somebody's steps in each state, and what hangs on their runs."""
    return make_targets(desk)


@pytest.fixture(scope="package")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """A whole system that these tests may disturb."""
    with Own.start(tmp_path_factory.mktemp("own")) as own:
        yield own


def _made() -> dict[str, str]:
    """Register the tools of stories, and make everybody's keys."""
    try:
        register(PATIENT_TOOLS)
        return {name: make_key(name, role).key for name, role in ROLES.items()}
    finally:
        connections.close_all()
