"""Faults that people reported of doubled effects (kind a), played through push tools: this system calls a real server.

What stands in the server's own ledger, and which calls it saw, is what the world saw.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Final

import pytest

from fencing.gateway import dispatching, ledgers
from fencing.models import Compensation, Delivery, Intent, ObservedEffect, Outcome
from fencing.protocol.pushing import Ended
from fencing.services.requests import ObserveEffect
from tests.cases.calling import action_of, comes_to, kinds, nothing_leaves, wanted
from tests.cases.reports import check_coverage
from tests.pushing import Serving, courier, eventually, expire, sent
from tests.stories import Story, told

IDS: Final = ("A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08")
ELSEWHERE: Final[Mapping[str, str]] = {}


@pytest.fixture
def story(push_story: Story) -> Story:
    """A run whose tools are called by this system."""
    return push_story


def calls_of(server: Serving) -> list[str]:
    """The idempotency keys of the calls that the tool saw, in order."""
    return [str(each["key"]) for each in server.ledger.calls]


def test_a01_a_worker_that_is_killed_after_sending_is_not_followed_by_another_send(
    story: Story, server: Serving
) -> None:
    intent = wanted(story, action_of(tool="note"), "step2", key="run7:step2")
    (taken,) = dispatching.take_plain(10).calls
    sent(taken)  # the worker is killed before it can tell
    nothing_leaves()
    expire(taken.delivery)
    assert (kinds(intent), Intent.objects.get(id=intent).state) == (["unknown"], "in_doubt")
    for _ in range(2):
        nothing_leaves()
    assert calls_of(server) == [taken.idempotency_key]


def test_a02_a_workflow_that_starts_again_from_the_top_finds_the_recorded_outcome(
    story: Story, server: Serving
) -> None:
    intent = wanted(story, action_of("created"), "create_case", key="wf9:create_case")
    token = story.token("create_case")
    comes_to(intent, "succeeded")
    assert story.open()["duplicate"] is True
    story.restart()
    again = story.propose("create_case", 8, key="wf9:create_case")
    assert (again["duplicate"], again["commit"]["token"]) == (True, token)
    assert again["intent"]["outcome"]["response"] == {"id": "eff-1"}
    nothing_leaves()
    assert len(calls_of(server)) == len(server.ledger.effects) == 1


def test_a03_a_connection_that_dies_before_any_answer_is_no_proof_that_nothing_happened(
    story: Story, server: Serving
) -> None:
    intent = wanted(story, action_of("reset_after", "note"), "post", key="post:55")
    comes_to(intent, "in_doubt")
    nothing_leaves()
    story.sweep()
    nothing_leaves()
    assert len(server.ledger.effects) == 1
    assert story.resolve({"intent": intent}, happened=True)["state"] == "succeeded"


def test_a04_a_worker_that_starts_up_does_not_adopt_what_another_one_is_calling(story: Story, server: Serving) -> None:
    intents = [wanted(story, action_of("slow:0.6", invoice=number), f"s{number}") for number in range(4)]
    with courier():
        eventually(lambda: len(calls_of(server)) == len(intents))
        with courier():
            story.sweep()
            nothing_leaves()
            for intent in intents:
                eventually(lambda intent=intent: Intent.objects.get(id=intent).state == "succeeded")  # type: ignore[misc]
    assert len(set(calls_of(server))) == len(calls_of(server)) == len(intents)
    assert Delivery.objects.count() == len(intents)


def test_a05_steps_that_are_started_twice_beside_each_other_act_once_and_fail_once(
    story: Story, server: Serving
) -> None:
    intents = {name: wanted(story, action_of("refused", step=name), name, key=f"r1:{name}") for name in "ab"}
    assert story.propose("a", key="r1:a")["duplicate"] is True
    for intent in intents.values():
        comes_to(intent, "failed")
    nothing_leaves()
    assert sorted(calls_of(server)) == sorted(Delivery.objects.values_list("idempotency_key", flat=True))
    assert [story.step(name)["reason"] for name in "ab"] == ["effect_failed"] * 2
    assert (Outcome.objects.count(), Compensation.objects.count()) == (2, 0)


def test_a06_a_tool_that_cannot_tell_two_sends_apart_is_called_once(story: Story, server: Serving) -> None:
    intent = wanted(story, action_of("hang_after", "note"), "mail", key="k-mail-1")
    seen: list[tuple[int, str]] = []
    received = threading.Event()
    remember = server.ledger.act

    def act(key: str, action: object, *, once: bool) -> dict[str, object]:
        received.set()
        return remember(key, action, once=once)

    server.ledger.act = act  # type: ignore[method-assign]
    with courier():
        assert received.wait(15)
        # The row of the try is there while the tool has the call, and was before a byte of it left.
        seen += Delivery.objects.filter(intent_id=intent).values_list("number", "intent__state")
        eventually(lambda: Intent.objects.get(id=intent).state == "in_doubt")
    nothing_leaves()
    assert seen == [(1, "in_flight")]
    assert len(calls_of(server)) == 1


def test_a06_a_tool_that_honours_a_key_gets_the_same_one_on_every_try(story: Story, server: Serving) -> None:
    intent = wanted(story, action_of(["reset_after", "busy", "ok"]), key="k-mail-1")
    comes_to(intent, "succeeded")
    assert kinds(intent) == ["unknown", "busy", "succeeded"]
    assert (len(calls_of(server)), len(set(calls_of(server)))) == (3, 1)
    assert len(server.ledger.effects) == 1


@pytest.mark.parametrize("first", ["answer", "ledger"])
def test_a07_one_effect_that_is_told_twice_has_one_outcome(story: Story, server: Serving, first: str) -> None:
    """What the tool's ledger tells is evidence beside the answer, whichever comes first."""
    intent = wanted(story, action_of(), key="ref-1")
    (taken,) = dispatching.take_plain(10).calls
    ended = sent(taken)

    def told_by_the_ledger() -> None:
        row = ObserveEffect(tool="pay", idempotency_key=taken.idempotency_key, external_id="eff-1")
        assert told(ledgers.observe_effects([row], story.gateway)[0])["match"] == "intent"

    def told_by_the_answer(end: Ended) -> None:
        dispatching.settle([(taken, end)], [0.0])

    if first == "ledger":
        told_by_the_ledger()
        told_by_the_answer(ended)
    else:
        told_by_the_answer(ended)
        told_by_the_ledger()
    body = story.intent({"intent": intent})
    assert (body["state"], body["outcome"]["response"]) == ("succeeded", {"id": "eff-1"})
    assert (Outcome.objects.count(), ObservedEffect.objects.filter(intent_id=intent).count()) == (1, 1)


def test_a08_a_step_that_is_run_again_after_each_answer_acts_once(story: Story, server: Serving) -> None:
    notify = action_of(tool="note", channel="C0TEST", text="starting")

    def run_from_the_top() -> None:
        story.propose("n1:notify", action=dict(notify))
        for path in (story.production, story.replica):
            story.vote(path, notify, "n1:notify")
        story.decide()

    run_from_the_top()
    comes_to(str(story.step("n1:notify")["intent"]["id"]), "succeeded")
    for _ in range(2):
        run_from_the_top()
        nothing_leaves()
    assert len(calls_of(server)) == 1
    assert Intent.objects.count() == 1


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "a", IDS, ELSEWHERE)
