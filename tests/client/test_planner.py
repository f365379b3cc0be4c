import asyncio
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from fencing.client import AlreadyCommitted, AsyncPlanner, Planner, Repetition, StaleEpoch, Unreachable
from fencing.client.calls import Call
from tests.client.scripted import DROPPED, Answer, Play, ScriptedServer, problem, reply

Make = Callable[..., Any]
PROPOSED = {"run": "r", "step": "s", "epoch": 7, "phase": "proposed"}
COMMITTED = PROPOSED | {"phase": "committed", "commit": {"token": "t", "authority": "agreement", "payload_digest": "d"}}
EVENT = {"cursor": "c1", "at": "2026-01-02T03:04:05Z", "what": "decided", "step": COMMITTED}


def test_a_run_is_opened_with_the_members_that_were_given(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(status=201, body={"run": "r", "epoch": 7, "counter": 7}))
    run = client(Planner).open_run("r", epoch=7, labels={"team": "billing"})
    assert (run.epoch, run.counter, run.duplicate) == (7, 7, False)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/runs")
    assert request.body == {"run": "r", "epoch": 7, "labels": {"team": "billing"}}
    assert request.headers["authorization"] == "Bearer a-key"
    assert request.headers["content-type"] == "application/json"


def test_a_proposal_survives_a_dropped_connection(client: Make, server: ScriptedServer) -> None:
    server.will(DROPPED, Answer(body=PROPOSED | {"duplicate": True}))
    step = client(Planner).propose("r", "s", 7, action={"tool": "refund", "args": {}}, context={"invoice": 9})
    assert step.duplicate
    assert [request.body for request in server.requests] == [server.requests[0].body] * 2


def test_restart_replay_and_reads_go_where_the_protocol_says(client: Make, server: ScriptedServer) -> None:
    planner = client(Planner)
    server.will(
        Answer(status=201, body={"run": "r", "epoch": 8, "superseded": ["s"], "revoked": [], "voided": ["g"]}),
        Answer(status=201, body={"run": "r", "step": "s", "epoch": 9}),
        Answer(body={"run": "r", "epoch": 8, "counter": 9}),
        Answer(body=COMMITTED),
        Answer(body={"id": "i", "run": "r", "key": "k", "state": "ready"}),
        Answer(body={"keys": [{"kid": "k1", "kty": "OKP"}]}),
    )
    restarted = planner.restart("r", expected_epoch=7, reason="took over")
    assert (restarted.epoch, restarted.superseded, restarted.voided) == (8, ("s",), ("g",))
    assert planner.replay("r", "s", from_epoch=8, reason="diverged").epoch == 9
    assert planner.get_run("r").counter == 9
    assert planner.get_step("r", "s", 7, wait_s=5, phase="proposed").commit.token == "t"
    assert planner.get_intent("i").state == "ready"
    assert planner.signing_keys() == {"k1": {"kid": "k1", "kty": "OKP"}}
    assert server.paths == [
        "/api/v1/epochs",
        "/api/v1/steps/replay",
        "/api/v1/runs/r",
        "/api/v1/runs/r/steps/s",
        "/api/v1/intents/i",
        "/.well-known/jwks.json",
    ]
    assert server.requests[0].body == {"run": "r", "expected_epoch": 7, "reason": "took over"}
    assert server.requests[3].query == {"epoch": "7", "wait": "5.000", "phase": "proposed"}


def test_refusals_have_names_of_their_own(client: Make, server: ScriptedServer) -> None:
    planner = client(Planner)
    server.will(problem(409, "stale_epoch", current_epoch=8), problem(409, "already_committed"))
    with pytest.raises(StaleEpoch) as caught:
        planner.restart("r", expected_epoch=7, reason="took over")
    assert caught.value.current_epoch == 8
    with pytest.raises(AlreadyCommitted):
        planner.replay("r", "s", from_epoch=7, reason="diverged")
    assert len(server.requests) == 2


