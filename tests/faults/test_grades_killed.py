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
WITHIN_S: Final = long_or(300, long=1800)
# So often in a hundred turns something is killed, or restarted; at least so often in all.
KILLS: Final = 30
RESTARTS: Final = 25
LEAST: Final = 4
LAST: Final = ATTEMPTS // 5
# What a dead worker holds back is taken from it by a restart after this, as an operator would; each time, later.
PATIENCE_S: Final = 5.0


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
    restarts: int = 0
    patience: dict[str, tuple[float, float]] = field(default_factory=dict)
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

    def restart(self, attempt: str) -> None:
        """Restart an attempt at the epoch that it is in."""
        epoch = self.get(f"/attempts/{attempt}")["epoch"]
        answer = self.post("publisher", "/attempts/restart", attempt=attempt, expected_epoch=epoch, reason="a kill")
        self.restarts += "epoch" in answer

    def disturb(self, waiting: list[str]) -> None:
        """Kill somebody, restart something, or let them work; and help on what has waited for long.

        The last few are left in peace: else a slow machine never comes to an end.
        """
        dice = self.chance.randrange(100)
        if len(waiting) > LAST or not self.is_disturbed:
            if dice < KILLS:
                self.kill_one()
            elif dice < KILLS + RESTARTS:
                self.restart(self.chance.choice(waiting))
        now = time.monotonic()
        for name in waiting:
            since, patience_s = self.patience.setdefault(name, (now, PATIENCE_S))
            if now - since > patience_s:
                self.patience[name] = now, 2 * patience_s
                self.restart(name)
                return

    @property
    def is_disturbed(self) -> bool:
        """Whether enough was killed and restarted, and something came too late: a fast machine must not end before."""
        return min(self.killed, self.restarts) >= LEAST and self.answers()["stale_epoch"] > 0

    def answers(self) -> Counter[str]:
        """What the workers were answered, fragment by fragment."""
        return Counter(
            str(each.get("code", each.get("result"))) for results in self.notes("answered") for each in results
        )

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
    everything, grades = list(waiting), dict[str, Any]()
    until = time.monotonic() + WITHIN_S
    while waiting:
        assert time.monotonic() < until, f"{len(waiting)} attempts are not published: {waiting[:3]}"
        while len(scored.workers) < WORKERS:
            scored.start_worker()
        scored.disturb(waiting)
        free = waiting if scored.is_disturbed else waiting[1:]
        for name in scored.chance.sample(free, min(len(free), 10)):
            answer = scored.post("publisher", "/publish", attempt=name)
            if answer["result"] == "publish":
                grades[name] = answer["grade"]
                waiting.remove(name)
        time.sleep(0.3)
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
    answers = scored.answers()
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
