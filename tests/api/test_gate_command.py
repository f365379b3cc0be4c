"""`manage.py gate`: what a deployment pipeline hears, from a process that has a key and an address and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.actors import player_for
from tests.factories import fresh
from tests.live import TOP, LiveSystem, bare_environment


class Desk:
    """A lane with one attempt of one fragment, over HTTP."""

    def __init__(self, live: LiveSystem, folder: Path) -> None:
        self.live, self.folder = live, folder
        self.base_url, self.keys = live.base_url, player_for(live).keys
        self.lane, self.attempt = fresh("lane"), fresh("attempt")
        self.post("publisher", "/lanes", lane=self.lane, thresholds={"min_mean": 0.5})
        self.post("publisher", "/attempts", attempt=self.attempt, lane=self.lane, expected=1)

    def post(self, actor: str, path: str, **body: Any) -> None:
        headers = {"Authorization": f"Bearer {self.keys[actor]}"}
        httpx.post(f"{self.base_url}/api/v1{path}", json=body, headers=headers, trust_env=False).raise_for_status()

    def finish(self, score: float) -> None:
        self.post("scorer", "/fragments", attempt=self.attempt, epoch=1, seq=0, body="x", score=score)
        self.post("publisher", "/publish", attempt=self.attempt)

    def gate(self, *words: str, **variables: str) -> tuple[int, str]:
        """Run the command on an empty data folder; give its status and everything that it says."""
        command = [sys.executable, "manage.py", "gate", *words, "--data", str(self.folder)]
        known = {"FENCE_URL": self.base_url, "FENCE_KEY": self.keys["gate"]}
        ended = subprocess.run(
            command,
            cwd=TOP,
            env=bare_environment() | known | variables,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def desk(live_system: LiveSystem, tmp_path: Path) -> Desk:
    return Desk(live_system, tmp_path)


def test_its_status_says_wait_then_pass_or_halt(desk: Desk) -> None:
    status, said = desk.gate(desk.lane)
    assert (status, f"{desk.lane}: wait" in said) == (2, True)
    assert f"attempt {desk.attempt} misses seq 0" in said
    with ThreadPoolExecutor(1) as threads:
        begun = time.monotonic()
        waiting = threads.submit(desk.gate, desk.lane, "--wait", "40", "--json")
        time.sleep(2)
        desk.finish(0.75)
        status, said = waiting.result()
    assert time.monotonic() - begun < 38
    answer = json.loads(said)
    assert (status, answer["gate"], answer["figures"]["mean"]) == (0, "pass", 0.75)
    low = Desk(desk.live, desk.folder)
    low.finish(0.25)
    status, said = low.gate(low.lane)
    assert (status, "The mean score is 0.25, below 0.5." in said) == (1, True)


def test_no_answer_is_never_a_pass(desk: Desk) -> None:
    for words, variables in (
        ((f"{desk.lane}-none",), {}),
        ((desk.lane,), {"FENCE_KEY": "fk_gate_wrong"}),
        ((desk.lane,), {"FENCE_KEY": desk.keys["scorer"]}),
    ):
        status, said = desk.gate(*words, **variables)
        assert (status, "no answer" in said) == (3, True), said
    assert desk.gate(desk.lane, FENCE_KEY="")[0] == 1
