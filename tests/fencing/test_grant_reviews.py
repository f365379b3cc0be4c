"""Reviews, debts and second persons (G4, G6), and issuing many at once."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fencing.models import AuditEvent, Grant, GrantRefusal, GrantReview, Run, SideLogRow
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.grants import version_of
from fencing.queries import grants as grant_queries
from fencing.queries.pages import Page
from fencing.services import grants
from fencing.services.requests import DecideGrant, IssueGrant
from tests.factories import make_grant, soon
from tests.stories import EPOCH, REASON, Story, Told, actor, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(valkey: str) -> Story:
    return Story.begin()


def owe(story: Story, issuer: Caller, hours: float = 25, **values: Any) -> Grant:
    """Have an issuer owe the review of a grant that went live so many hours ago."""
    run = Run.objects.get(name=story.run)
    live_at = soon(-hours * 3600)
    person = User.objects.get(pk=issuer.person_id or 0)
    return make_grant(
        run=run, tool="send_note", issuer=person, live_at=live_at, issued_at=live_at, expired_at=soon(-1), **values
    )


# ---- reviews ----


def test_a_grant_that_is_live_at_once_owes_a_review_and_another_person_gives_it(story: Story) -> None:
    issued = story.grant(tool="refund")
    assert (issued["review"], issued["review_due_at"] is not None) == (None, True)
    name = issued["name"]
    assert story.review(name, by=story.oncall)["code"] == "own_grant"
    reviewed = story.review(name)
    assert (reviewed["review"]["by"], reviewed["review"]["reason"]) == (story.reviewer.person, "it did what it should")
    assert story.review(name)["duplicate"] is True
    late = story.review(name, by=story.oncall2)
    assert (late["code"], late["decided_by"]) == ("already_decided", story.reviewer.person)
    assert GrantReview.objects.count() == 1
    event = AuditEvent.objects.get(verb="review_grant")
    assert (event.actor.split(" ")[0], event.subject, event.run) == (story.reviewer.person, name, story.run)


def test_an_issuer_who_is_a_reviewer_too_does_not_review_with_the_other_key(story: Story) -> None:
    name = story.grant(tool="refund")["name"]
    other_key = Caller(
        credential_id=None, name="x", role=Role.REVIEWER, person_id=story.oncall.person_id, person=story.oncall.person
    )
    assert story.review(name, by=other_key)["code"] == "own_grant"


def test_two_people_before_it_owes_no_review_and_may_have_one(story: Story) -> None:
    pending = story.grant(tool="wire")
    assert pending["review_due_at"] is None
    assert story.review(pending["name"])["code"] == "already_decided"
    live = story.approve(pending["name"])
    assert (live["state"], live["review_due_at"]) == ("live", None)
    assert story.review(pending["name"])["review"]["by"] == story.reviewer.person


def test_a_review_says_something(story: Story) -> None:
    name = story.grant(tool="refund")["name"]
    blank = grants.review_grant(name, DecideGrant(reason=" \u200b\u2800 "), story.reviewer)
    assert isinstance(blank, Refusal)
    assert blank.code == "reason_required"


def test_reviewing_what_is_not_there_is_told_and_logged(story: Story) -> None:
    assert story.review("no-such-grant")["code"] == "not_found"
    assert SideLogRow.objects.filter(kind="grant", reason="not_found").count() == 1


# ---- debts ----


def test_whoever_owes_an_overdue_review_issues_nothing_until_it_is_given(story: Story) -> None:
    old = owe(story, story.oncall)
    refused = story.grant(tool="refund")
    assert (refused["code"], refused["grants"]) == ("review_overdue", [old.name])
    assert SideLogRow.objects.get(reason="review_overdue").run == story.run
    assert story.grant(tool="refund", by=story.oncall2)["status"] == 201
    story.review(old.name)
    assert story.grant(tool="send_note")["status"] == 201
    assert AuditEvent.objects.get(verb="review_grant").after == {"uses": 0, "was_overdue": True}


def test_a_repetition_of_an_earlier_issue_is_a_duplicate_whatever_is_owed(story: Story) -> None:
    issued = story.grant(tool="refund")
    owe(story, story.oncall, name="old")
    again = story.grant(tool="refund", name=issued["name"])
    assert (again["status"], again["duplicate"]) == (200, True)


def test_a_debtor_may_still_approve_and_revoke(story: Story) -> None:
    pending = story.grant(tool="wire")["name"]
    owe(story, story.oncall2)
    assert story.approve(pending, by=story.oncall2)["state"] == "live"
    assert story.revoke(pending, by=story.oncall2)["state"] == "revoked"


def test_the_lists_tell_what_is_owed_and_who_is_blocked(story: Story) -> None:
    overdue, owed = owe(story, story.oncall), story.grant(tool="refund", by=story.oncall2)["name"]
    found = grant_queries.debts()
    assert (found.count, found.overdue) == (2, 1)
    assert [line.body["name"] for line in found.lines] == [overdue.name, owed]
    assert [line.review.is_overdue for line in found.lines] == [True, False]
    assert grant_queries.debts_of(story.oncall.person_id) == (overdue.name,)
    assert grant_queries.debts_of(story.oncall2.person_id) == ()
    (blocked,) = grant_queries.blocked_people()
    assert (blocked.person, blocked.grants) == (story.oncall.person, (overdue.name,))
    story.review(overdue.name)
    assert grant_queries.blocked_people() == ()
    assert grant_queries.debts().count == 1


# ---- second persons ----


def test_a_pending_grant_is_over_after_a_quarter_of_an_hour(story: Story) -> None:
    run, person = Run.objects.get(name=story.run), User.objects.get(pk=story.oncall.person_id or 0)
    waits: dict[str, Any] = {"live_at": None, "expires_at": None, "approvals_needed": 1, "pending_until": soon(-0.1)}
    old = make_grant(run=run, tool="wire", issuer=person, epoch=EPOCH, **waits)
    assert story.grant_state(old.name) == "expired"  # by the clock, with no sweeper running
    assert story.approve(old.name)["code"] == "already_decided"
    assert story.grant(tool="wire")["status"] == 201  # it stands in nobody's way
    assert grants.expire_grants() == 1
    old.refresh_from_db()
    assert old.expired_at is not None


def test_the_life_of_a_grant_begins_with_its_last_approval(story: Story) -> None:
    pending = story.grant(tool="wire", ttl_s=60)
    assert pending["expires_at"] is None
    live = story.approve(pending["name"])
    row = Grant.objects.get(name=pending["name"])
    assert row.live_at is not None
    assert row.expires_at is not None
    assert (row.expires_at - row.live_at).total_seconds() == 60
    assert live["expires_at"] is not None


@pytest.mark.parametrize("act", ["approve", "review"])
def test_whoever_decides_by_an_older_sight_is_told_that_it_changed(story: Story, act: str) -> None:
    pending = story.grant(tool="wire")
    seen = version_of(pending)
    story.approve(pending["name"])
    third = actor(Role.ONCALL)
    decide = grants.approve_grant if act == "approve" else grants.review_grant
    refused = told(decide(pending["name"], DecideGrant(reason="looks right"), third, seen=seen))
    assert refused["code"] == ("already_decided" if act == "approve" else "changed")
    fresh = version_of(told(grant_queries.get_grant(pending["name"], story.planner)))
    if act == "review":
        assert told(decide(pending["name"], DecideGrant(reason="fine"), third, seen=fresh))["status"] == 200


def test_an_approval_of_what_changed_meanwhile_is_refused(story: Story) -> None:
    issued = story.grant(step="s1")  # live at once, and takes approvals
    story.approve(issued["name"])
    third = actor(Role.ONCALL)
    stale = grants.approve_grant(issued["name"], DecideGrant(reason="ok"), third, seen=version_of(issued))
    assert told(stale)["code"] == "changed"


def test_refused_acts_stand_on_the_grants_own_record_with_who_and_from_where(story: Story) -> None:
    name = story.grant(tool="wire")["name"]
    own = Caller(
        credential_id=story.oncall.credential_id,
        name=story.oncall.name,
        role=Role.ONCALL,
        person_id=story.oncall.person_id,
        person=story.oncall.person,
        address="192.0.2.7",
    )
    assert story.approve(name, by=own)["code"] == "own_grant"
    row = GrantRefusal.objects.get()
    assert (row.what, row.actor, row.role, row.source) == ("approve", own.actor, "oncall", "192.0.2.7")
    assert row.step is None


# ---- the form ----


@pytest.mark.parametrize("ttl_s", [86_401, 2**53 - 1])
def test_no_grant_lives_longer_than_any_tool_could_allow(story: Story, ttl_s: int) -> None:
    refused = story.grant(step="s1", ttl_s=ttl_s)
    assert (refused["code"], refused["pointer"]) == ("beyond_policy", "/ttl_s")


def test_lines_are_listed_by_issuer_and_state(story: Story) -> None:
    mine, theirs = story.grant(tool="refund"), story.grant(tool="send_note", by=story.oncall2)
    pending = story.grant(tool="wire")

    def listed(**filters: object) -> list[str]:
        found = grant_queries.list_grant_lines(filters, Page(limit=10))
        assert not isinstance(found, Refusal)
        return [line.body["name"] for line in found[0]]

    assert listed() == [pending["name"], theirs["name"], mine["name"]]
    assert listed(issuer=story.oncall2.person) == [theirs["name"]]
    assert listed(state="pending") == [pending["name"]]
    live = grant_queries.live_grants()
    assert (live.count, {line.body["name"] for line in live.lines}) == (2, {mine["name"], theirs["name"]})
    waiting = grant_queries.pending_grants(limit=1)
    assert (waiting.count, [line.body["name"] for line in waiting.lines]) == (1, [pending["name"]])
    story.sweep()
    assert listed(state="live") == [theirs["name"], mine["name"]]


# ---- many at once ----


def test_many_grants_are_issued_in_few_statements_and_each_is_judged_alone(story: Story) -> None:
    for number in range(60):
        story.propose(f"s{number}", tool="refund")

    def issue(names: range) -> list[Told]:
        wanted = [
            IssueGrant(
                name=f"{story.run}-{number}",
                run=story.run,
                epoch=EPOCH,
                step=f"s{number}",
                tool="refund" if number % 7 else "no_such",
                ttl_s=60,
                reason=REASON,
            )
            for number in names
        ]
        return [told(result) for result in grants.issue_grants(wanted, story.oncall)]

    with CaptureQueriesContext(connection) as few:
        issue(range(1, 4))
    with CaptureQueriesContext(connection) as many:
        answers = issue(range(4, 60))
    assert len(many) <= len(few) + 2
    assert [each.get("code") for each in answers if "code" in each] == ["unknown_tool"] * 8
    assert AuditEvent.objects.filter(verb="issue_grant", run=story.run).count() == 3 + 48
    again = issue(range(4, 60))
    assert all(each.get("duplicate") or each["code"] == "unknown_tool" for each in again)


def test_the_second_of_a_bulk_sees_the_first(story: Story) -> None:
    shared: dict[str, Any] = {"run": story.run, "epoch": EPOCH, "ttl_s": 60, "reason": REASON}
    wanted = [
        IssueGrant(name=f"{story.run}-a", tool="refund", **shared),
        IssueGrant(name=f"{story.run}-b", step="s1", tool="refund", **shared),
        IssueGrant(name=f"{story.run}-a", tool="refund", **shared),
        IssueGrant(name=f"{story.run}-a", tool="send_note", **shared),
        IssueGrant(name=f"{story.run}-c", step="s1", tool="send_note", **shared),
    ]
    answers = [told(result) for result in grants.issue_grants(wanted, story.oncall)]
    assert [each.get("code", each.get("status")) for each in answers] == [
        201,
        "grant_exists",
        200,
        "grant_conflict",
        201,
    ]
