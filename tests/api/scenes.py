"""A web process with keys that it knows, shared by the tests of a module, and what happens around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
import psycopg
import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from fencing.protocol.callers import Role
from fencing.services.credentials import COMMAND_LINE
from fencing.services.fencing import decide_due
from fencing.services.signing import ensure_keys
from fencing.services.tools import load_definitions
from tests.api.conftest import REFUND, TOOLS, make_key
from tests.api.serving import WITHOUT_NET, Web, database_url
from tests.factories import fresh
from tests.sweeping import empty_tables

# Two threads, so that three reads that held one each would stop everything.
FEW_THREADS = {"FENCE_WEB_THREADS": "2"}

T = TypeVar("T")
Scenery = Callable[[], tuple[Path, dict[str, str]]]


@dataclass(kw_only=True)
class Scene:
    """A web process, and keys that it knows."""

    web: Web
    keys: dict[str, str]
    run: str = field(default_factory=lambda: fresh("run"))

    def client(self, name: str = "planner") -> httpx.Client:
        return self.web.client(self.keys[name])

    def propose(self, step: str = "s1") -> str:
        """Open the run and propose a step; give the address of the step."""
        with self.client() as planner:
            assert planner.post("/runs", json={"run": self.run, "epoch": 7}).status_code in (200, 201)
            assert planner.post("/steps", json={"run": self.run, "step": step, "epoch": 7}).status_code == 201
        return f"/runs/{self.run}/steps/{step}?epoch=7"

    def vote(self, step: str = "s1") -> None:
        """Let both paths want the same."""
        for name in ("replica", "production"):
            with self.client(name) as path:
                vote = {"run": self.run, "step": step, "epoch": 7, "action": REFUND}
                assert path.post("/votes", json=vote).status_code == 201

    def waiting(self, address: str, wait: float = 20) -> tuple[threading.Thread, list[tuple[float, httpx.Response]]]:
        """Begin to read and wait; the list gets the answer and how long it took."""
        answers: list[tuple[float, httpx.Response]] = []

        def read() -> None:
            began = time.monotonic()
            with self.client() as planner:
                answer = planner.get(f"{address}&wait={wait}")
            answers.append((time.monotonic() - began, answer))

        thread = threading.Thread(target=read)
        thread.start()
        time.sleep(0.7)
        assert not answers
        return thread, answers


@pytest.fixture(scope="module")
def scenery(
    servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenery]:
    """What starts a scene. Everything that it commits is removed when the module ends."""
    folder = tmp_path_factory.mktemp("web")
    with django_db_blocker.unblock():
        keys = committed(prepare)
        yield lambda: (folder, keys)
        with psycopg.connect(database_url()) as owner:
            empty_tables(owner)


def prepare() -> dict[str, str]:
    """Make what every scene needs."""
    ensure_keys()
    load_definitions(TOOLS, COMMAND_LINE)
    roles = {"planner": Role.PLANNER, "replica": Role.PATH, "production": Role.PATH}
    return {name: make_key(name, role).key for name, role in roles.items()}


def committed(act: Callable[[], T]) -> T:
    """Act on a connection of its own, outside the transaction of the test, and commit."""

    def run() -> T:
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as one:
        return one.submit(run).result()


@pytest.fixture(scope="module")
def shared(scenery: Scenery) -> Iterator[tuple[Web, dict[str, str]]]:
    folder, keys = scenery()
    with Web.start(folder, WITHOUT_NET, **FEW_THREADS) as web:
        yield web, keys


@pytest.fixture
def scene(db: None, shared: tuple[Web, dict[str, str]]) -> Scene:
    web, keys = shared
    return Scene(web=web, keys=keys)


def decide() -> None:
    """Be the worker: decide what is due, commit, and wake who waits for it."""
    committed(lambda: all(iter(decide_due, 0)))
