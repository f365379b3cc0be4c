"""Faults that people reported of doubled effects (kind a), played through the services on the real database.

The stub is the tool: what it was called with is what the world saw.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import pytest

from fencing.models import Delivery, Intent, SideLogRow
from tests.cases.acting import Tool, attempt, deliver
from tests.cases.reports import check_coverage
from tests.fencing.beside import at_once
from tests.stories import NOTE, REFUND, Action, Story, Told

IDS: Final = ("A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08")
ELSEWHERE: Final[Mapping[str, str]] = {}
LEASE_S: Final = 1.05


def test_a01_a_step_that_is_killed_and_retried_after_sending_sends_once(story: Story, tool: Tool) -> None:
    token = story.agree("step2", NOTE, key="run7:step2")
    first = attempt(story, token, NOTE, tool)  # the worker is killed before it can tell
    time.sleep(LEASE_S)
    for _ in range(2):
        retry = attempt(story, token, NOTE, tool)
        assert retry["code"] == "in_doubt"
    assert tool.calls == [first["idempotency_key"]]
    assert story.intent(first)["deliveries"][0]["outcome"] == "unknown"
    assert story.intent(first)["state"] == "in_doubt"


def test_a02_a_workflow_that_starts_again_from_the_top_gets_the_recorded_outcome(story: Story, tool: Tool) -> None:
    token = story.agree("create_case", key="wf9:create_case")
    deliver(story, token, REFUND, tool, "succeeded", response={"id": "case_1"})
    assert story.open()["duplicate"] is True
    story.restart()

    again = story.propose("create_case", 8, key="wf9:create_case")
    assert (again["duplicate"], again["commit"]["token"]) == (True, token)
    replayed = attempt(story, token, REFUND, tool)
    assert (replayed["admit"], replayed["outcome"]["response"]) == (False, {"id": "case_1"})
    assert len(tool.calls) == 1


def test_a03_no_sign_of_progress_is_no_proof_that_nothing_happened(story: Story, tool: Tool) -> None:
    token = story.agree("post", NOTE, key="post:55")
    first = attempt(story, token, NOTE, tool)  # published, and no byte of an answer
    for _ in range(3):
        assert attempt(story, token, NOTE, tool)["code"] == "delivery_in_progress"
    time.sleep(LEASE_S)
    story.sweep()
    assert attempt(story, token, NOTE, tool)["code"] == "in_doubt"
    assert len(tool.calls) == 1
    assert story.resolve(first, happened=True)["state"] == "succeeded"


def test_a04_what_starts_up_does_not_adopt_what_is_running(story: Story, tool: Tool) -> None:
    for number in range(8):
        token = story.agree(f"s{number}", key=f"wf-123:s{number}")
        began = len(tool.calls)
        got = at_once(
            partial(attempt, story, token, REFUND, tool),
            partial(attempt, story, token, REFUND, tool),
            partial(swept, story),
        )
        assert len(tool.calls) == began + 1
        assert sorted(str(each.get("code")) for each in got[:2]) == ["None", "delivery_in_progress"]
        assert story.step(f"s{number}")["intent"]["state"] == "in_flight"
    assert SideLogRow.objects.filter(reason="delivery_in_progress").count() == 8


def swept(story: Story) -> Told:
    story.sweep()
    return {}


def test_a05_a_step_that_is_started_twice_beside_others_acts_once_and_fails_once(story: Story, tool: Tool) -> None:
    """Each failure is on record once; what has to be undone is for the compensations (a later part)."""
    tokens = {name: story.agree(name, key=f"r1:{name}") for name in "ab"}
    started = {name: attempt(story, tokens[name], REFUND, tool) for name in "ab"}
    assert attempt(story, tokens["a"], REFUND, tool)["code"] == "delivery_in_progress"
    for name in "ab":
        assert story.report(started[name], "failed")["state"] == "failed"
        assert story.report(started[name], "failed")["duplicate"] is True
        assert story.step(name)["reason"] == "effect_failed"
    assert sorted(tool.calls) == sorted(each["idempotency_key"] for each in started.values())
    assert Intent.objects.filter(state="failed").count() == 2


def test_a06_a_tool_that_cannot_tell_two_sends_apart_is_called_once(story: Story, tool: Tool) -> None:
    token = story.agree("mail", NOTE, key="k-mail-1")
    first = story.admit(token, NOTE)
    assert Delivery.objects.filter(id=first["delivery"], intent_id=first["intent"]).exists(), "before a byte leaves"
    tool.call(first["idempotency_key"])
    story.report(first, "unknown")
    for _ in range(2):
        assert attempt(story, token, NOTE, tool)["code"] == "in_doubt"
    assert len(tool.calls) == 1
    assert story.step("mail")["intent"]["id"] == first["intent"]


def test_a06_a_tool_that_honours_a_key_gets_the_same_one_on_every_try(story: Story, tool: Tool) -> None:
    token = story.agree(key="k-mail-1")
    deliver(story, token, REFUND, tool, "unknown")
    time.sleep(LEASE_S)
    deliver(story, token, REFUND, tool, "not_sent")
    deliver(story, token, REFUND, tool, "succeeded")
    assert len(tool.calls) == 3
    assert len(set(tool.calls)) == 1


@pytest.mark.parametrize("first", ["answer", "callback"])
def test_a07_one_effect_that_is_told_twice_has_one_outcome(story: Story, tool: Tool, first: str) -> None:
    """Whichever message came first stays; the other is on record beside it (ledgers of tools: a later part)."""
    admitted = attempt(story, story.agree(key="ref-1"), REFUND, tool)
    messages = {
        "answer": {"id": "re_9"},
        "callback": {"type": "refund.updated", "id": "re_9", "payment_intent": "pi_T1", "amount": 1500},
    }
    second = next(name for name in messages if name != first)
    story.report(admitted, "succeeded", response=messages[first])
    assert story.report(admitted, "succeeded", response=messages[second])["duplicate"] is True
    intent = story.intent(admitted)
    assert (intent["state"], intent["outcome"]["response"]) == ("succeeded", messages[first])
    assert len(intent["deliveries"]) == 1
    assert SideLogRow.objects.filter(reason="conflicting_duplicate").count() == 1


def test_a08_a_step_that_is_run_again_after_each_answer_acts_once(story: Story, tool: Tool) -> None:
    notify: Action = {"tool": "send_note", "args": {"channel": "C0TEST", "text": "starting"}}

    def run_from_the_top() -> None:
        story.propose("n1:notify", action=dict(notify))
        for path in (story.production, story.replica):
            story.vote(path, notify, "n1:notify")
        story.decide()
        deliver(story, story.token("n1:notify"), notify, tool, "succeeded")

    for _ in range(3):
        run_from_the_top()
    assert len(tool.calls) == 1
    assert Intent.objects.count() == 1


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "a", IDS, ELSEWHERE)
