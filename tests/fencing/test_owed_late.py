"""What is to be undone, and no longer, where that shows late (B4, B5, P1, P4): random strings found each of these."""

from __future__ import annotations

import pytest

from fencing.gateway import adopting, ledgers
from fencing.models import Compensation, Incident
from fencing.protocol.callers import Role
from fencing.services.requests import AdoptEffect, ObserveEffect
from tests.fencing.test_compensating import Undoing
from tests.fencing.test_forks import MORE, TICKET
from tests.stories import NOTE, REFUND, TOOLS, Told, actor, digest, register, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(db: None) -> Undoing:
    """A run in epoch 7 with the fork f1 of A, B and C."""
    register([*TOOLS, *MORE])
    story = Undoing()
    story.second = actor(Role.REVIEWER)
    assert story.open()["status"] == 201
    assert story.fork()["status"] == 201
    return story


def adopted(story: Undoing, step: str) -> Told:
    """Have a tool's ledger show an effect before a branch asks for it, and a person adopt it for that branch."""
    request = ObserveEffect(tool="create_ticket", action=dict(TICKET), external_id="T-1")
    escape = told(ledgers.observe_effects([request], story.gateway)[0])
    intent = story.want(step, TICKET, branch="B")["intent"]["id"]
    asked = AdoptEffect(incident=escape["incident"], reason="it is this very ticket")
    answer = told(adopting.adopt_effect(intent, asked, story.reviewer))
    assert answer["state"] == "succeeded", answer
    return answer


def test_what_happened_after_all_is_owed_though_its_branch_was_lost_before(story: Undoing) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome="not_sent")
    assert story.reconcile("A")["compensations"] == []
    assert story.report(admitted, "succeeded")["code"] == "outcome_conflict"
    assert story.resolve(admitted, happened=True)["state"] == "succeeded"
    assert story.owed() == [("proposed", "branch_lost")]


def taken_back(story: Undoing) -> Told:
    """Have a try in branch B be told as not sent, and its commit be taken back for a divergence; give the try."""
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome="not_sent")
    story.vote(story.replica, {"tool": "create_ticket", "args": {"title": "another"}}, "t")
    assert story.step("t")["reason"] == "late_divergence"
    return admitted


def test_what_was_taken_back_before_its_branch_was_lost_is_owed_once_it_shows_that_it_happened(story: Undoing) -> None:
    admitted = taken_back(story)
    assert story.reconcile("A")["compensations"] == []
    assert story.report(admitted, "succeeded")["code"] == "outcome_conflict"
    assert story.resolve(admitted, happened=True)["state"] == "succeeded"
    assert story.owed() == [("proposed", "branch_lost")]


def test_what_was_taken_back_and_happened_is_owed_once_its_branch_is_lost(story: Undoing) -> None:
    admitted = taken_back(story)
    story.report(admitted, "succeeded")
    story.resolve(admitted, happened=True)
    assert story.owed() == []  # while its branch may win, people are asked by the incident alone (F8)
    (made,) = story.reconcile("A")["compensations"]
    assert story.state(made) == "proposed"


def test_what_was_taken_back_and_happened_in_the_branch_that_wins_is_a_persons(story: Undoing) -> None:
    admitted = taken_back(story)
    story.report(admitted, "succeeded")
    story.resolve(admitted, happened=True)
    assert story.reconcile("B")["compensations"] == []
    assert story.owed() == []


def test_what_was_withdrawn_as_not_happened_is_owed_again_once_it_did(story: Undoing) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome="unknown")
    (made,) = story.reconcile("A")["compensations"]
    story.sweep()
    story.resolve(admitted, happened=False)
    assert story.state(made) == "withdrawn"
    story.report(admitted, "succeeded")
    story.resolve(admitted, happened=True)
    assert story.owed() == [("withdrawn", "branch_lost"), ("proposed", "branch_lost")]


def test_the_end_of_the_last_other_claim_makes_it_owed(story: Undoing) -> None:
    """A step of the trunk has agreed on the digest, and waits for its action, when the run is restarted."""
    story.want("t", TICKET, branch="B")
    story.send("t")
    story.propose("late")
    for path in (story.replica, story.production):
        story.vote(path, None, "late", digest=digest(TICKET))
    story.decide()
    assert story.step("late")["phase"] == "agreed"
    assert story.reconcile("A")["compensations"] == []
    story.restart()
    assert story.owed() == [("proposed", "branch_lost")]


