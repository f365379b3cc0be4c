"""A silent path: who notices, which steps wait, and one confirmation that helps all of them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fencing.models import AuditEvent, Grant, Step
from fencing.protocol.outages import GrantFor, StepPlace, grant_name
from fencing.queries.silence import Affected, Line, affected_steps, batch_progress, silent_paths
from fencing.services.outage import issue_grants_for, replay_timed_out
from fencing.services.requests import IssueFor, ReplaySteps
from tests.factories import soon
from tests.stories import EPOCH, NOTE, OTHER_REFUND, REASON, REFUND, Story, Told, told

pytestmark = pytest.mark.django_db

MANY = 300


@pytest.fixture
def story(valkey: str) -> Story:
    return Story.begin()


def silences(threshold_s: int = 1) -> dict[str, int]:
    return {each.path: each.steps for each in silent_paths(threshold_s)}


def waiting(path: str) -> dict[str, Line]:
    return {line.step.step: line for line in affected_steps(path).waiting}


def issue(story: Story, found: Affected, **members: Any) -> list[Told]:
    steps = tuple(line.grant for line in found.waiting if line.grant is not None)
    request = IssueFor(**{"batch": "outage-1", "steps": steps, "ttl_s": 600, "reason": REASON, **members})
    return [told(result) for result in issue_grants_for(request, story.oncall)]


# ---- who is silent ----


def test_a_path_is_silent_that_is_wanted_and_says_nothing(story: Story) -> None:
    story.propose("s1", tool="refund")
    story.vote(story.production, REFUND, "s1")
    assert silences() == {}  # nobody has waited so long yet
    time.sleep(1.1)
    story.vote(story.production, NOTE, "s1")  # it equivocates, but it speaks
    assert silences() == {"replica": 1}
    (silence,) = silent_paths(1)
    assert (silence.path, silence.last_voted_at, silence.runs, silence.is_cut) == ("replica", None, 1, False)


def test_a_path_that_answers_others_is_not_silent(story: Story) -> None:
    story.propose("s1", tool="refund")
    time.sleep(1.1)
    assert silences() == {"production": 1, "replica": 1}
    story.propose("s2", tool="refund", key="k2")
    story.vote(story.replica, REFUND, "s2")
    story.vote(story.production, REFUND, "s2")
    story.decide()
    assert story.step("s2")["phase"] == "committed"
    assert silences() == {}  # both spoke just now, of a step that is decided


def test_an_abstention_is_no_word(story: Story) -> None:
    story.propose("s1", tool="refund")
    time.sleep(1.1)
    story.vote(story.production, REFUND, "s1")
    story.vote(story.replica, None, "s1", abstain="the model is down")
    assert silences() == {"replica": 1}


def test_a_path_that_no_tool_asks_is_never_silent(story: Story) -> None:
    story.propose("s1", tool="solo_note")
    time.sleep(1.1)
    assert silences() == {"production": 1}


def test_when_it_last_spoke_is_told(story: Story) -> None:
    story.propose("s0", tool="refund", key="k0")
    story.vote(story.replica, REFUND, "s0")
    spoke = story.step("s0")["votes"][0]["received_at"]
    story.propose("s1", tool="refund")
    time.sleep(1.1)
    (found,) = (each for each in silent_paths(1) if each.path == "replica")
    assert found.last_voted_at is not None
    assert found.last_voted_at.isoformat().replace("+00:00", "Z") == spoke


def test_while_nothing_waits_it_is_one_statement(story: Story) -> None:
    story.agree()
    with CaptureQueriesContext(connection) as queries:
        assert silent_paths(60) == ()
    assert len(queries) == 1


# ---- which steps wait, and what would help ----


def test_each_waiting_step_comes_with_the_grant_that_would_help_it(story: Story) -> None:
    story.propose("s1", tool="refund")
    story.vote(story.production, REFUND, "s1")
    story.propose("s2")
    story.propose("other", tool="solo_note", key="k9")
    found = waiting("replica")
    assert found["s1"].grant == GrantFor(run=story.run, step="s1", epoch=EPOCH, path="production", tool="refund")
    assert (found["s1"].voted, found["s1"].covered_by, found["s1"].why) == (("production",), None, "")
    assert found["s2"].grant == GrantFor(run=story.run, step="s2", epoch=EPOCH, path="production")
    assert "other" not in found


def test_without_the_trusted_path_a_witness_helps_with_what_it_voted_alone(story: Story) -> None:
    story.propose("s1")
    digest = story.vote(story.replica, REFUND, "s1")["digest"]
    story.propose("s2")
    story.propose("s3")
    story.vote(story.replica, None, "s3", digest=digest)
    found = waiting("production")
    assert found["s1"].grant == GrantFor(
        run=story.run, step="s1", epoch=EPOCH, path="replica", tool="refund", digest=digest
    )
    assert (found["s2"].grant, found["s3"].grant) == (None, None)
    assert "none did" in found["s2"].why
    assert "without its action" in found["s3"].why


def test_a_step_on_which_the_paths_disagree_is_helped_by_no_grant(story: Story) -> None:
    story.propose("s1", tool="refund")
    story.vote(story.production, REFUND, "s1")
    story.vote(story.production, OTHER_REFUND, "s1")
    assert waiting("replica")["s1"].why == "a visible divergence beats every grant"


def test_a_grant_that_is_there_already_is_named(story: Story) -> None:
    story.propose("s1", tool="refund")
    name = story.grant(tool="refund")["name"]
    assert waiting("replica")["s1"].covered_by == name
    story.revoke(name)
    assert waiting("replica")["s1"].covered_by is None


def test_those_that_timed_out_are_told_until_they_are_replayed(story: Story) -> None:
    for step in ("s1", "s2"):
        story.propose(step, tool="refund", deadline_s=1, key=step)
        story.vote(story.production, REFUND, step)
    time.sleep(1.05)
    story.decide()
    lost = affected_steps("replica").timed_out
    assert {line.step.step for line in lost} == {"s1", "s2"}
    story.replay("s1")
    assert {line.step.step for line in affected_steps("replica").timed_out} == {"s2"}
    story.restart()
    assert affected_steps("replica").timed_out == ()


# ---- one confirmation ----


def test_one_confirmation_issues_one_grant_for_each_step_and_they_go_on(story: Story) -> None:
    for number in range(3):
        story.propose(f"s{number}", tool="refund", key=f"k{number}")
        story.vote(story.production, REFUND, f"s{number}")
    answers = issue(story, affected_steps("replica"))
    assert [each["status"] for each in answers] == [201] * 3
    assert {(each["step"], each["tool"], each["path"], each["max_uses"]) for each in answers} == {
        (f"s{number}", "refund", "production", 1) for number in range(3)
    }
    assert len({each["name"] for each in answers}) == 3
    assert AuditEvent.objects.filter(verb="issue_grant", run=story.run, reason=REASON).count() == 3
    story.decide()
    progress = batch_progress("outage-1")
    assert [(each.phase, each.reason, each.intent_state) for each in progress] == [("committed", "grant", "ready")] * 3
    assert [each.line.body["name"] for each in progress] == [each["name"] for each in answers]
    assert batch_progress("outage") == ()


def test_sent_twice_a_batch_issues_nothing_twice(story: Story) -> None:
    story.propose("s1", tool="refund")
    found = affected_steps("replica")
    first, second = issue(story, found), issue(story, found)
    assert (first[0]["status"], second[0]["duplicate"]) == (201, True)
    assert Grant.objects.count() == 1


def test_each_step_is_told_by_itself_why_not(story: Story) -> None:
    for step in ("good", "decided", "diverged", "covered"):
        story.propose(step, tool="refund", key=step)
        story.vote(story.production, REFUND, step)
    found = affected_steps("replica")
    story.vote(story.replica, REFUND, "decided")
    story.vote(story.replica, OTHER_REFUND, "diverged")
    story.decide()
    story.grant(step="covered", tool="refund", by=story.oncall2)
    by_step = dict(zip((line.step.step for line in found.waiting), issue(story, found), strict=True))
    assert {step: answer.get("code", answer.get("status")) for step, answer in by_step.items()} == {
        "good": 201,
        "decided": "already_decided",
        "diverged": "diverged",
        "covered": "grant_exists",
    }


def test_a_dangerous_tools_grants_wait_for_a_second_person(story: Story) -> None:
    story.propose("s1", tool="wire")
    (answer,) = issue(story, affected_steps("replica"))
    assert (answer["state"], answer["expires_at"]) == ("pending", None)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"batch": "not an identifier"}, "invalid_identifier"),
        ({"batch": "x" * 188}, "invalid_identifier"),
        ({"reason": "short"}, "reason_required"),
        ({"ttl_s": 100_000}, "beyond_policy"),
    ],
)
def test_a_form_that_does_not_do_is_told_for_each_step(story: Story, members: dict[str, Any], code: str) -> None:
    story.propose("s1", tool="refund")
    assert [each["code"] for each in issue(story, affected_steps("replica"), **members)] == [code]
    assert not Grant.objects.exists()


def test_more_than_a_thousand_steps_at_once_are_too_many(story: Story) -> None:
    steps = tuple(GrantFor(run=story.run, step=f"s{number}", epoch=EPOCH) for number in range(1001))
    answers = issue_grants_for(IssueFor(batch="b", steps=steps, ttl_s=60, reason=REASON), story.oncall)
    assert {told(answer)["code"] for answer in answers} == {"too_many_items"}


def test_a_batch_gives_each_step_a_name_of_its_own_that_stays() -> None:
    one, other = GrantFor(run="r", step="s/1", epoch=1), GrantFor(run="r", step="s", epoch=11)
    assert grant_name("b", one) == grant_name("b", one) != grant_name("b", other)
    assert len(grant_name("b" * 187, one)) == 200


def test_those_that_timed_out_are_replayed_and_no_others(story: Story) -> None:
    for step in ("late", "later", "diverged"):
        story.propose(step, tool="refund", deadline_s=1, key=step)
        story.vote(story.production, REFUND, step)
    story.vote(story.replica, OTHER_REFUND, "diverged")
    time.sleep(1.05)
    story.decide()
    wanted = ReplaySteps(
        steps=tuple(StepPlace(run=story.run, step=step, epoch=EPOCH) for step in ("late", "later", "diverged", "late")),
        reason="the replica is back",
    )
    answers = [told(result) for result in replay_timed_out(wanted, story.reviewer)]
    assert [each.get("code", each.get("status")) for each in answers] == [201, 201, "not_rejected", 200]
    assert [each.get("epoch") for each in answers] == [EPOCH + 1, EPOCH + 2, None, EPOCH + 1]
    again = [told(result) for result in replay_timed_out(wanted, story.reviewer)]
    assert [each.get("duplicate") for each in again] == [True, True, None, True]
    assert story.propose("late", EPOCH + 1)["status"] == 201
    assert Step.objects.filter(name="late").count() == 2


def test_three_hundred_waiting_steps_are_a_few_statements(story: Story) -> None:
    for number in range(MANY):
        story.propose(f"s{number}", tool="refund", key=f"k{number}", deadline_s=60)
    with CaptureQueriesContext(connection) as looking:
        found = affected_steps("replica")
    assert (len(found.waiting), len(looking)) == (MANY, len(looking))
    assert len(looking) <= 6
    with CaptureQueriesContext(connection) as issuing:
        answers = issue(story, found)
    assert [each["status"] for each in answers] == [201] * MANY
    assert len(issuing) <= 16
    Step.objects.filter(run__name=story.run).update(deadline_at=soon(-1), due_at=soon(-1))
    story.decide()
    places = tuple(line.step for line in affected_steps("replica").timed_out)
    assert len(places) == MANY
    wanted = ReplaySteps(
        steps=tuple(StepPlace(run=each.run, step=each.step, epoch=each.epoch) for each in places), reason="it is back"
    )
    with CaptureQueriesContext(connection) as replaying:
        replayed = [told(result) for result in replay_timed_out(wanted, story.reviewer)]
    assert sorted(each["epoch"] for each in replayed) == list(range(EPOCH + 1, EPOCH + 1 + MANY))
    assert len(replaying) <= 16
