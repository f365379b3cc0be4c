"""A scripted server in the place of the fence."""

from collections.abc import Iterator

import pytest

from fencing.demo import DemoKeys
from tests.client.live import live_keys
from tests.client.scripted import ScriptedServer

__all__ = ["live_keys"]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer().running() as running:
        yield running


@pytest.fixture
def keys() -> DemoKeys:
    return DemoKeys(
        planner="key-of-planner",
        replica="key-of-replica",
        production="key-of-production",
        gateway="key-of-gateway",
        oncall="key-of-oncall",
        auditor="key-of-auditor",
    )
