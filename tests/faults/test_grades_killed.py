"""Fifty attempts of twenty fragments (five hundred in the long form), by workers that are killed at random.

Fragments are doubled, delayed and shuffled, attempts restarted while they come in. However it goes: no grade is mixed,
every stale fragment is in the side log, and nothing that was answered is lost.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.actors import player_for
from tests.factories import fresh
from tests.length import long_or
from tests.live import LiveSystem

ATTEMPTS: Final = long_or(50, long=500)
FRAGMENTS: Final = 20
WORKERS: Final = 3
MARKER: Final = Path(__file__).with_name("marker.py")
WITHIN_S: Final = long_or(150, long=1800)
# So often in a hundred turns something is killed, or restarted.
KILLS: Final = 30
RESTARTS: Final = 25


@dataclass
class Field:
    """The lane, its workers, and what the fence says of it."""

    base_url: str
    keys: Mapping[str, str]
    folder: Path
    lane: str = field(default_factory=lambda: fresh("lane"))
    chance: random.Random = field(default_factory=lambda: random.Random(9))  # noqa: S311 - a test's dice
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: int = 0
    killed: int = 0
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=30))

    def post(self, actor: str, path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[actor]}"}
        return self.http.post(f"{self.base_url}/api/v1{path}", json=body, headers=headers).json()

    def get(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self.keys['auditor']}"}
        return self.http.get(f"{self.base_url}/api/v1{path}", headers=headers).json()

    def start_worker(self) -> None:
        self.started += 1
        log = self.folder / f"worker-{self.started}.jsonl"
        command = [sys.executable, str(MARKER), self.lane, str(log), str(self.started)]
        variables = {**os.environ, "FENCE_URL": self.base_url, "FENCE_KEY": self.keys["scorer"]}
        self.workers.append(subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL))

    def kill_one(self) -> None:
        worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        worker.kill()
        worker.wait(10)
        self.killed += 1

    def restart(self, attempt: str) -> bool:
        """Restart an attempt at the epoch that it is in; told is whether it did."""
        epoch = self.get(f"/attempts/{attempt}")["epoch"]
        answer = self.post("publisher", "/attempts/restart", attempt=attempt, expected_epoch=epoch, reason="a kill")
        return "epoch" in answer

    def notes(self, kind: str) -> Iterator[list[dict[str, Any]]]:
        """What the workers wrote down; a line that a kill cut off says nothing."""
        for file in self.folder.glob("worker-*.jsonl"):
            for line in file.read_text().splitlines():
                try:
                    told = json.loads(line)
                except ValueError:
                    continue
                if kind in told:
                    yield told[kind]


@pytest.fixture
def scored(live_system: LiveSystem, tmp_path: Path) -> Iterator[Field]:
    made = Field(base_url=live_system.base_url, keys=player_for(live_system).keys, folder=tmp_path)
    yield made
    for worker in made.workers:
        worker.kill()
        worker.wait(10)
    made.http.close()


def test_no_grade_is_mixed_and_nothing_is_lost_whoever_is_killed(scored: Field) -> None:
    scored.post("publisher", "/lanes", lane=scored.lane, thresholds={})
    waiting = [f"{scored.lane}-{number}" for number in range(ATTEMPTS)]
    for name in waiting:
        scored.post("publisher", "/attempts", attempt=name, lane=scored.lane, expected=FRAGMENTS)
    everything, grades, restarts = list(waiting), dict[str, Any](), 0
    until = time.monotonic() + WITHIN_S
    while waiting:
        assert time.monotonic() < until, f"{len(waiting)} attempts are not published: {waiting[:3]}"
        while len(scored.workers) < WORKERS:
            scored.start_worker()
        dice = scored.chance.randrange(100)
        if dice < KILLS:
            scored.kill_one()
        elif dice < KILLS + RESTARTS:
            restarts += scored.restart(scored.chance.choice(waiting))
        for name in scored.chance.sample(waiting, min(len(waiting), 10)):
            answer = scored.post("publisher", "/publish", attempt=name)
            if answer["result"] == "publish":
                grades[name] = answer["grade"]
                waiting.remove(name)
        if scored.killed > ATTEMPTS // 3 and waiting:
            # What the dead hold is taken back by a restart, as an operator would.
            restarts += scored.restart(waiting[0])
        time.sleep(0.3)
    assert scored.killed > 3
    assert restarts > 3
    # The score of a fragment is its epoch: the mean is the epoch's number, or two epochs are inside.
    assert {name: grade["mean"] for name, grade in grades.items()} == {
        name: float(grade["epoch"]) for name, grade in grades.items()
    }
    assert any(grade["epoch"] > 1 for grade in grades.values())
    check_the_side_log(scored, everything)
    (lane,) = scored.get(f"/lanes?lane={scored.lane}")["items"]
    assert (lane["published"], lane["mixed"], lane["state"]) == (ATTEMPTS, 0, "running")


def check_the_side_log(scored: Field, attempts: list[str]) -> None:
    """What was answered as stale is on record; what was sent by a worker that died unanswered may be, too."""
    answers = Counter(each.get("code", each.get("result")) for results in scored.notes("answered") for each in results)
    sent = sum(len(items) for items in scored.notes("sent"))
    unanswered = sent - sum(answers.values())
    assert set(answers) <= {"accept", "duplicate", "stale_epoch", "already_published"}, answers
    logged = 0
    for name in attempts:
        address = f"/side-log?attempt={name}&reason=stale_epoch&kind=fragment&limit=500"
        page = scored.get(address)
        logged += len(page["items"])
        while page["next"]:
            page = scored.get(f"{address}&cursor={page['next']}")
            logged += len(page["items"])
    assert answers["stale_epoch"] > 0
    assert answers["stale_epoch"] <= logged <= answers["stale_epoch"] + unanswered
