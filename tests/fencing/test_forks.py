"""Forks and branches through the services (B1 to B6, L1, L2, L7), on the real database, no HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from fencing.models import Branch, Claim, Compensation, Fork
from fencing.queries import gateway as gateway_queries
from fencing.services import forks
from fencing.services.requests import OpenFork, ReconcileFork
from tests.stories import EPOCH, NOTE, TOOLS, Story, Told, actor, register, told

pytestmark = pytest.mark.django_db

TICKET = {"tool": "create_ticket", "args": {"title": "phantom"}}
MORE: list[dict[str, Any]] = [
    {"tool": "close_ticket", "idempotent": True, "policy": {"lease_s": 1}},
    {
        "tool": "create_ticket",
        "idempotent": True,
        "optimistic": True,
        "compensator": {
            "tool": "close_ticket",
            "args": {
                "title": {"from": "action", "pointer": "/args/title"},
                "ticket": {"from": "response", "pointer": "/ticket", "default": None},
            },
        },
        "policy": {"grace_s": 0, "lease_s": 1, "max_deliveries": 3},
    },
]


class Branching(Story):
    """A run with a fork."""

    def fork(self, *names: str, fork: str = "f1", **members: Any) -> Told:
        request = OpenFork(run=self.run, fork=fork, branches=names or ("A", "B", "C"), **members)
        return told(forks.open_fork(request, self.planner))

    def reconcile(self, winner: str | None, fork: str = "f1") -> Told:
        return told(forks.reconcile_fork(ReconcileFork(run=self.run, fork=fork, winner=winner), self.planner))

    def want(self, step: str, action: Any = NOTE, branch: str | None = None, **members: Any) -> Told:
        """Propose a step, have both paths vote alike, let the fencer decide; give the step."""
        assert "code" not in self.propose(step, branch=branch, **members)
        for path in (self.replica, self.production):
            assert "code" not in self.vote(path, action, step)
        self.decide()
        return self.step(step)

    def send(self, step: str, action: Any = TICKET, *, outcome: str | None = "succeeded", **response: Any) -> Told:
        """Deliver a committed step's effect; give the admission."""
        admitted = self.admit(self.token(step), action)
        assert admitted.get("admit") is True, admitted
        if outcome is not None:
            assert "code" not in self.report(admitted, outcome, **({"response": response} if response else {}))
        return admitted

    def owed(self) -> list[tuple[str, str]]:
        """What there is to undo: state and cause, oldest first."""
        return list(Compensation.objects.order_by("proposed_at", "id").values_list("state", "cause"))


@pytest.fixture
def story(db: None) -> Branching:
    """A run in epoch 7 with the fork f1 of A, B and C."""
    register([*TOOLS, *MORE])
    story = Branching()
    assert story.open()["status"] == 201
    assert story.fork()["status"] == 201
    return story


# ---- B1, B2 ----


def test_a_fork_is_opened_once_and_told_with_its_branches(story: Branching) -> None:
    again = story.fork()
    assert (again["status"], again["duplicate"]) == (200, True)
    assert [each["branch"] for each in again["branches"]] == ["A", "B", "C"]
    assert story.fork("A", "B")["code"] == "fork_conflict"
    assert story.fork("A", "D", fork="f2")["code"] == "branch_exists"
    assert story.fork("D", "E", fork="f2", parent="nowhere")["code"] == "unknown_branch"
    assert told(forks.open_fork(OpenFork(run=story.run, fork="f3", branches=("X", "Y")), actor(story.planner.role)))[
        "code"
    ] == ("not_your_run")


def test_a_step_names_a_branch_that_is_there_and_lives(story: Branching) -> None:
    assert story.propose("s", branch="D")["code"] == "unknown_branch"
    story.reconcile("A")
    assert story.propose("s", branch="B")["code"] == "branch_lost"
    assert story.propose("s", branch="A")["status"] == 201
    assert story.fork("D", "E", fork="f2", parent="C")["code"] == "branch_lost"


def test_a_fork_is_reconciled_once(story: Branching) -> None:
    first = story.reconcile("A")
    assert first["winner"] == "A"
    assert story.reconcile("A") == {**first, "duplicate": True}
    assert story.reconcile("B")["code"] == "already_reconciled"
    assert story.reconcile(None)["code"] == "already_reconciled"
    assert story.reconcile("A", fork="f9")["code"] == "not_found"
    assert dict(Branch.objects.filter(run__name=story.run).values_list("name", "state")) == {
        "A": "won",
        "B": "lost",
        "C": "lost",
    }


