"""Faults that people reported of tools behind HTTP (kind h), played by a courier against a real server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import pytest

from fencing.gateway.calling import Request
from fencing.models import Delivery, Intent
from fencing.protocol.errors import Refusal
from fencing.protocol.intents import MAX_BUSY_S
from fencing.protocol.pushing import End, retry_after_s
from fencing.protocol.tools import read_tool
from tests.cases.calling import comes_to, kinds
from tests.cases.reports import check_coverage
from tests.pushing import Serving, call, courier, definition, eventually, serving
from tests.stories import Story, register

IDS: Final = ("H01", "H02", "H03", "H04", "H05", "H06", "H07", "H08")
ELSEWHERE: Final[Mapping[str, str]] = {}


@pytest.fixture
def story(push_story: Story) -> Story:
    """A run whose tools are called by this system."""
    return push_story


def wanted(story: Story, do: object, tool: str = "pay") -> str:
    """Commit one effect; give its intent."""
    story.agree("s1", {"tool": tool, "args": {"invoice": "s1", "do": do}})
    return str(story.step()["intent"]["id"])


def test_h01_a_call_that_times_out_is_no_success_and_no_failure(story: Story) -> None:
    intent = wanted(story, "hang", "note")
    comes_to(intent, "in_doubt")
    assert kinds(intent) == ["unknown"]


def test_h02_what_cannot_be_repeated_is_not_and_what_can_is_with_the_same_key(story: Story, server: Serving) -> None:
    comes_to(wanted(story, "reset_after", "note"), "in_doubt")
    assert len(server.ledger.calls) == 1
    again = Story.begin()
    register([definition(server), definition(server, "note")])
    comes_to(wanted(again, ["reset_after", "ok"]), "succeeded")
    assert len({each["key"] for each in server.ledger.calls[1:]}) == 1
    assert len(server.ledger.effects) == 2


def test_h03_the_library_repeats_no_post_after_a_dropped_connection(server: Serving) -> None:
    body = b'{"tool":"note","args":{"do":["ok","reset_after","ok"]}}'
    request = Request(url=f"{server.url}/note", body=body, timeout_s=2, headers={"Idempotency-Key": "k"})
    assert [call(request).how for _ in range(2)] == [End.ANSWERED, End.LOST]
    assert len(server.ledger.calls) == 2


def test_h04_still_working_on_that_key_is_waited_for_where_the_tool_says_so(story: Story, server: Serving) -> None:
    intent = wanted(story, ["in_progress", "ok"])
    comes_to(intent, "succeeded")
    assert kinds(intent) == ["busy", "succeeded"]
    assert len({each["key"] for each in server.ledger.calls}) == 1
    # The rule is the tool's own: by default such an answer says nothing.
    other = Story.begin()
    register([definition(server, "note", policy={"nothing_done": []})])
    intent = wanted(other, "in_progress", "note")
    comes_to(intent, "in_doubt")
    assert kinds(intent) == ["unknown"]


def test_h05_made_and_then_told_that_it_exists_is_filed_as_nothing_but_unknown(story: Story, server: Serving) -> None:
    intent = wanted(story, ["broken_after", "exists"])
    comes_to(intent, "in_doubt")
    assert set(kinds(intent)) == {"unknown"}
    assert len(server.ledger.effects) == 1
    # A tool whose definition says what "exists" means is believed.
    says = {"already_done": [{"status": 409, "pointer": "/code", "equals": "exists"}]}
    other = Story.begin()
    register([definition(server, policy=says)])
    intent = wanted(other, ["broken_after", "exists"])
    comes_to(intent, "succeeded")
    assert kinds(intent) == ["unknown", "succeeded"]


def test_h06_retry_after_is_read_capped_or_left(story: Story, server: Serving) -> None:
    now = datetime(2026, 10, 21, 7, 27, 58, 500_000, tzinfo=UTC)
    texts = ["2", "Wed, 21 Oct 2026 07:28:00 GMT", "86400", "-5", "²", "1e3", "", None]
    assert [retry_after_s(text, now) for text in texts] == [2.0, 1.5, MAX_BUSY_S, None, None, None, None, None]
    server.tool.retry_after = "86400"
    intent = wanted(story, "busy")
    with courier():
        eventually(lambda: kinds(intent) == ["busy"])
        eventually(lambda: Intent.objects.get(id=intent).state == "ready")
    row = Intent.objects.get(id=intent)
    waits = (row.not_before - Delivery.objects.get().admitted_at).total_seconds() if row.not_before else 0
    assert MAX_BUSY_S - 5 < waits <= MAX_BUSY_S + 5  # parked, and no worker with it


def test_h07_no_secret_of_any_name_goes_to_another_host(server: Serving) -> None:
    secrets = {"Authorization": "Bearer T", "Private-Token": "T", "X-Auth-Token": "T", "Cookie": "a=b"}
    with serving() as other:
        body = b'{"tool":"pay","args":{"do":"redirect"}}'
        ended = call(Request(url=f"{server.url}/pay", body=body, timeout_s=2, headers=secrets))
        assert (ended.status, other.ledger.calls) == (302, [])


def test_h08_no_inner_address_is_registered_or_dialled(server: Serving) -> None:
    for url in (
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:169.254.169.254]/",
        "https://2852039166/",
        "file:///etc/passwd",
        "gopher://x",
        f"http://localhost:{server.port}/pay",
    ):
        assert isinstance(read_tool({"tool": "t", "mode": "push", "endpoint": url}), Refusal), url
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        ended = call(Request(url=f"http://{host}:{server.port}/pay", body=b"{}", timeout_s=2), open_hosts=frozenset())
        assert (ended.how, ended.status) == (End.NOT_OPENED, 0)
    assert server.ledger.calls == []


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "h", IDS, ELSEWHERE)
