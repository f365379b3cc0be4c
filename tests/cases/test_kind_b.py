"""Faults that people reported of idempotency keys (kind b): what one key may stand for, and what is final under it."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Final

from fencing.models import AuditEvent, Delivery, Intent, SideLogRow
from tests.cases.acting import Tool, attempt, commit_live, deliver
from tests.cases.admitting import admit_from_a_process
from tests.cases.calling import ask_with_key
from tests.cases.reports import check_coverage
from tests.fencing.beside import at_once
from tests.playing import Player, fresh_names
from tests.stories import NOTE, OTHER_REFUND, REFUND, Action, Story, digest

IDS: Final = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B09")
ELSEWHERE: Final[Mapping[str, str]] = {}
LEASE_S: Final = 1.05


def test_b01_a_key_with_another_body_is_refused_and_never_answered_with_the_first(story: Story, tool: Tool) -> None:
    deliver(story, story.agree(key="k1"), REFUND, tool, "succeeded", response={"id": "re_1"})
    assert ask_with_key(story, "k1", OTHER_REFUND, "s2") == ("rejected", "key_conflict")
    second = story.step("s2")
    assert (second["commit"], second["intent"]) == (None, None)
    # Both digests stand on their steps, and the refusal in the audit.
    assert (story.step("s1")["digest"], second["digest"]) == (digest(REFUND), digest(OTHER_REFUND))
    moved = AuditEvent.objects.filter(verb="move_step", subject=f"{story.run}/s2/7")
    assert [event.after["reason"] for event in moved if event.after] == ["key_conflict"]
    assert story.admit(None, OTHER_REFUND, run=story.run, step="s2")["code"] == "not_committed"
    assert len(tool.calls) == 1


def test_b02_of_twenty_identical_requests_in_two_processes_one_owns_the_key(player: Player) -> None:
    token, names = commit_live(player, REFUND)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        asked = [processes.submit(admit_from_a_process, player, token, 10) for _ in range(2)]
        replies = [reply for each in asked for reply in each.result(60)]
    assert sorted(reply.status for reply in replies) == [200] + [409] * 19
    assert {reply.body["code"] for reply in replies if reply.status == 409} == {"delivery_in_progress"}
    (intent,) = player.send({"as": "auditor", "call": f"GET /intents?run={names['run']}"}).body["items"]
    assert (intent["state"], len(intent["deliveries"])) == ("in_flight", 1)


def test_b03_a_second_request_in_flight_waits_and_changes_nothing_of_the_first(story: Story, tool: Tool) -> None:
    token = story.agree(key="k3")
    first = attempt(story, token, REFUND, tool)
    before = Delivery.objects.values().get()
    for _ in range(3):
        second = attempt(story, token, REFUND, tool)
        assert second["code"] == "delivery_in_progress"
        assert second["retry_after"] >= 1
    assert Delivery.objects.values().get() == before
    assert story.report(first, "succeeded")["state"] == "succeeded"
    assert len(tool.calls) == 1


def test_b04_the_key_is_taken_before_the_call_and_freed_only_by_what_provably_did_nothing(
    story: Story, tool: Tool
) -> None:
    token = story.agree("s1", NOTE, key="k4")
    got = at_once(*[partial(attempt, story, token, NOTE, tool)] * 2)
    assert len(tool.calls) == 1
    admitted = next(each for each in got if each.get("admit"))
    story.report(admitted, "not_sent")
    again = attempt(story, token, NOTE, tool)
    assert again["idempotency_key"] == admitted["idempotency_key"]
    story.report(again, "unknown")
    assert attempt(story, token, NOTE, tool)["code"] == "in_doubt"
    assert ask_with_key(story, "k4", REFUND, "s2") == ("rejected", "key_conflict")
    assert len(tool.calls) == 2


def test_b05_busy_leaves_the_key_open_and_a_definite_answer_is_final(story: Story, tool: Tool) -> None:
    token = story.agree(key="k5")
    deliver(story, token, REFUND, tool, "busy", retry_after=1)
    assert attempt(story, token, REFUND, tool)["code"] == "delivery_in_progress"
    time.sleep(LEASE_S)
    deliver(story, token, REFUND, tool, "succeeded", response={"id": "re_1"})
    replay = attempt(story, token, REFUND, tool)
    assert (replay["admit"], replay["outcome"]["response"]) == (False, {"id": "re_1"})
    assert len(tool.calls) == 2


def test_b05_a_definite_refusal_is_final_and_an_unknown_end_is_not_run_again(story: Story, tool: Tool) -> None:
    token = story.agree("s1", REFUND, key="k5")
    deliver(story, token, REFUND, tool, "failed", response={"status": 402})
    replay = attempt(story, token, REFUND, tool)
    assert (replay["admit"], replay["outcome"]["outcome"]) == (False, "failed")

    note = story.agree("s2", NOTE)
    deliver(story, note, NOTE, tool, "unknown", response={"status": 503})
    assert attempt(story, note, NOTE, tool)["code"] == "in_doubt"
    assert len(tool.calls) == 2


def test_b06_an_unchanged_body_keeps_key_and_digest_and_a_changed_one_gets_neither(story: Story, tool: Tool) -> None:
    token = story.agree(key="k6")
    deliver(story, token, REFUND, tool, "unknown", response={"status": 503})
    time.sleep(LEASE_S)
    deliver(story, token, REFUND, tool, "unknown")
    assert len(set(tool.calls)) == 1

    assert attempt(story, token, OTHER_REFUND, tool)["code"] == "payload_mismatch"
    assert ask_with_key(story, "k6", OTHER_REFUND, "s2") == ("rejected", "key_conflict")
    assert digest(OTHER_REFUND) != digest(REFUND)
    assert story.vote(story.production, OTHER_REFUND)["code"] == "equivocation", "old votes do not apply to it"
    assert len(tool.calls) == 2


def test_b07_a_key_does_not_wander_to_another_tool(story: Story, tool: Tool) -> None:
    deliver(story, story.agree(key="k7"), REFUND, tool, "succeeded")
    assert ask_with_key(story, "k7", NOTE, "s2") == ("rejected", "key_conflict")
    # Whose key it is, is read by the key: the first tool and its action.
    (intent,) = Intent.objects.filter(key="k7")
    assert (intent.tool, intent.generation, intent.state) == ("refund", 1, "succeeded")
    assert len(tool.calls) == 1


def test_b08_a_request_that_is_sent_again_is_the_same_one(player: Player) -> None:
    names = fresh_names()
    header = {"Idempotency-Key": "run-1"}
    body = {"run": "${run}", "step": "s1", "epoch": 1, "key": "run-1", "action": dict(REFUND)}
    propose = {"as": "planner", "call": "POST /steps", "body": body, "headers": header}
    steps: list[dict[str, Any]] = [
        {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
        {**propose, "expect": {"status": 201}},
        {**propose, "expect": {"status": 200, "body": {"duplicate": True}}},
        {**propose, "headers": {}, "expect": {"status": 200, "body": {"duplicate": True}}},
        {"as": "planner", "call": "GET /runs/${run}", "expect": {"body": {"steps": {"$len": 1}}}},
    ]
    player.play_steps(steps, names)
    # No call documents a field that it then ignores: repetition is told by what is sent, not by a header.
    document = str(player.send({"call": "GET /openapi.json"}).body)
    assert "idempotency-key" not in document.lower()


def test_b09_a_retry_that_carries_more_than_the_first_try_is_another_request(story: Story, tool: Tool) -> None:
    more: Action = {"tool": "refund", "args": {**REFUND["args"], "metadata": {"trace": "t-1"}}}
    token = story.agree(key="k9")
    first = deliver(story, token, REFUND, tool, "unknown")
    assert attempt(story, token, more, tool)["code"] == "payload_mismatch"
    assert ask_with_key(story, "k9", more, "s2") == ("rejected", "key_conflict")
    assert len(tool.calls) == 1
    # The state is read by the key alone, without the payload.
    intent = story.intents(key="k9")[0]
    assert (intent["id"], intent["payload_digest"]) == (first["intent"], digest(REFUND))
    assert intent["deliveries"][0]["outcome"] == "unknown"
    assert SideLogRow.objects.filter(reason="payload_mismatch").count() == 1


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "b", IDS, ELSEWHERE)
