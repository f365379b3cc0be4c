"""Workers that can be thrown away, against a real fence and a real model's server: slow, failing, restarting, lying."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencing.client.chat import ChatModel
from fencing.client.marker import Scorer
from fencing.client.permit_proxy import make_proxy
from fencing.client.scoring import ScoringWorker
from tests.actors import player_for
from tests.factories import fresh
from tests.live import TOP, LiveSystem, bare_environment
from tests.model_server import ModelServer, completion, tool_call

BROKEN = {
    "an error": (500, {"error": "boom"}),
    "no JSON": (200, b"<html>sorry</html>"),
    "no choices": (200, {"choices": []}),
    "no score": (200, completion("I like it.")),
    "a score that is none": (200, completion('{"score": 1e999}')),
    "a score twice": (200, completion('{"score": 0, "score": 1}')),
    "a score in words": (200, completion('{"score": "one"}')),
}


class Desk:
    """What the tests ask of the fence, as whom."""

    def __init__(self, live: LiveSystem) -> None:
        self.base_url, self.keys = live.base_url, player_for(live).keys
        self.lane, self.attempt = fresh("lane"), fresh("attempt")

    def post(self, actor: str, path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[actor]}"}
        answer = httpx.post(f"{self.base_url}/api/v1{path}", json=body, headers=headers, trust_env=False)
        answer.raise_for_status()
        return answer.json()

    def get(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self.keys['auditor']}"}
        return httpx.get(f"{self.base_url}/api/v1{path}", headers=headers, trust_env=False).json()

    def admit(self, expected: int = 2) -> None:
        self.post("publisher", "/lanes", lane=self.lane, thresholds={})
        inputs = [{"answer": seq} for seq in range(expected)]
        self.post(
            "publisher",
            "/attempts",
            attempt=self.attempt,
            lane=self.lane,
            expected=expected,
            require_permits=True,
            inputs=inputs,
        )

    def restart(self) -> None:
        self.post("publisher", "/attempts/restart", attempt=self.attempt, expected_epoch=1, reason="worker restarted")

    def counters(self) -> dict[str, int]:
        counters: dict[str, int] = self.get("/counters")
        return counters


@pytest.fixture
def desk(live_system: LiveSystem) -> Desk:
    return Desk(live_system)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    server = ModelServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def worker(desk: Desk, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScoringWorker]:
    monkeypatch.setattr(ScoringWorker, "_rest", lambda _self: None)
    with Scorer(desk.base_url, desk.keys["scorer"]) as scorer, ChatModel(model.url, "m-1", timeout_s=1.0) as chat:
        yield ScoringWorker(scorer=scorer, model=chat, lane=desk.lane)


def work(worker: ScoringWorker) -> str:
    """Take one fragment and score it."""
    (item,) = worker.scorer.lease(worker.lane)
    return worker.work(item)


def test_a_worker_takes_work_asks_reports_and_sends(desk: Desk, model: ModelServer, worker: ScoringWorker) -> None:
    desk.admit()
    assert (work(worker), work(worker)) == ("accept", "accept")
    headers, body = model.seen[0]
    assert headers["Fence-Permit"].startswith("ey")
    assert body["messages"][1]["content"] == '{"answer": 0}'
    assert worker.scorer.lease(desk.lane) == ()
    grade = desk.post("publisher", "/publish", attempt=desk.attempt)["grade"]
    assert grade["mean"] == 0.75


@pytest.mark.parametrize("how", BROKEN)
def test_what_a_model_answers_that_is_no_score_is_no_fragment(
    how: str, desk: Desk, model: ModelServer, worker: ScoringWorker
) -> None:
    desk.admit(1)
    model.answer = lambda _body: BROKEN[how]
    assert work(worker) == "failed"
    assert desk.get(f"/attempts/{desk.attempt}")["received"] == 0


def test_a_model_that_is_slow_or_away_costs_a_lease_and_nothing_else(
    desk: Desk, model: ModelServer, worker: ScoringWorker
) -> None:
    desk.admit(3)
    model.delay_s = 3.0
    assert work(worker) == "failed"
    model.delay_s = 0.0
    model.stop()
    assert work(worker) == "failed"
    model.start()
    assert work(worker) == "accept"


def test_a_model_that_lies_about_what_it_used_is_reckoned(
    desk: Desk, model: ModelServer, worker: ScoringWorker
) -> None:
    desk.admit(1)
    lies = {"prompt_tokens": -5, "completion_tokens": "many"}
    model.answer = lambda _body: (200, completion('{"score": 1}', usage=lies))
    assert work(worker) == "accept"


def test_what_a_worker_sends_after_a_restart_is_stale_and_its_money_is_zombie_spend(
    desk: Desk, model: ModelServer, worker: ScoringWorker
) -> None:
    desk.admit(1)
    before = desk.counters()["zombie_spend"]

    def restarting(_body: dict[str, Any]) -> tuple[int, object]:
        desk.restart()
        return 200, completion('{"score": 1}')

    model.answer = restarting
    assert work(worker) == "stale"
    assert desk.counters()["zombie_spend"] == before + 1
    log = desk.get(f"/side-log?attempt={desk.attempt}&reason=stale_epoch")["items"]
    assert [row["kind"] for row in log] == ["fragment"]


def test_the_proxy_lets_through_what_carries_a_permit_of_an_open_epoch_alone(desk: Desk, model: ModelServer) -> None:
    desk.admit()
    with Scorer(desk.base_url, desk.keys["scorer"]) as fence:
        proxy = make_proxy(("127.0.0.1", 0), fence=fence, endpoint=model.url.removesuffix("/v1"))
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{proxy.server_address[1]}/v1/chat/completions"

            def ask(permit: str | None) -> tuple[int, str]:
                headers = {} if permit is None else {"Fence-Permit": permit}
                answer = httpx.post(url, json={"model": "m-1", "messages": []}, headers=headers, trust_env=False)
                return answer.status_code, answer.json().get("code", "")

            permit = fence.permit(desk.attempt, 1, 0).permit
            assert ask(permit) == (200, "")
            assert "Fence-Permit" not in model.seen[0][0]
            assert ask(None) == (403, "bad_permit")
            assert ask(permit[:-4] + "AAAA") == (403, "bad_permit")
            desk.restart()
            assert ask(permit) == (403, "stale_epoch")
            assert len(model.seen) == 1, "nothing that was refused reached the model"
        finally:
            proxy.shutdown()
            proxy.server_close()


def start(desk: Desk, folder: Path, key: str, *words: str) -> subprocess.Popen[str]:
    """Start a command with a key and an address, and nothing else."""
    return subprocess.Popen(
        [sys.executable, "manage.py", *words, "--data", str(folder)],
        cwd=TOP,
        env=bare_environment() | {"FENCE_URL": desk.base_url, "FENCE_KEY": key},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_commands_score_and_vote(desk: Desk, model: ModelServer, tmp_path: Path) -> None:
    desk.admit(3)
    run = fresh("run")
    desk.post("planner", "/runs", run=run)
    for step in ("clear", "dim"):
        desk.post("planner", "/steps", run=run, step=step, epoch=1, tool="triple_note", context={"note": step})

    def answer(body: dict[str, Any]) -> tuple[int, object]:
        if "tools" not in body:
            return 200, completion('{"score": 0.5}')
        assert {"triple_note", "refund"} <= {tool["function"]["name"] for tool in body["tools"]}
        if '"dim"' in body["messages"][1]["content"]:
            return 200, completion("I would rather not.")
        return 200, completion(calls=[tool_call("triple_note", {"text": "due"})])

    model.answer = answer
    words = ("--endpoint", model.url, "--model", "m-1")
    scoring = start(desk, tmp_path, desk.keys["scorer"], "score", "--lane", desk.lane, "--most", "3", *words)
    voting = start(desk, tmp_path, desk.keys["third"], "vote", "--path", "third", *words)
    try:
        clear, dim = (vote_of_third(desk, run, step) for step in ("clear", "dim"))
        assert clear["digest"].startswith("sha256:")
        assert "the model called 0 tools" in dim["abstain"]
        assert scoring.wait(60) == 0
        assert scoring.stdout is not None
        assert f"{desk.lane}: accept 3" in scoring.stdout.read()
        assert desk.post("publisher", "/publish", attempt=desk.attempt)["result"] == "publish"
    finally:
        for process in (scoring, voting):
            process.kill()
            process.communicate(timeout=10)


def vote_of_third(desk: Desk, run: str, step: str) -> dict[str, Any]:
    """Wait until the third path has voted on a step."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        seen = desk.get(f"/runs/{run}/steps/{step}?epoch=1")
        vote: dict[str, Any] | None = next((each for each in seen["votes"] if each["path"] == "third"), None)
        if vote is not None:
            return vote
        time.sleep(0.2)
    raise AssertionError(f"nobody voted on {step}")