def test_a_fork_whose_deadline_passed_has_no_winner(story: Branching) -> None:
    assert story.fork("D", "E", fork="f2", deadline_s=1)["status"] == 201
    story.want("s", branch="D")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1.05)")
    assert forks.expire_forks() == 1
    assert forks.expire_forks() == 0
    row = Fork.objects.get(run__name=story.run, name="f2")
    assert (row.winner, row.reconciled_by_id, row.reconciled_at is not None) == (None, None, True)
    assert story.step("s")["reason"] == "branch_lost"
    assert story.reconcile("D", fork="f2")["code"] == "already_reconciled"


# ---- B3, B4 ----


def test_an_agreement_waits_until_its_branch_wins(story: Branching) -> None:
    step = story.want("s", branch="B")
    assert (step["phase"], step["intent"]["state"], step["commit"]) == ("agreed", "held", None)
    story.reconcile("B")
    story.decide()
    step = story.step("s")
    assert (step["phase"], step["intent"]["state"]) == ("committed", "ready")
    assert story.admit(story.token("s"), NOTE)["admit"] is True


def test_an_agreement_of_a_loser_is_rejected_and_its_intent_stays_on_record(story: Branching) -> None:
    intent = story.want("s", branch="B", key="note-1")["intent"]["id"]
    told = story.reconcile("A")
    assert told["cancelled"] == ["note-1"]
    step = story.step("s")
    assert (step["phase"], step["reason"]) == ("rejected", "branch_lost")
    assert [each["state"] for each in story.intents()] == ["cancelled"]
    assert story.intents()[0]["id"] == intent
    assert story.replay("s")["code"] == "branch_lost"


def test_a_nested_branch_waits_for_all_above_it(story: Branching) -> None:
    story.fork("B1", "B2", fork="f2", parent="B")
    story.want("s", branch="B1")
    story.reconcile("B1", fork="f2")
    story.decide()
    assert story.step("s")["phase"] == "agreed"
    story.reconcile("B")
    story.decide()
    assert story.step("s")["phase"] == "committed"


def test_a_nested_winner_is_lost_with_what_it_lies_in(story: Branching) -> None:
    story.fork("B1", "B2", fork="f2", parent="B")
    story.fork("B3", "B4", fork="f3", parent="B")
    story.want("s", branch="B1")
    story.reconcile("B1", fork="f2")
    story.reconcile("A")
    assert story.step("s")["reason"] == "branch_lost"
    states = dict(Branch.objects.filter(run__name=story.run).values_list("name", "state"))
    assert {states[name] for name in ("B", "B1", "B2", "B3", "B4", "C")} == {"lost"}
    assert story.reconcile("B3", fork="f3")["code"] == "already_reconciled"


def test_an_optimistic_commit_that_has_not_left_is_taken_back(story: Branching) -> None:
    step = story.want("t", TICKET, branch="B")
    assert (step["phase"], step["intent"]["state"]) == ("committed", "ready")
    assert Claim.objects.get().state == "open"
    token = story.token("t")
    assert story.reconcile("A")["compensations"] == []
    step = story.step("t")
    assert (step["phase"], step["reason"], step["revoked"]["reason"]) == ("rejected", "branch_lost", "branch_lost")
    assert story.admit(token, TICKET)["code"] == "revoked"


def test_an_optimistic_effect_of_a_loser_is_owed_an_undoing(story: Branching) -> None:
    story.want("t", TICKET, branch="B")
    story.send("t", ticket="T-1")
    (made,) = story.reconcile("A")["compensations"]
    row = Compensation.objects.get(id=made)
    assert (row.state, row.cause, row.tool, row.needed) == ("proposed", "branch_lost", "create_ticket", 1)
    assert bytes(row.payload.canonical) == b'{"args":{"ticket":"T-1","title":"phantom"},"tool":"close_ticket"}'
    step = story.step("t")
    assert step["phase"] == "committed", "what is out is out"


def test_what_is_in_flight_when_its_branch_loses_is_owed_as_soon_as_it_is_known(story: Branching) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome=None)
    (made,) = story.reconcile("A")["compensations"]
    before = Compensation.objects.get(id=made).payload_id
    assert story.report(admitted, "succeeded", response={"ticket": "T-2"})["state"] == "succeeded"
    row = Compensation.objects.get(id=made)
    assert (row.state, row.payload_id != before) == ("proposed", True)
    assert b"T-2" in bytes(row.payload.canonical)


