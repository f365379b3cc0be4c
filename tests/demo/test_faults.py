"""The push tool of the demonstration has a fault of each kind, and a fault that ends otherwise fails it loudly."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

from fencing.client import Intent
from fencing.demo import faults, push_tool
from fencing.demo.faults import CASES, Failed, definitions, told
from fencing.management import demo_push
from fencing.protocol.breakers import FAULTS
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.tools import ToolDefinition, read_tool

KINDS = {
    "reset_before", "reset_after", "hang", "hang_after", "created", "redirect", "timeout_status", "in_progress",
    "exists", "too_early", "busy", "refused", "broken_after", "proxy", "wrong_body", "forgets",
}  # fmt: skip


def test_every_way_in_which_a_call_can_end_is_played() -> None:
    done = {word for case in CASES for word in case.do}
    assert done - {"ok"} == KINDS
    assert done <= set(push_tool.SENDS) | push_tool.WAYS
    assert any(case.first == "not_sent" for case in CASES)
    assert {case.ends for case in CASES} == {"succeeded", "failed", "in_doubt"}
    assert len({case.step for case in CASES if is_identifier(case.step)}) == len(CASES)


def test_no_tool_fails_so_often_that_its_breaker_opens() -> None:
    begin = Counter(case.tool for case in CASES if case.first in ("unknown", "not_sent"))
    assert max(begin.values()) < FAULTS


def test_the_tools_are_such_as_an_operator_would_register() -> None:
    read = [
        read_tool(value, plain_http_hosts=frozenset({demo_push.HOST}))
        for value in definitions("http://127.0.0.1:1", "http://127.0.0.1:2")
    ]
    tools = {each.tool: each for each in read if isinstance(each, ToolDefinition)}
    assert set(tools) == set(faults.TOOLS)
    assert not tools["demo_note"].idempotent
    assert tools["demo_late"].endpoint == "http://127.0.0.1:2/pay"
    assert not isinstance(read_tool(definitions("http://127.0.0.1:1", "")[1], plain_http_hosts=()), ToolDefinition)


def test_what_was_seen_is_told_beside_what_must_be() -> None:
    case = next(case for case in CASES if case.name == "timeout after it acted")
    assert case.expected == "unknown, then succeeded · happened once"
    right = Failed(case=case, seen=told("unknown", "succeeded", 1), link="http://x/effects/1")
    wrong = Failed(case=case, seen=told("unknown", "succeeded", 2), link="http://x/effects/1")
    assert (right.is_right, wrong.is_right) == (True, False)
    lines = list(demo_push.table([right, wrong]))
    assert "the same" in lines[2]
    assert "unknown, then succeeded · happened twice" in lines[3]


def test_an_effect_that_comes_to_no_end_is_not_as_it_must() -> None:
    running = Intent(id="i", run="r", key="k", state="in_flight", deliveries=({"outcome": None},))
    assert faults.seen_of(None, 0) == "it came to no end"
    assert faults.seen_of(running, 0) not in {case.expected for case in CASES}


def test_the_tool_serves_in_a_process_of_its_own_and_opens_its_second_address_when_it_is_asked() -> None:
    with demo_push.serving() as server:
        url = f"{server.late_url}/ledger"
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)
        assert httpx.post(f"{server.url}/open", trust_env=False).status_code == 204
        assert httpx.get(url, trust_env=False).json() == {"items": [], "next": None}
