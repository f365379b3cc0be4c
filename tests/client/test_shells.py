import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from fencing.client import ONCE, AsyncPath, BadAnswer, Path, Planner, Unreachable
from tests.client.scripted import Answer, ScriptedServer

Make = Callable[..., Any]
RUN = {"run": "r", "epoch": 1, "counter": 1}


def test_a_slow_service_is_given_up_and_asked_again(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body=RUN, delay_s=0.4), Answer(body=RUN))
    assert client(Planner, timeout_s=0.2).get_run("r").epoch == 1
    assert len(server.requests) == 2


def test_an_answer_that_breaks_off_is_lost(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body=RUN, is_cut=True), Answer(body=RUN))
    assert client(Planner).get_run("r").epoch == 1


def test_patience_ends_with_an_error_that_says_what_happened(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(is_dropped=True))
    with pytest.raises(Unreachable, match="disconnected") as caught:
        client(Planner).get_run("r")
    assert (caught.value.sent, caught.value.attempts) == (True, 3)
    assert len(server.requests) == 3


def test_a_service_that_asks_for_patience_gets_it(client: Make, server: ScriptedServer) -> None:
    server.will(
        Answer(status=503, headers={"Retry-After": "0.15"}),
        Answer(status=429, headers={"Retry-After": "0.15"}),
        Answer(body=RUN),
    )
    begun = time.monotonic()
    assert client(Planner).get_run("r").epoch == 1
    assert time.monotonic() - begun >= 0.3


def test_nobody_listening_is_told_as_never_sent() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Planner(address, "key", repetition=ONCE) as planner, pytest.raises(Unreachable) as caught:
            planner.get_run("r")
    assert not caught.value.sent


def test_the_key_follows_no_redirect(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(status=307, headers={"Location": server.base_url + "/elsewhere"}))
    with pytest.raises(BadAnswer, match="points elsewhere"):
        client(Planner).get_run("r")
    assert server.paths == ["/api/v1/runs/r"]


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    client: Make, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.will(Answer(body=RUN))
    assert client(Planner).get_run("r").epoch == 1


def test_an_asynchronous_function_is_not_left_unawaited_by_the_blocking_client(server: ScriptedServer) -> None:
    async def decide(_wanted: object) -> dict[str, Any]:
        raise AssertionError

    wanted = {"items": [{"run": "r", "step": "s", "epoch": 1, "need": "vote"}], "next": None}
    server.will(Answer(body=wanted), Answer(body={"vote": "recorded"}))
    stops = iter([False, False, True])
    with Path(server.base_url, "key") as path:
        path.serve(decide, stop=lambda: next(stops))
    assert "asynchronous" in server.requests[1].body["abstain"]


def test_many_wait_at_once_on_one_event_loop(server: ScriptedServer) -> None:
    server.will(Answer(body={"items": [], "next": None}, delay_s=1.0))

    async def wait() -> float:
        async with AsyncPath(server.base_url, "key") as path:
            begun = time.monotonic()
            await asyncio.gather(*(path.wanted(wait_s=0.1) for _ in range(10)))
            return time.monotonic() - begun

    # One after the other they would take ten seconds.
    assert asyncio.run(wait()) < 8
