"""Faults that people reported of job queues (kind g): a job is a wake-up, and its loss or copies change nothing."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import django_rq
import pytest
from django.db import transaction

from fencing import jobs
from fencing.models import Action, AuditEvent, Commit, Outcome, SideLogRow, Step
from fencing.services import fencing, steps, votes
from fencing.services.requests import CastVote, ProposeStep
from tests.cases.acting import Tool, attempt, commit_live
from tests.cases.processes import PROC, below, kill
from tests.cases.reports import check_coverage
from tests.factories import make_vote
from tests.fencing.beside import at_once
from tests.live import LiveSystem
from tests.playing import Player
from tests.stories import EPOCH, NOTE, OTHER_REFUND, REFUND, Story, Told

IDS: Final = ("G01", "G02", "G03", "G04", "G05", "G06", "G07", "G08")
ELSEWHERE: Final[Mapping[str, str]] = {}
LEASE_S: Final = 1.05
HAS_PROC: Final = pytest.mark.skipif(not PROC.exists(), reason="processes are listed in /proc, which is not here")


@HAS_PROC
def test_g01_a_worker_that_is_killed_cold_holds_up_its_steps_a_moment(live_system: LiveSystem, player: Player) -> None:
    workers = below(live_system.process.pid, "manage.py work")
    assert workers
    kill(workers)
    token, names = commit_live(player, REFUND)
    assert token
    runs = player.send({"as": "auditor", "call": f"GET /audit?run={names['run']}&verb=commit_step"})
    assert len(runs.body["items"]) == 1


def test_g01_a_gateway_that_is_killed_during_the_call_leaves_doubt_and_no_second_call(story: Story, tool: Tool) -> None:
    token = story.agree("s1", NOTE, key="k1")
    admitted = attempt(story, token, NOTE, tool)
    time.sleep(LEASE_S)
    jobs.tick()
    intent = story.intent(admitted)
    assert (intent["state"], intent["deliveries"][0]["outcome"]) == ("in_doubt", "unknown")
    assert attempt(story, token, NOTE, tool)["code"] == "in_doubt"
    assert len(tool.calls) == 1


def agree_in_bulk(story: Story, count: int) -> None:
    """Have both paths agree on many steps, with nobody deciding yet."""
    place: dict[str, Any] = {"run": story.run, "epoch": EPOCH}
    names = [f"s{number}" for number in range(count)]
    steps.propose_steps([ProposeStep(step=name, key=name, **place) for name in names], story.planner)
    for path in (story.replica, story.production):
        votes.cast_votes([CastVote(step=name, action=dict(REFUND), **place) for name in names], path)


def decided(story: Story) -> Told:
    jobs.tick()
    story.decide()
    return {}


def test_g02_two_schedulers_give_each_due_step_one_end(story: Story) -> None:
    due = 400
    agree_in_bulk(story, due)
    at_once(*[partial(decided, story)] * 3)
    story.decide()
    assert Commit.objects.count() == due
    assert AuditEvent.objects.filter(verb="commit_step").count() == due
    assert not Step.objects.filter(phase="proposed").exists()


@HAS_PROC
def test_g03_workers_take_jobs_again_after_redis_was_gone(live_system: LiveSystem, player: Player) -> None:
    kill(below(live_system.process.pid, "valkey-server"))
    for _ in range(5):
        token, _ = commit_live(player, REFUND)
        assert token


def test_g04_what_is_rolled_back_wakes_no_job_and_what_is_committed_wakes_one(story: Story) -> None:
    story.propose()
    queue = django_rq.get_queue("fence")
    queue.connection.flushdb()
    with transaction.atomic():
        story.vote(story.replica)
        story.vote(story.production)
        transaction.set_rollback(True)
    assert len(queue) == 0
    story.decide()
    assert story.step()["votes"] == []

    with transaction.atomic():
        story.vote(story.replica)
        assert len(queue) == 0
    assert len(queue) == 1


def test_g05_who_was_given_up_on_can_neither_act_nor_settle(story: Story, tool: Tool) -> None:
    token = story.agree(key="j1")
    first = attempt(story, token, REFUND, tool)
    time.sleep(LEASE_S)
    second = attempt(story, token, REFUND, tool)
    assert second["idempotency_key"] == first["idempotency_key"], "for the tool both are one"
    assert story.report(first, "failed")["code"] == "stale_delivery"
    assert story.report(second, "succeeded")["state"] == "succeeded"
    assert story.report(first, "failed")["code"] == "stale_delivery"
    assert Outcome.objects.filter(is_effective=True, outcome__in=["succeeded", "failed"]).count() == 1


def test_g06_of_six_copies_of_a_job_one_acts_and_five_are_noted(story: Story, tool: Tool) -> None:
    token = story.agree("s1", NOTE)
    got = at_once(*[partial(attempt, story, token, NOTE, tool)] * 6)
    assert len(tool.calls) == 1
    assert sorted(str(each.get("code")) for each in got) == ["None"] + ["delivery_in_progress"] * 5
    assert SideLogRow.objects.filter(reason="delivery_in_progress").count() == 5


@pytest.fixture
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the local time of this process back to what it was."""
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_g07_sweeps_go_by_instants_whatever_the_clock_on_the_wall_does(
    story: Story, zone: str, monkeypatch: pytest.MonkeyPatch, local_time: None
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    grant = story.grant(tool="send_mail", ttl_s=1)["name"]
    story.propose("late", deadline_s=1)
    story.propose("early", deadline_s=30)
    token = story.agree("s1")
    admitted = story.admit(token)
    story.sweep()
    assert story.grant_state(grant) == "live"
    assert story.step("late")["phase"] == "proposed"
    # A sweep is missed, and then comes twice.
    time.sleep(1.1)
    for _ in range(2):
        story.sweep()
    assert story.grant_state(grant) == "expired"
    assert story.step("late")["reason"] == "timeout"
    assert story.step("early")["phase"] == "proposed"
    assert story.intent(admitted)["deliveries"][0]["outcome"] == "unknown"
    assert AuditEvent.objects.filter(verb="expire_grant").count() == 1
    assert Outcome.objects.count() == 1


def test_g08_what_cannot_go_on_is_parked_and_the_others_run(story: Story) -> None:
    raw = b"these bytes are no action"
    payload = "sha256:" + hashlib.sha256(raw).hexdigest()
    action = Action(payload_digest=payload, tool="refund", canonical=raw)
    Action.objects.bulk_create([action])
    story.propose("stuck")
    story.vote(story.replica, OTHER_REFUND, "stuck")
    make_vote(step=Step.objects.get(name="stuck"), path="production", action=action)
    agree_in_bulk(story, 3)
    for _ in range(5):
        fencing.decide_due(1)
    assert [story.step(f"s{number}")["phase"] for number in range(3)] == ["committed"] * 3
    parked = Step.objects.get(name="stuck")
    assert parked.phase == "proposed"
    assert parked.due_at is not None


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "g", IDS, ELSEWHERE)
