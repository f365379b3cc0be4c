"""The actors of cases, and their keys: those of the suite, and a few whom it has no need of."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.live import LiveSystem
from tests.playing import Player

TOOLS: Final = Path(__file__).parent / "api" / "tools.json"

# A planner of another group, a gateway for one tool, and a path that hardly any tool asks for.
OTHERS: Final = {
    "stranger": ("--role", "planner"),
    "refunder": ("--role", "gateway", "--tool", "refund"),
    "third": ("--role", "path", "--path", "third"),
}


def player_for(system: LiveSystem) -> Player:
    """Return a player with a key for every actor and all tools registered; the first call makes them."""
    file = system.data / "actors.json"
    if not file.exists():
        _make(system, file)
    return Player(base_url=system.base_url, keys=json.loads(file.read_text(encoding="utf-8")))


def _make(system: LiveSystem, file: Path) -> None:
    made = file.with_suffix(".made")
    system.manage("conformance_keys", str(made), "--tools", str(TOOLS))
    keys = json.loads(made.read_text(encoding="utf-8"))
    with ThreadPoolExecutor(len(OTHERS)) as threads:
        issued = {name: threads.submit(_issue, system, name, options) for name, options in OTHERS.items()}
    keys |= {name: future.result() for name, future in issued.items()}
    file.write_text(json.dumps(keys), encoding="utf-8")


def _issue(system: LiveSystem, name: str, options: tuple[str, ...]) -> str:
    return system.manage("issue_key", "--name", name, *options).stdout.strip()
