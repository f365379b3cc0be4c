"""The notify worker of a whole running system: what happens reaches people where they said, and goes on unseen."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest

from fencing.machine.folder import DataFolder
from tests.actors import player_for
from tests.cases.acting import commit_live
from tests.factories import fresh
from tests.live import LiveSystem
from tests.playing import Player
from tests.receivers import WebServer, nobody, serving
from tests.stories import OTHER_REFUND, REFUND

PATIENCE_S = 40.0
DUE_NOW = "UPDATE fencing_notice SET due_at = clock_timestamp() WHERE due_at IS NOT NULL AND"
SIGN_IN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@pytest.fixture(scope="module")
def player(live_system: LiveSystem) -> Player:
    return player_for(live_system)


@pytest.fixture(scope="module")
def web(live_system: LiveSystem) -> Iterator[WebServer]:
    """Where three of four people are told; the place of the fourth is down."""
    with serving(WebServer()) as server:
        hook = f"json://127.0.0.1:{server.port}"
        people = {
            "told-omar": ["on-call", f"{hook}/omar"],
            "told-rita": ["reviewer", f"{hook}/rita"],
            "told-ada": ["administrator", f"{hook}/ada"],
            "told-dora": ["on-call", f"json://127.0.0.1:{nobody()}/dora"],
        }
        code = f"from tests.jobs.told_people import make; make({json.dumps(people)!r})"
        live_system.manage("shell", "-v", "0", "-c", code)
        yield server
        end = "UPDATE fencing_target SET ended_at = clock_timestamp(), locked = '' WHERE ended_at IS NULL"
        ask(live_system, end)


def ask(system: LiveSystem, statement: str, *values: Any) -> psycopg.Cursor[Any]:
    """Run a statement on the system's database, as its owner."""
    host = json.loads((system.data / "run.json").read_text())["postgres"]
    password = DataFolder(path=system.data).secret("fence_owner")
    with psycopg.connect(host=host, dbname="fence", user="fence_owner", password=password) as connection:
        return connection.execute(statement, values)


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.1)


def told(server: WebServer, who: str, run: str, word: str) -> list[str]:
    """The messages of a kind that somebody got about a run."""
    messages = [body["title"] + " " + body["message"] for path, body in server.calls if path.strip("/") == who]
    return [each for each in messages if word in each and run in each]


def diverge_late(player: Player) -> str:
    """Commit, let the effect go out, and have the replica want something else; gives the run."""
    token, names = commit_live(player, REFUND)
    admission = {"token": token, "action": REFUND}
    assert player.send({"as": "gateway", "call": "POST /gateway/admissions", "body": admission}).body["admit"]
    vote = {"run": names["run"], "step": "s1", "epoch": 1, "action": OTHER_REFUND}
    assert player.send({"as": "replica", "call": "POST /votes", "body": vote}).status == 409
    return str(names["run"])


def test_a_late_divergence_arrives_though_a_target_is_down_and_unseen_it_goes_on(
    live_system: LiveSystem, player: Player, web: WebServer
) -> None:
    run = diverge_late(player)
    for who in ("omar", "rita"):
        eventually(lambda who=who: told(web, who, run, "Late divergence"))  # type: ignore[misc]
    assert not told(web, "ada", run, "Late divergence"), "nobody asked her yet"
    # Ten minutes pass in which nobody looks.
    assert ask(live_system, f"{DUE_NOW} kind = 'late_divergence' AND facts ->> 'run' = %s", run).rowcount == 1
    eventually(lambda: told(web, "ada", run, "Late divergence"))
    assert len(told(web, "omar", run, "Late divergence")) == 1, "each is told once"


def test_a_divergence_is_gathered_and_arrives(live_system: LiveSystem, player: Player, web: WebServer) -> None:
    run = fresh("run")
    place = {"run": run, "step": "s1", "epoch": 1}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("planner", "POST /runs", {"run": run}),
        ("planner", "POST /steps", place),
        ("replica", "POST /votes", {**place, "action": REFUND}),
        ("production", "POST /votes", {**place, "action": OTHER_REFUND}),
    ]
    for actor, call, body in calls:
        assert player.send({"as": actor, "call": call, "body": body}).status == 201
    known = "SELECT FROM fencing_noticeitem WHERE kind = 'divergence' AND subject = %s"
    eventually(lambda: ask(live_system, known, f"{run}/s1/1").rowcount == 1)
    before = len(web.calls)
    # The minute passes in which further ones are gathered.
    ask(live_system, f"{DUE_NOW} kind = 'divergence' AND told_level = 0")
    eventually(
        lambda: any(path.strip("/") == "rita" and "diverged" in body["title"] for path, body in web.calls[before:])
    )


def test_a_target_that_is_down_shows_on_the_health_page(
    live_system: LiveSystem, player: Player, web: WebServer
) -> None:
    diverge_late(player)
    (password,) = re.findall(r"first administrator: admin, password (\S+)", live_system.said())
    with httpx.Client(base_url=live_system.base_url, trust_env=False, follow_redirects=True) as browser:
        (token,) = SIGN_IN.findall(browser.get("/sign-in").text)[:1]
        typed = {"login": "admin", "password": password, "csrfmiddlewaretoken": token}
        browser.post("/sign-in", data=typed, headers={"Referer": f"{live_system.base_url}/sign-in"})

        def is_shown() -> bool:
            page = re.sub(r"\s+", " ", browser.get("/health?part=parts").text)
            return re.search(r"told-dora.{0,600}onnection", page) is not None and "1 target fails" in page

        eventually(is_shown)
