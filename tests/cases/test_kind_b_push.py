"""Faults that people reported of idempotency keys (kind b), played through push tools, against a real server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import pytest

from fencing.gateway import dispatching, pushing
from fencing.models import Delivery, Intent
from tests.cases.calling import action_of, ask_with_key, comes_to, kinds, nothing_leaves, wanted
from tests.cases.reports import check_coverage
from tests.fencing.beside import at_once
from tests.pushing import Serving, courier, eventually
from tests.stories import Story, digest

IDS: Final = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B09")
ELSEWHERE: Final[Mapping[str, str]] = {
    "B08": "a call of our own API that is sent again: it reaches no tool, see test_kind_b",
}
THREADS: Final = 10


@pytest.fixture
def story(push_story: Story) -> Story:
    """A run whose tools are called by this system."""
    return push_story


def test_b01_a_key_with_another_body_is_refused_and_never_sent(story: Story, server: Serving) -> None:
    comes_to(wanted(story, action_of("created"), key="k1"), "succeeded")
    assert ask_with_key(story, "k1", action_of("created", amount=9900), "s2") == ("rejected", "key_conflict")
    second = story.step("s2")
    assert (second["commit"], second["intent"]) == (None, None)
    nothing_leaves()
    assert len(server.ledger.calls) == 1


@pytest.mark.parametrize("take", ["plain", "careful"])
def test_b02_of_many_workers_that_take_at_once_one_owns_the_key(story: Story, server: Serving, take: str) -> None:
    intent = wanted(story, action_of(), key="k2")
    ways = {"plain": lambda: list(dispatching.take_plain(10).calls), "careful": lambda: pushing.take(10)}
    taken = [each for found in at_once(*[ways[take]] * THREADS) for each in found]
    assert [each.intent for each in taken] == [intent]
    assert Delivery.objects.filter(intent_id=intent).count() == 1


def test_b03_a_second_request_while_the_first_is_called_changes_nothing_of_it(story: Story, server: Serving) -> None:
    action = action_of("slow:0.6")
    intent = wanted(story, action, key="k3")
    with courier():
        eventually(lambda: len(server.ledger.calls) == 1)
        before = Delivery.objects.values().get()
        assert wanted(story, action, "s2", key="k3") == intent
        assert Delivery.objects.values().get() == before
        eventually(lambda: Intent.objects.get(id=intent).state == "succeeded")
    assert [story.step(name)["intent"]["state"] for name in ("s1", "s2")] == ["succeeded"] * 2
    assert len(server.ledger.calls) == 1


def test_b04_the_key_is_taken_before_the_call_and_freed_only_by_what_provably_did_nothing(
    story: Story, server: Serving
) -> None:
    intent = wanted(story, action_of(["busy", "reset_after"], "note"), key="k4")
    comes_to(intent, "in_doubt")
    assert kinds(intent) == ["busy", "unknown"]
    assert len({each["key"] for each in server.ledger.calls}) == 1
    assert ask_with_key(story, "k4", action_of("ok", "note"), "s2") == ("rejected", "key_conflict")
    nothing_leaves()
    assert len(server.ledger.calls) == 2


def test_b05_busy_leaves_the_key_open_and_a_definite_answer_is_final(story: Story, server: Serving) -> None:
    action = action_of(["busy:1", "created"])
    intent = wanted(story, action, key="k5")
    comes_to(intent, "succeeded")
    assert kinds(intent) == ["busy", "succeeded"]
    # Who asks for it again gets the recorded outcome.
    assert wanted(story, action, "s2", key="k5") == intent
    assert story.step("s2")["intent"]["outcome"]["response"] == {"id": "eff-1"}
    nothing_leaves()
    assert len(server.ledger.calls) == 2


def test_b05_a_definite_refusal_is_final_and_an_unknown_end_is_not_run_again(story: Story, server: Serving) -> None:
    refused = wanted(story, action_of("refused"), key="k5")
    unknown = wanted(story, action_of("broken_before", "note"), "s2")
    comes_to(refused, "failed")
    comes_to(unknown, "in_doubt")
    nothing_leaves()
    assert (kinds(refused), kinds(unknown)) == (["failed"], ["unknown"])
    assert len(server.ledger.calls) == 2


def test_b06_an_unchanged_body_keeps_key_and_digest_and_a_changed_one_gets_neither(
    story: Story, server: Serving
) -> None:
    action, changed = action_of(["broken_after", "proxy", "ok"]), action_of(["broken_after", "proxy", "ok"], cents=1)
    intent = wanted(story, action, key="k6")
    comes_to(intent, "succeeded")
    assert len(server.ledger.calls) == 3
    assert {(each["key"], each["body"]) for each in server.ledger.calls} == {
        (each["key"], each["body"]) for each in server.ledger.calls[:1]
    }
    assert ask_with_key(story, "k6", changed, "s2") == ("rejected", "key_conflict")
    assert story.vote(story.production, changed)["code"] == "equivocation", "old votes do not apply to it"
    nothing_leaves()
    assert len(server.ledger.effects) == 1


def test_b07_a_key_does_not_wander_to_another_tool(story: Story, server: Serving) -> None:
    comes_to(wanted(story, action_of(), key="k7"), "succeeded")
    assert ask_with_key(story, "k7", action_of(tool="note"), "s2") == ("rejected", "key_conflict")
    nothing_leaves()
    assert [each["target"] for each in server.ledger.calls] == ["/pay"]


def test_b09_a_retry_that_carries_more_than_the_first_try_is_another_request(story: Story, server: Serving) -> None:
    action, more = action_of("reset_after", "note"), action_of("reset_after", "note", metadata={"trace": "t-1"})
    comes_to(wanted(story, action, key="k9"), "in_doubt")
    assert ask_with_key(story, "k9", more, "s2") == ("rejected", "key_conflict")
    nothing_leaves()
    assert len(server.ledger.calls) == 1
    # The state is read by the key alone, without the payload.
    (intent,) = story.intents(key="k9")
    assert (intent["state"], intent["payload_digest"]) == ("in_doubt", digest(action))
    assert [each["outcome"] for each in intent["deliveries"]] == ["unknown"]


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "b", IDS, ELSEWHERE)