def test_the_adopted_effect_of_a_lost_branch_is_owed(story: Undoing) -> None:
    adopted(story, "t")
    (made,) = story.reconcile("A")["compensations"]
    assert story.state(made) == "proposed"
    assert Compensation.objects.get(pk=made).effect_at is not None
    assert story.approve(made)["state"] == "approved"


def test_an_adopted_effect_is_beyond_admission_so_a_late_divergence_calls_people(story: Undoing) -> None:
    adopted(story, "t")
    story.vote(story.replica, {"tool": "create_ticket", "args": {"title": "another"}}, "t")
    assert story.step("t")["phase"] == "committed"
    assert Incident.objects.filter(kind="late_divergence").count() == 1


def test_a_contradicting_report_about_an_undoing_calls_people_once(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    assert story.tell(admitted, "succeeded")["state"] == "done"
    for _ in range(2):
        assert story.tell(admitted, "failed")["code"] == "outcome_conflict"
    assert Incident.objects.filter(kind="outcome_conflict").count() == 1


@pytest.mark.parametrize("outcome", ["not_sent", "busy"])
def test_an_undoing_that_was_not_sent_is_withdrawn_where_the_effect_is_wanted_by_now(
    story: Undoing, outcome: str
) -> None:
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    story.want("trunk", TICKET)
    assert story.tell(admitted, outcome)["state"] == "withdrawn"
    settled = story.admit(story.token("trunk"), TICKET)
    assert (settled["admit"], settled["outcome"]["outcome"]) == (False, "succeeded")


def test_an_undoing_that_was_not_sent_is_held_where_the_effect_may_be_wanted_by_now(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    story.fork("D", "E", fork="f2")
    story.want("again", TICKET, branch="D")
    assert story.tell(admitted, "not_sent")["state"] == "held"
    story.reconcile("E", fork="f2")
    assert story.state(made) == "proposed"


def test_an_undoing_that_was_not_sent_and_that_nobody_minds_is_sent_again(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    token = story.token_of(made)
    assert story.tell(story.undo(made, token=token), "not_sent")["state"] == "approved"
    assert story.undo(made, token=token)["admit"] is True


def test_a_divergence_beside_an_undoing_takes_back_what_waits_for_it(story: Undoing) -> None:
    """The commit waits for its next generation (B6): nothing of it is out, whatever left for the last one."""
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    story.want("trunk", TICKET)
    story.vote(story.replica, {"tool": "create_ticket", "args": {"title": "another"}}, "trunk")
    assert story.step("trunk")["phase"] == "committed"
    assert story.tell(admitted, "succeeded")["state"] == "done"
    assert (story.step("trunk")["phase"], story.step("trunk")["reason"]) == ("rejected", "late_divergence")
    assert [each["generation"] for each in story.intents()] == [1]


def test_a_report_that_contradicts_the_record_is_heard_while_only_an_undecided_branch_wants_the_effect(
    story: Undoing,
) -> None:
    admitted = story.admit(story.agree("trunk", NOTE), NOTE)
    story.want("waits", NOTE, branch="B")
    story.report(admitted, "busy")
    story.vote(story.replica, REFUND, "trunk")
    assert story.intent(admitted)["state"] == "held"
    assert story.report(admitted, "succeeded")["code"] == "outcome_conflict"
    assert story.intent(admitted)["state"] == "in_doubt"


@pytest.mark.parametrize(("outcome", "state"), [("succeeded", "succeeded"), ("failed", "failed")])
def test_a_late_report_settles_what_only_an_agreement_without_its_action_wants(
    story: Undoing, outcome: str, state: str
) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome="unknown")
    story.propose("late")
    for path in (story.replica, story.production):
        story.vote(path, None, "late", digest=digest(TICKET))
    story.decide()
    story.reconcile("A")
    assert story.intent(admitted)["state"] == "held"
    assert story.report(admitted, outcome)["state"] == state
