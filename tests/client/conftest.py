"""A scripted server, and every client in both its shells."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencing.client import AsyncGateway, AsyncPath, AsyncPlanner, Gateway, Path, Planner, Repetition
from tests.client.live import live_keys
from tests.client.scripted import ScriptedServer

__all__ = ["live_keys"]

TWINS: dict[type, type] = {Planner: AsyncPlanner, Path: AsyncPath, Gateway: AsyncGateway}
QUICK = Repetition(tries=3, first_s=0.01, longest_s=0.2)


class Blocking:
    """An asynchronous client whose calls are awaited, so that one test serves both shells."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._client, name)
        if not callable(member):
            return member

        def call(*args: Any, **kwargs: Any) -> Any:
            result = member(*args, **kwargs)
            return self._runner.run(result) if asyncio.iscoroutine(result) else result

        return call


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer().running() as running:
        yield running


@pytest.fixture(params=["blocking", "asyncio"])
def client(request: pytest.FixtureRequest, server: ScriptedServer) -> Iterator[Callable[..., Any]]:
    """Make a client of the server: `client(Planner)`, once as it is and once as its asynchronous twin."""
    opened: list[Any] = []
    with asyncio.Runner() as runner:

        def make(kind: type, **settings: Any) -> Any:
            settings = {"repetition": QUICK, "timeout_s": 0.5, **settings}
            if request.param == "blocking":
                opened.append(kind(server.base_url, "a-key", **settings))
            else:
                opened.append(Blocking(TWINS[kind](server.base_url, "a-key", **settings), runner))
            return opened[-1]

        yield make
        for each in opened:
            each.close()