@pytest.mark.parametrize(("outcome", "phase"), [("failed", "committed"), ("not_sent", "rejected")])
def test_what_turns_out_not_to_have_happened_needs_no_undoing(story: Branching, outcome: str, phase: str) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome=None)
    story.reconcile("A")
    story.report(admitted, outcome)
    assert story.owed() == [("withdrawn", "branch_lost")]
    assert story.step("t")["phase"] == phase
    assert story.step("t")["commit"] is None


def test_what_a_loser_sent_is_never_repeated_by_a_machine(story: Branching) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome="unknown")
    story.reconcile("A")
    story.sweep()
    assert story.intent(admitted)["state"] == "in_doubt"
    assert story.resolve(admitted, happened=False)["state"] == "cancelled"
    assert story.owed() == [("withdrawn", "branch_lost")]


# ---- B5, P4 ----


def test_what_the_winner_wants_too_stays_and_is_sent_once(story: Branching) -> None:
    story.want("tb", TICKET, branch="B")
    first = story.send("tb")
    story.want("ta", TICKET, branch="A")
    assert story.reconcile("A")["compensations"] == []
    again = story.admit(story.token("ta"), TICKET)
    assert (again["admit"], again["intent"]) == (False, first["intent"])
    assert sorted(each["state"] for each in story.intent(first)["claims"]) == ["lost", "won"]


def test_what_a_loser_began_and_nobody_knows_is_offered_by_the_winners_token(story: Branching) -> None:
    story.want("tb", TICKET, branch="B")
    first = story.send("tb", outcome="unknown")
    story.want("ta", TICKET, branch="A")
    story.reconcile("A")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1.05)")
    (offer,) = told(gateway_queries.wanted(None, story.gateway))["items"]
    assert (offer["intent"], offer["token"]) == (first["intent"], story.token("ta"))
    assert story.admit(offer["token"], TICKET)["admit"] is True


def test_a_retry_that_claims_it_withdraws_the_undoing(story: Branching) -> None:
    story.want("t", TICKET, branch="B")
    story.send("t", ticket="T-1")
    story.reconcile("A")
    assert story.owed() == [("proposed", "branch_lost")]
    story.want("again", TICKET)
    assert story.owed() == [("withdrawn", "branch_lost")]
    assert story.admit(story.token("again"), TICKET)["admit"] is False


def test_an_undoing_is_held_while_a_branch_may_still_want_the_effect(story: Branching) -> None:
    story.want("t", TICKET, branch="B")
    story.send("t", ticket="T-1")
    story.reconcile("A")
    story.fork("D", "E", fork="f2")
    story.want("d", TICKET, branch="D")
    assert story.owed() == [("held", "branch_lost")]
    story.reconcile("E", fork="f2")
    assert story.owed() == [("proposed", "branch_lost")]
    story.fork("F", "G", fork="f3")
    story.want("f", TICKET, branch="F")
    told = story.reconcile("F", fork="f3")
    assert story.owed() == [("withdrawn", "branch_lost")]
    assert told["withdrawn"] == [str(Compensation.objects.get().id)]


def test_a_key_of_a_loser_serves_another_action_once_nothing_of_it_is_out(story: Branching) -> None:
    other = {"tool": "create_ticket", "args": {"title": "real"}}
    story.want("b", TICKET, branch="B", key="ticket")
    assert story.want("a", other, branch="A", key="ticket")["reason"] == "key_conflict"
    story.reconcile(None)
    step = story.want("later", other, key="ticket")
    assert (step["phase"], step["intent"]["generation"]) == ("committed", 2)


def test_the_next_epoch_of_a_run_wants_what_a_winner_sent_and_gets_no_second_one(story: Branching) -> None:
    story.want("tb", TICKET, branch="B")
    first = story.send("tb")
    story.reconcile("B")
    story.restart()
    story.propose("again", EPOCH + 1)
    for path in (story.replica, story.production):
        story.vote(path, TICKET, "again", EPOCH + 1)
    story.decide()
    again = story.admit(story.token("again", EPOCH + 1), TICKET)
    assert (again["admit"], again["intent"]) == (False, first["intent"])


def test_a_fenced_step_waits_for_its_branch_too(story: Branching) -> None:
    story.grant(tool="send_note")
    assert story.propose("s", branch="B")["status"] == 201
    story.vote(story.production, NOTE, "s")
    story.decide()
    assert story.step("s")["phase"] == "fenced"
    story.reconcile("B")
    story.decide()
    assert story.step("s")["phase"] == "committed"


def test_a_restart_rejects_what_waits_in_a_branch(story: Branching) -> None:
    story.want("s", branch="B")
    assert story.restart()["superseded"] == ["s"]
    assert story.reconcile("B")["winner"] == "B"
    assert story.step("s")["reason"] == "superseded"
