"""The shell over real HTTP: reads that wait, bodies, disconnects, stopping (H5, design 9)."""

# ruff: noqa: F811 - fixtures come out of `scenes` by their names

from __future__ import annotations

import hashlib
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
from django.db import connection

from fencing.models import SideLogRow
from tests.api.conftest import REFUND
from tests.api.scenes import FEW_THREADS, Scene, Scenery, committed, decide, scene, scenery, shared  # noqa: F401
from tests.api.serving import Web, database_url
from tests.factories import fresh

CLOSED_REDIS = "redis://127.0.0.1:1/0"
# Reads here wait for 20 seconds, without a net that looks by itself: what answers sooner was woken.
EARLY_S = 15
CLOSED_DATABASE = "postgresql://nobody@127.0.0.1:1/nothing"


def test_a_waiting_read_answers_at_the_decision(scene: Scene) -> None:
    for step in ("s1", "s2", "s3"):
        thread, answers = scene.waiting(scene.propose(step))
        scene.vote(step)
        decide()
        thread.join()
        ((seconds, answer),) = answers
        assert (answer.status_code, answer.json()["phase"]) == (200, "committed")
        assert seconds < EARLY_S


def test_a_waiting_read_with_a_phase_answers_as_soon_as_the_step_has_left_it(scene: Scene) -> None:
    address = scene.propose()
    with scene.client() as planner:
        began = time.monotonic()
        assert planner.get(f"{address}&wait=20&phase=fenced").json()["phase"] == "proposed"
        assert time.monotonic() - began < EARLY_S


def test_a_waiting_read_answers_as_it_stands_when_its_time_is_over(scene: Scene) -> None:
    address = scene.propose()
    with scene.client() as planner:
        began = time.monotonic()
        answer = planner.get(f"{address}&wait=1.2")
    assert (answer.status_code, answer.json()["phase"]) == (200, "proposed")
    assert time.monotonic() - began > 1.1
    assert "x-fence-wait" not in answer.headers


def test_what_is_decided_between_the_look_and_the_wait_is_not_missed(scene: Scene) -> None:
    steps = [f"s{number}" for number in range(12)]
    addresses = [scene.propose(step) for step in steps]

    def read(address: str) -> float:
        began = time.monotonic()
        with scene.client() as planner:
            assert planner.get(f"{address}&wait=20").json()["phase"] == "committed"
        return time.monotonic() - began

    with ThreadPoolExecutor(12) as pool:
        reads = [pool.submit(read, address) for address in addresses]
        # While these reads arrive, look and go to wait, each at another moment, everything is decided.
        for step in steps:
            scene.vote(step)
            decide()
        assert max(each.result() for each in reads) < EARLY_S


def test_a_path_that_waits_for_work_gets_it_when_it_is_proposed(scene: Scene) -> None:
    # What other tests left undone awaits this path too: it is decided first.
    with scene.client("replica") as replica:
        for left in replica.get("/votes/wanted?limit=500").json()["items"]:
            vote = {name: left[name] for name in ("run", "step", "epoch")}
            replica.post("/votes", json={**vote, "abstain": "Left over."})
        with ThreadPoolExecutor(1) as other:
            wanted = other.submit(replica.get, "/votes/wanted?wait=20")
            time.sleep(0.5)
            began = time.monotonic()
            scene.propose("s1")
            items = wanted.result().json()["items"]
    assert [(item["run"], item["step"]) for item in items] == [(scene.run, "s1")]
    assert time.monotonic() - began < EARLY_S


def test_a_planner_follows_decisions_as_they_come(scene: Scene) -> None:
    with scene.client() as planner:
        after = ""
        while (page := planner.get(f"/events?limit=500{after}").json())["items"]:
            after = f"&after={page['next']}"
        scene.propose()
        with ThreadPoolExecutor(1) as other:
            events = other.submit(planner.get, f"/events?wait=20{after}")
            time.sleep(0.5)
            scene.vote()
            began = time.monotonic()
            decide()
            (event,) = events.result().json()["items"]
    assert (event["what"], event["step"]["step"], event["step"]["phase"]) == ("decided", "s1", "committed")
    assert event["step"]["commit"]["token"]
    assert time.monotonic() - began < EARLY_S


def test_many_waiting_reads_hold_neither_threads_nor_connections(scene: Scene) -> None:
    address = scene.propose()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        (before,) = cursor.fetchone()
    limits = httpx.Limits(max_connections=100)
    with ThreadPoolExecutor(60) as others, scene.web.client(scene.keys["planner"], limits=limits) as planner:
        reads = [others.submit(planner.get, f"{address}&wait=10&phase=proposed") for _ in range(60)]
        time.sleep(1.5)
        assert planner.get("/tools").status_code == 200
        assert not any(each.done() for each in reads), "nobody's wait had to end for that answer"
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            (during,) = cursor.fetchone()
        scene.vote()
        decide()
        assert {each.result().json()["phase"] for each in reads} <= {"agreed", "committed"}
    # The shell has two threads, and each may have got a connection of its own by now.
    assert during <= before + 2


