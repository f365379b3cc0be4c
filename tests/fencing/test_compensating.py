"""Compensations through the services (P1 to P7, B6): who decides on what, and what one approval lets through."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from django.db import connection

from fencing.gateway import admissions, compensating, dispatching, ledgers, outcomes, undoings
from fencing.models import AuditEvent, Compensation, CompensationRelease, Incident, Intent, ObservedEffect, SideLogRow
from fencing.protocol.callers import Caller, Role
from fencing.queries import gateway as gateway_queries
from fencing.services import freezes
from fencing.services.requests import (
    Admit,
    ApproveCompensation,
    AskCompensation,
    ObserveEffect,
    RecordCompensation,
    ReportOutcome,
    ResolveCompensation,
    WaiveCompensation,
)
from tests.fencing.test_forks import MORE, TICKET, Branching
from tests.stories import NOTE, REFUND, TOOLS, Told, actor, register, told

pytestmark = pytest.mark.django_db

TWO: list[dict[str, Any]] = [
    {
        "tool": "create_order",
        "idempotent": True,
        "optimistic": True,
        "compensator": {"tool": "cancel_order", "args": {"n": {"from": "action", "pointer": "/args/n"}}},
        "policy": {"grace_s": 0, "lease_s": 1, "compensation_approvals": 2},
    },
    {"tool": "cancel_order", "idempotent": False, "policy": {"lease_s": 1}},
]
ORDER = {"tool": "create_order", "args": {"n": 1}}


class Undoing(Branching):
    """A run in which something has to be undone, and people who decide."""

    second: Caller
    third_person: Caller

    def lost(
        self, step: str = "t", action: Any = TICKET, *, fork: str = "f1", branch: str = "B", **response: Any
    ) -> str:
        """Send an optimistic effect from a branch that then loses; give the compensation."""
        self.want(step, action, branch=branch)
        self.send(step, action, **(response or {"ticket": "T-1"}))
        (made,) = self.reconcile(None, fork=fork)["compensations"]
        return str(made)

    def digest(self, made: str) -> str | None:
        found: str | None = Compensation.objects.get(pk=made).payload_id
        return found

    def approve(
        self, made: str, *, by: Caller | None = None, digest: str | None = None, reason: str = "phantom"
    ) -> Told:
        request = ApproveCompensation(digest=digest or self.digest(made) or "sha256:" + "0" * 64, reason=reason)
        return told(compensating.approve(made, request, by or self.reviewer))

    def waive(self, made: str, *, by: Caller | None = None, digest: str | None = None, reason: str = "useful") -> Told:
        request = WaiveCompensation(digest=digest or self.digest(made), reason=reason)
        return told(compensating.waive(made, request, by or self.reviewer))

    def record(self, made: str, *, evidence: str = "mail 17", external_id: str | None = None) -> Told:
        request = RecordCompensation(evidence=evidence, external_id=external_id)
        return told(compensating.record(made, request, self.reviewer))

    def ask(self, *, by: Caller | None = None, reason: str = "wrong customer", **what: str) -> Told:
        return told(compensating.ask(AskCompensation(reason=reason, **what), by or self.reviewer))

    def say(self, made: str, *, happened: bool, by: Caller | None = None) -> Told:
        request = ResolveCompensation(happened=happened, evidence="seen in the ledger")
        return told(compensating.resolve(made, request, by or self.reviewer))

    def token_of(self, made: str) -> str:
        undoings.release_due()
        row = CompensationRelease.objects.filter(compensation_id=made).order_by("-round").first()
        assert row is not None
        return row.token

    def undo(self, made: str, *, action: Any = None, token: str | None = None) -> Told:
        """Ask to be let through with the token of an approval."""
        row = Compensation.objects.select_related("payload").get(pk=made)
        action = action or json.loads(bytes(row.payload.canonical))
        request = Admit(action=action, token=token or self.token_of(made))
        (result,) = admissions_of([request], self.gateway)
        return told(result)

    def tell(self, admitted: Told, outcome: Any, **members: Any) -> Told:
        request = ReportOutcome(
            compensation=admitted["compensation"], delivery=admitted["delivery"], outcome=outcome, **members
        )
        (result,) = outcomes_of([request], self.gateway)
        return told(result)

    def in_order(self, made: Iterable[str]) -> list[str]:
        """Compensations in the order of their effects."""
        rows = Compensation.objects.filter(pk__in=list(made)).order_by("effect_at")
        return [str(each) for each in rows.values_list("pk", flat=True)]

    def state(self, made: str) -> str:
        return str(Compensation.objects.get(pk=made).state)

    def wanted(self) -> list[dict[str, Any]]:
        body = told(gateway_queries.wanted(None, self.gateway))
        items: list[dict[str, Any]] = body["items"]
        return items


def admissions_of(requests: list[Admit], caller: Caller) -> list[Any]:
    return admissions.admit(requests, caller)


def outcomes_of(requests: list[ReportOutcome], caller: Caller) -> list[Any]:
    return outcomes.report_outcomes(requests, caller)


@pytest.fixture
def story(db: None) -> Undoing:
    """A run in epoch 7 with the fork f1 of A, B and C, and a second reviewer."""
    register([*TOOLS, *MORE, *TWO])
    story = Undoing()
    story.second = actor(Role.REVIEWER)
    assert story.open()["status"] == 201
    assert story.fork()["status"] == 201
    return story


def pass_lease() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1.05)")


# ---- P2, P3: an approval binds to what was shown ----


def test_an_approval_names_what_was_shown(story: Undoing) -> None:
    made = story.lost()
    assert story.approve(made, digest="sha256:" + "1" * 64)["code"] == "changed"
    assert story.state(made) == "proposed"
    first = story.approve(made)
    assert (first["state"], len(first["approvals"]), first["decided_by"]) == ("approved", 1, story.reviewer.person)
    assert story.approve(made)["duplicate"] is True
    again = story.approve(made, by=story.second)
    assert (again["code"], again["decided_by"]) == ("already_decided", story.reviewer.person)
    assert {row.reason for row in SideLogRow.objects.filter(kind="compensation")} == {"changed", "already_decided"}


def test_two_people_approve_where_the_tool_asks_for_two(story: Undoing) -> None:
    made = story.lost("o", ORDER)
    assert story.approve(made)["state"] == "proposed"
    assert story.approve(made)["duplicate"] is True, "the same person again is no second one"
    assert story.approve(made, by=story.second)["state"] == "approved"


def test_nobody_approves_what_they_asked_for(story: Undoing) -> None:
    story.want("t", TICKET)
    admitted = story.send("t", ticket="T-1")
    made = story.ask(intent=admitted["intent"])
    assert (made["status"], made["cause"], made["state"]) == (201, "requested", "proposed")
    assert story.ask(intent=admitted["intent"])["duplicate"] is True
    assert story.ask(intent=admitted["intent"], by=story.second)["code"] == "already_proposed"
    refused = SideLogRow.objects.get(reason="already_proposed")
    assert (refused.run, refused.tool) == (story.run, "create_ticket")
    assert story.approve(made["id"])["code"] == "own_request"
    assert story.approve(made["id"], by=story.second)["state"] == "approved"


def test_nobody_approves_the_undoing_of_what_their_grant_let_through(story: Undoing) -> None:
    both = actor(Role.REVIEWER)
    issuer = Caller(
        credential_id=both.credential_id, name=both.name, role=Role.ONCALL, person_id=both.person_id, person=both.person
    )
    story.grant(tool="create_ticket", by=issuer)
    assert story.propose("t")["status"] == 201
    story.vote(story.production, TICKET, "t")
    story.decide()
    admitted = story.send("t", ticket="T-1")
    made = story.ask(intent=admitted["intent"])
    assert story.approve(made["id"], by=both)["code"] == "own_grant"
    assert story.approve(made["id"], by=story.second)["state"] == "approved"


@pytest.mark.parametrize("state", ["held", "ready", "failed"])
def test_nothing_is_undone_that_did_not_happen(story: Undoing, state: str) -> None:
    step = story.want("t", TICKET if state != "held" else NOTE, branch="B" if state == "held" else None)
    if state == "failed":
        story.send("t", outcome="failed")
    assert story.ask(intent=step["intent"]["id"])["code"] == "nothing_to_undo"
    assert story.ask(intent="nowhere")["code"] == "not_found"


# ---- P4: held, known, withdrawn ----


def test_what_may_still_be_wanted_is_held_and_its_approvals_lapse(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    token = story.token_of(made)
    story.fork("D", "E", fork="f2")
    story.want("d", TICKET, branch="D")
    assert story.state(made) == "held"
    assert story.approve(made, by=story.second)["code"] == "held"
    assert story.undo(made, token=token)["code"] == "revoked"
    story.reconcile("E", fork="f2")
    assert story.state(made) == "proposed"
    assert story.undo(made, token=token)["code"] == "revoked", "the approval lapsed for good"
    assert story.approve(made)["state"] == "approved"
    assert story.undo(made)["admit"] is True


def test_first_the_fact_then_the_undoing(story: Undoing) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome=None)
    (made,) = story.reconcile(None)["compensations"]
    seen = story.digest(made)
    assert story.approve(made)["code"] == "outcome_unknown"
    story.report(admitted, "succeeded", response={"ticket": "T-9"})
    assert story.approve(made, digest=seen)["code"] == "changed"
    assert story.approve(made)["state"] == "approved"


# ---- P5: one approval is one delivery ----


def test_an_approval_lets_exactly_one_call_through(story: Undoing) -> None:
    made = story.lost()
    assert story.wanted() == []
    story.approve(made)
    token = story.token_of(made)
    (offer,) = [each for each in story.wanted() if "compensation" in each]
    assert (offer["compensation"], offer["token"]) == (made, token)
    assert story.undo(made, action={"tool": "close_ticket", "args": {"title": "other"}})["code"] == "payload_mismatch"
    assert story.undo(made, token=token[:-8] + "AAAAAAAA")["code"] == "bad_token"
    admitted = story.undo(made)
    assert (admitted["admit"], admitted["compensation"]) == (True, made)
    assert admitted["idempotency_key"].startswith("fence-")
    assert story.undo(made)["code"] == "delivery_in_progress"
    assert story.tell(admitted, "succeeded", response={"closed": True})["state"] == "done"
    assert story.tell(admitted, "succeeded")["duplicate"] is True
    again = story.undo(made)
    assert (again["admit"], again["outcome"]["outcome"]) == (False, "succeeded")
    assert story.tell(admitted, "failed")["code"] == "outcome_conflict"
    assert Incident.objects.get().kind == "outcome_conflict"


@pytest.mark.parametrize("outcome", ["busy", "not_sent"])
def test_what_was_not_done_is_repeated_under_the_same_approval(story: Undoing, outcome: str) -> None:
    made = story.lost()
    story.approve(made)
    first = story.undo(made)
    assert story.tell(first, outcome, **({"retry_after": 0} if outcome == "busy" else {}))["state"] == "approved"
    second = story.undo(made)
    assert (second["admit"], second["idempotency_key"]) == (True, first["idempotency_key"])
    assert story.tell(first, "succeeded")["code"] == "outcome_conflict"
    assert story.tell(second, "succeeded")["state"] == "done"


def test_a_failure_goes_back_to_people_and_its_approval_is_used_up(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    token = story.token_of(made)
    admitted = story.undo(made)
    body = story.tell(admitted, "failed")
    assert (body["state"], body["approvals"], body["decided_by"]) == ("proposed", [], None)
    assert story.undo(made, token=token)["code"] == "revoked"
    assert story.approve(made)["state"] == "approved"
    second = story.undo(made)
    assert second["idempotency_key"] != admitted["idempotency_key"]


@pytest.mark.parametrize("how", ["lease", "unknown"])
def test_an_unknown_end_is_never_repeated_by_a_machine(story: Undoing, how: str) -> None:
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    if how == "lease":
        pass_lease()
        assert undoings.sweep_compensations() == 1
    else:
        story.tell(admitted, "unknown")
    assert story.state(made) == "in_doubt"
    assert story.undo(made)["code"] == "in_doubt"
    assert [each for each in story.wanted() if "compensation" in each] == []
    assert story.say(made, happened=False)["state"] == "proposed"
    assert story.say(made, happened=False)["duplicate"] is True
    assert story.say(made, happened=True)["code"] == "already_decided"


@pytest.mark.parametrize("approved", [False, True], ids=["undecided", "approved again"])
@pytest.mark.parametrize("end", ["failed", "not_happened"])
def test_a_success_told_too_late_is_never_followed_by_a_second_undoing(
    story: Undoing, end: str, approved: bool
) -> None:
    made = story.lost()
    story.approve(made)
    first = story.undo(made)
    if end == "failed":
        story.tell(first, "failed")
    else:
        story.tell(first, "unknown")
        story.say(made, happened=False)
    token = None
    if approved:
        story.approve(made)
        token = story.token_of(made)
    assert story.tell(first, "succeeded")["code"] == "outcome_conflict"
    assert story.state(made) == "in_doubt"
    assert Incident.objects.get().kind == "outcome_conflict"
    assert story.approve(made)["code"] == "already_decided"
    if token is not None:
        assert story.undo(made, token=token)["code"] == "revoked"
    assert story.say(made, happened=True, by=story.second)["state"] == "done"


def test_a_doubt_that_a_late_success_raised_is_a_persons_to_end(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    first = story.undo(made)
    story.tell(first, "not_sent")
    second = story.undo(made)
    assert story.tell(first, "succeeded")["code"] == "outcome_conflict"
    assert story.state(made) == "in_doubt"
    assert story.tell(second, "failed")["state"] == "in_doubt"
    assert story.say(made, happened=False)["state"] == "proposed"
    assert story.approve(made)["state"] == "approved"
    assert story.undo(made)["admit"] is True


def test_who_came_to_want_it_meanwhile_gets_it_anew_though_the_undoing_was_in_doubt_first(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    first = story.undo(made)
    assert story.fork("E", "F", fork="g")["status"] == 201
    story.want("late", TICKET, branch="E")
    assert story.tell(first, "failed")["state"] == "held"
    assert story.tell(first, "succeeded")["code"] == "outcome_conflict"
    assert story.say(made, happened=True)["state"] == "done"
    story.reconcile("E", fork="g")
    story.decide()
    assert story.send("late")["admit"] is True
    assert [each.generation for each in Intent.objects.order_by("generation")] == [1, 2]


def test_a_late_report_settles_what_is_in_doubt(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    story.tell(admitted, "unknown")
    assert story.tell(admitted, "succeeded")["state"] == "done"
    assert story.say(made, happened=True)["code"] == "not_in_doubt"


def test_a_freeze_stops_an_undoing_too(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    story.token_of(made)
    frozen = story.freeze(tool="close_ticket")
    assert story.undo(made)["code"] == "frozen"
    assert story.wanted() == []
    story.lift(frozen)
    assert story.undo(made)["admit"] is True


def undoings_in(lines: list[Told]) -> list[str]:
    """The undoings among what a freeze reached."""
    return [line["compensation"] for line in lines if "compensation" in line]


def test_a_freeze_tells_which_undoings_it_stopped_and_which_are_out(story: Undoing) -> None:
    made = story.lost()
    everywhere, elsewhere = story.freeze(), Undoing()
    assert undoings_in([*everywhere["stopped"], *everywhere["already_out"]]) == []  # nobody has approved it
    story.lift(everywhere)
    story.approve(made)
    of_its_run = story.freeze(run=story.run)
    intent = str(Compensation.objects.get(pk=made).intent_id)
    line = {"run": story.run, "step": None, "epoch": None, "intent": intent, "compensation": made}
    assert line in of_its_run["stopped"]
    story.lift(of_its_run)
    admitted = story.undo(made)
    of_its_tool = story.freeze(tool="close_ticket")
    assert (of_its_tool["stopped"], of_its_tool["already_out"]) == ([], [line])
    assert of_its_tool["more"] == {"stopped": 0, "already_out": 0}
    story.lift(of_its_tool)
    story.tell(admitted, "unknown")
    assert story.freeze()["already_out"][-1] == line  # in doubt
    assert undoings_in(story.freeze(tool="create_ticket")["already_out"]) == []
    elsewhere.open()
    assert elsewhere.freeze(run=elsewhere.run)["already_out"] == []


def test_undoings_that_a_freeze_does_not_list_are_counted(story: Undoing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezes, "MOST_LINES", 1)
    for fork in ("f2", "f3", "f4"):
        branches = f"{fork}-A", f"{fork}-B"
        story.fork(*branches, fork=fork)
        ticket = {"tool": "create_ticket", "args": {"title": fork}}
        story.approve(story.lost(fork, ticket, fork=fork, branch=branches[1]))
    frozen = story.freeze(tool="close_ticket")
    assert len(undoings_in(frozen["stopped"])) == 1
    assert frozen["more"] == {"stopped": 2, "already_out": 0}


def test_whose_call_it_is_says_the_version_under_which_it_was_proposed(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    story.token_of(made)
    push = {"tool": "close_ticket", "idempotent": True, "mode": "push", "endpoint": "https://tickets.example/close"}
    register([push])
    assert [each["compensation"] for each in story.wanted() if "compensation" in each] == [made]
    assert dispatching.take(16) == []
    story.fork("D", "E", fork="f2")
    later = story.lost("d", {"tool": "create_ticket", "args": {"title": "later"}}, fork="f2", branch="D")
    story.approve(later)
    story.token_of(later)
    register(MORE[:1])
    assert later not in [each.get("compensation") for each in story.wanted()]
    assert [getattr(each, "compensation", None) for each in dispatching.take(16)] == [later]


# ---- B6: wanted again ----


def test_what_was_undone_is_sent_again_with_a_key_of_its_own(story: Undoing) -> None:
    story.want("t", TICKET, branch="B")
    first = story.send("t", ticket="T-1")
    (made,) = story.reconcile(None)["compensations"]
    story.approve(made)
    story.tell(story.undo(made), "succeeded")
    step = story.want("again", TICKET)
    assert (step["phase"], step["intent"]["generation"]) == ("committed", 2)
    second = story.admit(story.token("again"), TICKET)
    assert second["admit"] is True
    assert second["idempotency_key"] != first["idempotency_key"]


def test_who_wants_it_while_it_is_being_undone_waits_and_gets_a_new_one(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    undoing = story.undo(made)
    step = story.want("again", TICKET)
    assert step["phase"] == "committed"
    token = story.token("again")
    assert story.admit(token, TICKET)["code"] == "not_ready"
    story.tell(undoing, "unknown")
    assert story.admit(token, TICKET)["code"] == "not_ready"
    story.say(made, happened=True)
    assert story.step("again")["intent"]["generation"] == 2
    assert story.token("again") == token
    assert story.admit(token, TICKET)["admit"] is True


def test_who_wants_it_while_its_undoing_fails_keeps_what_is_there(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    undoing = story.undo(made)
    story.want("again", TICKET)
    assert story.tell(undoing, "failed")["state"] == "withdrawn"
    assert story.admit(story.token("again"), TICKET)["admit"] is False


# ---- P6: by hand, or not at all ----


def test_what_has_no_compensator_is_undone_by_hand(story: Undoing) -> None:
    story.want("n", NOTE)
    admitted = story.send("n", NOTE)
    made = story.ask(intent=admitted["intent"])["id"]
    assert story.digest(made) is None
    assert story.approve(made, by=story.second)["code"] == "changed"
    assert story.record(made, external_id="m-17")["state"] == "done"
    assert story.record(made, external_id="m-17")["duplicate"] is True
    row = ObservedEffect.objects.get()
    assert (row.match, row.source, row.external_id) == ("compensation", "record", "m-17")
    assert story.ask(intent=admitted["intent"])["code"] == "nothing_to_undo"


def test_what_has_a_compensator_is_not_recorded_by_hand(story: Undoing) -> None:
    assert story.record(story.lost())["code"] == "has_compensator"


def test_a_waived_effect_stands_with_the_digest_that_was_seen(story: Undoing) -> None:
    made = story.lost()
    assert story.waive(made, digest="sha256:" + "1" * 64)["code"] == "changed"
    assert story.waive(made)["state"] == "waived"
    assert story.waive(made)["duplicate"] is True
    assert story.waive(made, by=story.second, reason="me too")["code"] == "already_decided"
    row = Compensation.objects.get()
    assert (row.seen_digest, row.reason, row.decider_id) == (row.payload_id, "useful", story.reviewer.person_id)
    assert AuditEvent.objects.filter(verb="waive_compensation").count() == 1


# ---- P7 ----


def test_effects_of_a_run_are_undone_in_reverse_order(story: Undoing) -> None:
    story.want("two", ORDER, branch="B")  # wanted first, and sent last
    story.want("one", TICKET, branch="B")
    story.send("one", ticket="T-1")
    story.send("two", ORDER)
    shown = story.reconcile(None)["compensations"]
    first, second = story.in_order(shown)
    assert shown == [second, first]
    story.approve(first)
    story.approve(second)
    assert story.approve(second, by=story.second)["state"] == "approved"
    story.token_of(first)
    assert [each.get("compensation") for each in story.wanted()] == [second]
    assert story.undo(first)["code"] == "not_ready"
    story.tell(story.undo(second), "succeeded")
    assert story.undo(first)["admit"] is True


def test_a_plain_refund_has_nothing_to_do_with_any_of_this(story: Undoing) -> None:
    assert story.admit(story.agree("r", REFUND))["admit"] is True


# ---- L8: what the tool's own ledger says of an undoing ----


def ledger_row(story: Undoing, external_id: str, **told_by_it: Any) -> Told:
    request = ObserveEffect(tool="close_ticket", external_id=external_id, **told_by_it)
    (result,) = ledgers.observe_effects([request], story.gateway)
    return told(result)


@pytest.mark.parametrize("by", ["key", "payload"])
def test_the_ledger_row_of_an_undoing_is_no_escape(story: Undoing, by: str) -> None:
    made = story.lost()
    story.approve(made)
    admitted = story.undo(made)
    story.tell(admitted, "succeeded")
    of_it = {"idempotency_key": admitted["idempotency_key"]} if by == "key" else {"digest": story.digest(made)}
    first = ledger_row(story, "row-1", **of_it)
    assert (first["match"], first["intent"], first["incident"]) == ("compensation", None, None)
    assert ledger_row(story, "row-1", **of_it)["duplicate"] is True
    assert ledger_row(story, "row-2", **of_it)["match"] == ("doubled" if by == "key" else "escape")


def test_an_undoing_that_failed_has_no_ledger_row(story: Undoing) -> None:
    made = story.lost()
    story.approve(made)
    story.tell(story.undo(made), "failed")
    assert ledger_row(story, "row-1", digest=story.digest(made))["match"] == "escape"
