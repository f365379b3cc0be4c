"""Faults that people reported of rolling back (kind d), played on the real database through the services.

Where a report asks for an undoing by machine, the protocol asks a person first (P2, P3); one approval is one delivery.
"""

from __future__ import annotations

import sys

import pytest

from fencing.gateway import undoings
from fencing.models import Compensation, CompensationDelivery, CompensationRelease, Delivery, Run
from fencing.queries.undoings import read_forks
from fencing.services.forks import expire_forks
from tests.cases.reports import check_coverage
from tests.fencing.test_compensating import TWO, Undoing
from tests.fencing.test_forks import MORE, TICKET
from tests.stories import NOTE, TOOLS, register

pytestmark = pytest.mark.django_db
IDS = {f"D{number:02}" for number in range(1, 10)}


@pytest.fixture
def story(db: None) -> Undoing:
    register([*TOOLS, *MORE, *TWO])
    story = Undoing()
    assert story.open()["status"] == 201
    assert story.fork()["status"] == 201
    return story


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "d", IDS, {})


def test_d01_a_job_that_comes_late_undoes_nothing_twice(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    assert [undoings.release_due() for _ in range(3)] == [1, 0, 0]
    first = story.undo(made)
    story.tell(first, "succeeded")
    for _ in range(2):
        assert undoings.release_due() == undoings.sweep_compensations() == 0
        assert story.undo(made)["admit"] is False
    assert story.approve(made)["duplicate"] is True
    assert CompensationDelivery.objects.count() == CompensationRelease.objects.count() == 1


def test_d02_an_undoing_never_overtakes_what_it_undoes(story: Undoing) -> None:
    story.want("t", TICKET, branch="B")
    token = story.token("t")
    stuck = story.send("t", outcome=None)
    (made,) = story.reconcile("A")["compensations"]
    assert story.approve(made)["code"] == "outcome_unknown"
    assert story.admit(token, TICKET)["code"] == "delivery_in_progress"
    story.report(stuck, "succeeded", response={"ticket": "T-1"})
    assert story.state(made) == "proposed"
    assert story.approve(made)["state"] == "approved"


def test_d03_what_nobody_can_undo_stays_open_and_in_sight(story: Undoing) -> None:
    made = story.lost()
    Compensation.objects.filter(pk=made).update(payload=None)
    (fork,) = read_forks(Run.objects.get(name=story.run).pk)
    branch = next(each for each in fork.branches if each.name == "B")
    assert branch.is_rolled_back_with_effects
    assert story.approve(made)["code"] == "changed"
    undoings.sweep_compensations()
    assert story.state(made) == "proposed"
    assert story.record(made, evidence="closed it by hand")["state"] == "done"


def test_d04_effects_are_undone_last_first_each_after_the_one_before(story: Undoing) -> None:
    actions = [{"tool": "create_ticket", "args": {"title": title}} for title in ("create", "fund", "mail")]
    for action in actions:
        step = str(action["args"]["title"])  # type: ignore[index]
        story.want(step, action, branch="B")
        story.send(step, action, ticket=step)
    made = story.reconcile(None)["compensations"]
    in_order = story.in_order(made)
    for each in in_order:
        story.approve(each)
        story.token_of(each)
    done = []
    while wanted := [each for each in story.wanted() if "compensation" in each]:
        (only,) = wanted
        for other in in_order:
            if other != only["compensation"] and story.state(other) == "approved":
                assert story.undo(other)["code"] == "not_ready"
        story.tell(story.undo(only["compensation"]), "succeeded")
        done.append(only["compensation"])
    assert done == in_order[::-1]


def test_d05_what_sent_nothing_is_over_at_once(story: Undoing) -> None:
    story.want("x", NOTE, branch="B")
    told = story.reconcile(None)
    assert (told["compensations"], len(told["cancelled"])) == ([], 1)
    before = story.step("x")
    for _ in range(5):
        story.sweep()
        assert expire_forks() == undoings.sweep_compensations() == undoings.release_due() == 0
    assert story.step("x") == before
    assert before["reason"] == "branch_lost"


def test_d06_a_loser_undoes_nothing_that_the_winner_has(story: Undoing) -> None:
    story.want("loser", TICKET, branch="B", key="order-5:capture")
    first = story.send("loser")
    story.want("winner", TICKET, branch="A", key="order-5:capture")
    assert story.reconcile("A")["compensations"] == []
    assert story.admit(story.token("winner"), TICKET)["admit"] is False
    assert Delivery.objects.count() == 1
    assert story.intent(first)["state"] == "succeeded"


def test_d07_an_undoing_uses_what_was_recorded_and_a_refusal_of_the_tool_goes_to_people(story: Undoing) -> None:
    made = story.lost(ticket="T-recorded")
    story.approve(made)
    admitted = story.undo(made)
    assert b"T-recorded" in bytes(Compensation.objects.get(pk=made).payload.canonical)
    # Somebody else changed it meanwhile: the tool says so, with a definite no.
    assert story.tell(admitted, "failed", response={"found": "10.0.0.9"})["state"] == "proposed"
    assert [each for each in story.wanted() if "compensation" in each] == []


@pytest.mark.parametrize("action", [NOTE, {"tool": "refund", "args": {"invoice": 9, "cents": 1, "dryRun": ["All"]}}])
def test_d08_nothing_leaves_a_speculative_branch_whatever_its_arguments_promise(
    story: Undoing, action: dict[str, object]
) -> None:
    step = story.want("s", action, branch="B")
    assert (step["phase"], step["commit"]) == ("agreed", None)
    assert story.admit(None, action, run=story.run, step="s")["code"] == "not_committed"
    assert story.wanted() == []
    assert Delivery.objects.count() == 0


def test_d09_an_undoing_that_fails_is_never_closed_as_handled(story: Undoing) -> None:
    made = story.lost("o", TICKET)
    story.approve(made)
    story.tell(story.undo(made), "unknown")
    assert story.state(made) == "in_doubt"
    assert story.undo(made)["code"] == "in_doubt"
    assert story.say(made, happened=False)["state"] == "proposed"
    story.approve(made)
    assert story.tell(story.undo(made), "failed")["state"] == "proposed"
    assert Compensation.objects.get(pk=made).decided_at is None