def test_a_client_that_goes_away_leaves_nothing_behind(scene: Scene) -> None:
    address = scene.propose()
    with socket.create_connection(("127.0.0.1", int(scene.web.base_url.rpartition(":")[2]))) as raw:
        request = (
            f"GET /api/v1{address}&wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {scene.keys['planner']}\r\n\r\n"
        )
        raw.sendall(request.encode())
        time.sleep(0.5)
    with scene.client() as planner:
        assert planner.get("/tools").status_code == 200
    assert "Traceback" not in scene.web.output.read_text()


def test_every_bad_or_odd_request_gets_an_answer(scene: Scene) -> None:
    with scene.client() as planner:
        assert planner.get("/tools?cursor=%ff%fe").status_code == 422
        assert planner.head("/tools").status_code == 200
        assert planner.head("/tools").content == b""
        assert planner.put("/tools").headers["allow"] == "GET"
        assert planner.post("/runs", content=iter([b'{"run": ', b'"', fresh("run").encode(), b'"}'])).status_code == 201
    port = int(scene.web.base_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET /api/v1/tools?a=\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        raw.settimeout(5)
        assert raw.recv(4096).startswith((b"HTTP/1.1 4",))


def test_a_body_beyond_the_limit_is_hashed_and_told_while_only_its_head_is_kept(scene: Scene) -> None:
    raw = b'{"run": "' + b"x" * (33 * 1024 * 1024) + b'"}'
    with scene.client() as planner:
        answer = planner.post("/runs", content=raw)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    row = SideLogRow.objects.filter(reason="too_large").latest("recorded_at")
    assert (row.body_length, row.body_sha256) == (len(raw), hashlib.sha256(raw).hexdigest())


def test_static_files_are_streamed_whole(scene: Scene) -> None:
    answer = httpx.get(f"{scene.web.base_url}/static/ninja/swagger-ui-bundle.js")
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) == len(answer.content) > 100_000


def test_a_read_is_woken_by_the_database_where_redis_is_away(db: None, scenery: Scenery) -> None:
    folder, keys = scenery()
    with Web.start(folder, REDIS_URL=CLOSED_REDIS, **FEW_THREADS) as web:
        scene = Scene(web=web, keys=keys)
        address = scene.propose()
        thread, answers = scene.waiting(address)
        scene.vote()
        decide()
        thread.join()
    ((seconds, answer),) = answers
    assert answer.json()["phase"] == "committed"
    assert seconds < EARLY_S


def test_a_process_that_is_told_to_stop_answers_who_waits_and_ends(db: None, scenery: Scenery) -> None:
    folder, keys = scenery()
    with Web.start(folder, **FEW_THREADS) as web:
        scene = Scene(web=web, keys=keys)
        thread, answers = scene.waiting(scene.propose(), wait=30)
        web.stop()
        thread.join()
    ((seconds, answer),) = answers
    assert (answer.status_code, answer.json()["phase"]) == (200, "proposed")
    assert seconds < 25, "it was sent home, and did not wait for its end"


def test_without_a_database_calls_are_told_to_come_back_and_readiness_names_it(db: None, scenery: Scenery) -> None:
    folder, keys = scenery()
    with Web.start(folder, DATABASE_URL=CLOSED_DATABASE, FENCE_DATABASE_URL_APP=CLOSED_DATABASE) as web:
        with web.client(keys["planner"]) as planner:
            answer = planner.post("/runs", json={"run": "run-88"})
        ready = httpx.get(f"{web.base_url}/readyz")
        assert httpx.get(f"{web.base_url}/healthz").status_code == 200
        assert httpx.get(f"{web.base_url}/metrics").status_code == 200
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert ready.status_code == 503
    assert "away" in ready.json()["checks"]["database"]["why"]


def test_a_connection_that_the_database_closed_costs_no_call(scene: Scene) -> None:
    with scene.client() as planner:
        assert planner.get("/tools").status_code == 200
        for _ in range(2):
            with psycopg.connect(database_url("fence_app")) as same_role:
                (ended,) = same_role.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE usename = current_user AND pid <> pg_backend_pid()"
                ).fetchone() or (0,)
            assert ended
            assert [planner.get("/tools").status_code for _ in range(4)] == [200] * 4


def test_no_key_and_no_body_is_in_the_log(scene: Scene) -> None:
    said = scene.web.output.read_text()
    assert not [name for name, key in scene.keys.items() if key in said]
    assert json.dumps(REFUND) not in said
