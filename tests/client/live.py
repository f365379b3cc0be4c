"""Keys of a whole running system, made once for all tests that play against it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import fencing.demo
from tests.live import LiveSystem

TOOLS = Path(fencing.demo.__file__).parent / "tools.json"


@pytest.fixture(scope="session")
def live_keys(live_system: LiveSystem, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A key for each role, by its name; the demo's tools are registered."""
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    live_system.manage("conformance_keys", str(file), "--tools", str(TOOLS))
    keys: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return keys