def test_a_name_cannot_leave_its_place_in_the_path(client: Make, server: ScriptedServer) -> None:
    server.will(problem(404, "not_found"))
    with pytest.raises(Exception, match="not_found"):
        client(Planner).get_step("a/../b", "s?x=1", 7)
    assert server.paths == ["/api/v1/runs/a%2F..%2Fb/steps/s%3Fx%3D1"]


def test_waiting_ends_with_the_decision(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body=PROPOSED, delay_s=0.3), Answer(body=COMMITTED))
    assert client(Planner).wait_decided("r", "s", 7).commit.token == "t"
    assert [request.query["wait"] for request in server.requests] == ["30.000"] * 2


def test_a_wait_that_is_over_gives_the_step_as_it_stands(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body=PROPOSED, delay_s=0.2))
    step = client(Planner).wait_decided("r", "s", 7, patience_s=0.1)
    assert not step.is_decided
    assert len(server.requests) == 1


def test_a_wait_may_outlast_the_timeout_of_other_calls(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body=COMMITTED, delay_s=0.4))
    planner = client(Planner, timeout_s=0.2)
    assert planner.wait_decided("r", "s", 7, patience_s=5).is_decided
    with pytest.raises(Unreachable, match="ReadTimeout"):
        planner.get_step("r", "s", 7)


def test_patience_is_what_is_left_of_it() -> None:
    play = Play(reply(PROPOSED), reply(PROPOSED), reply(PROPOSED), takes_s=20)
    step = play(Planner.wait_decided(Planner("http://127.0.0.1:9"), "r", "s", 7, patience_s=45))
    assert not step.is_decided
    assert [call.wait_s for call in play.calls] == [30, 25, 5]


def test_a_service_that_cannot_wait_is_not_hammered() -> None:
    play = Play(*[reply(PROPOSED)] * 5, takes_s=0.01)
    play(Planner.wait_decided(Planner("http://127.0.0.1:9"), "r", "s", 7, patience_s=1))
    assert all(pause.least_s > 0.2 for pause in play.pauses)


def test_events_are_followed_by_their_cursor(server: ScriptedServer) -> None:
    server.will(
        Answer(body={"items": [EVENT, EVENT | {"cursor": "c2"}], "next": "c2"}),
        Answer(body={"items": [], "next": "c2"}, delay_s=0.3),
        Answer(body={"items": [EVENT | {"cursor": "c3"}], "next": None}),
        Answer(body={"items": [EVENT | {"cursor": "c4"}], "next": None}),
    )
    with Planner(server.base_url, "a-key") as planner:
        found = list(itertools.islice(planner.events("c0", wait_s=0.2), 4))
    assert [event.cursor for event in found] == ["c1", "c2", "c3", "c4"]
    assert found[0].step.commit is not None
    assert [request.query["after"] for request in server.requests] == ["c0", "c2", "c2", "c3"]


def test_events_are_followed_without_blocking_too(server: ScriptedServer) -> None:
    server.will(
        Answer(body={"items": [EVENT], "next": "c1"}), Answer(body={"items": [EVENT | {"cursor": "c2"}], "next": "c2"})
    )

    async def follow() -> list[str]:
        async with AsyncPlanner(server.base_url, "a-key") as planner:
            cursors = []
            async for event in planner.events():
                cursors.append(event.cursor)
                if len(cursors) == 2:
                    break
            return cursors

    assert asyncio.run(follow()) == ["c1", "c2"]


def test_a_call_shows_what_it_takes() -> None:
    planner = Planner("http://127.0.0.1:9", "secret-key", repetition=Repetition(tries=1))
    assert list(inspect.signature(planner.restart).parameters) == ["run", "expected_epoch", "reason", "epoch"]
    assert "Close every older epoch" in (planner.restart.__doc__ or "")
    assert "secret-key" not in repr(planner)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://example.test", "http://", ""])
def test_an_address_that_is_none_is_told_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="base address"):
        Planner(address, "key")


def test_what_is_no_json_is_told_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        Call(method="POST", path="/steps", body={"context": float("nan")}).content()
