"""Freezes (L10): what they stop, what they tell, and who lifts them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from fencing.models import AuditEvent, Freeze, SideLogRow
from fencing.protocol.errors import Refusal
from fencing.queries import freezes as freeze_queries
from fencing.queries import gateway as gateway_queries
from fencing.queries.counters import read_counters
from fencing.queries.pages import Page
from fencing.services import freezes
from fencing.services.requests import DecideGrant, FreezeScope, SetFreeze
from tests.stories import EPOCH, NOTE, REFUND, Story, Told, told

pytestmark = pytest.mark.django_db

LOOK_UP = {"tool": "look_up", "args": {"invoice": 9}}


@pytest.fixture
def story(valkey: str) -> Story:
    return Story.begin()


def freeze_of(story: Story, scope: dict[str, str], run: str | None = None) -> Told:
    """Freeze a tool, and where the scope names a run, the story's own or another."""
    members: Any = {name: (run or story.run) if name == "run" else value for name, value in scope.items()}
    return story.freeze(**members)


def places(lines: list[Told]) -> list[tuple[str, str]]:
    return [(line["run"], line["step"]) for line in lines]


# ---- what it stops ----


@pytest.mark.parametrize("scope", ["run", "tool", "both", "everything"])
def test_a_freeze_stops_what_has_not_left_and_says_so(story: Story, scope: str) -> None:
    token = story.agree()
    given = {"run": {"run": ""}, "tool": {"tool": "refund"}, "both": {"run": "", "tool": "refund"}}
    frozen = freeze_of(story, given.get(scope, {}))
    assert frozen["status"] == 201
    assert frozen["stopped"] == [
        {"run": story.run, "step": "s1", "epoch": EPOCH, "intent": frozen["stopped"][0]["intent"]}
    ]
    assert frozen["already_out"] == []
    refused = story.admit(token)
    assert (refused["code"], refused["freeze"]) == ("frozen", frozen["id"])
    assert story.step()["phase"] == "committed"  # it stands, and leaves once the freeze is lifted
    assert story.lift(frozen)["status"] == 200
    assert story.admit(token)["admit"] is True


@pytest.mark.parametrize("scope", [{"tool": "send_note"}, {"run": "another"}, {"tool": "refund", "run": "another"}])
def test_a_freeze_of_something_else_stops_nothing(story: Story, scope: dict[str, str]) -> None:
    token = story.agree()
    other = Story()
    other.open()
    frozen = freeze_of(story, scope, run=other.run)
    assert (frozen["status"], frozen["stopped"]) == (201, [])
    assert story.admit(token)["admit"] is True


def test_what_is_out_is_told_and_may_still_be_reported(story: Story) -> None:
    admitted = story.admit(story.agree("s1", key="k1"))
    done = story.admit(story.agree("s2", key="k2"))
    assert story.report(done, "succeeded")["state"] == "succeeded"
    waiting = story.agree("s3", key="k3")
    frozen = story.freeze(run=story.run)
    assert places(frozen["stopped"]) == [(story.run, "s3")]
    assert sorted(places(frozen["already_out"])) == [(story.run, "s1"), (story.run, "s2")]
    assert story.report(admitted, "succeeded")["state"] == "succeeded"
    assert story.admit(waiting)["code"] == "frozen"


def test_a_try_that_is_unknown_is_out_and_is_not_repeated_while_it_is_frozen(story: Story) -> None:
    token = story.agree()
    admitted = story.admit(token)
    assert story.report(admitted, "unknown")["state"] == "ready"
    frozen = story.freeze(tool="refund")
    assert (frozen["stopped"], places(frozen["already_out"])) == ([], [(story.run, "s1")])
    assert story.admit(token)["code"] == "frozen"


def test_a_freeze_of_everything_tells_of_every_run(story: Story) -> None:
    other = Story()
    other.open()
    story.agree("s1", key="k1")
    other.agree("s1", NOTE, key="k1")
    frozen = story.freeze()
    assert sorted(places(frozen["stopped"])) == sorted([(story.run, "s1"), (other.run, "s1")])
    assert frozen["scope"] == {"tool": None, "run": None}


def test_long_lists_are_cut_and_what_is_left_out_is_counted(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezes, "MOST_LINES", 2)
    for number in range(5):
        story.agree(f"s{number}", key=f"k{number}")
    frozen = story.freeze()
    assert len(frozen["stopped"]) == 2
    assert frozen["more"] == {"stopped": 3, "already_out": 0}


def test_what_only_reads_is_frozen_too(story: Story) -> None:
    assert story.admit(None, LOOK_UP)["exempt"] is True
    frozen = story.freeze(tool="look_up")
    assert story.admit(None, LOOK_UP)["code"] == "frozen"
    story.lift(frozen)
    in_run = story.freeze(run=story.run)
    assert story.admit(None, LOOK_UP)["exempt"] is True  # a call that names no run lies in none
    assert story.admit(None, LOOK_UP, run=story.run)["code"] == "frozen"
    story.lift(in_run)
    story.freeze()
    assert story.admit(None, LOOK_UP)["code"] == "frozen"


def test_a_frozen_call_is_an_attempted_escape_and_stands_in_the_side_log(story: Story) -> None:
    token = story.agree()
    story.freeze(tool="refund")
    story.admit(token)
    row = SideLogRow.objects.get(reason="frozen")
    assert (row.kind, row.run, row.step, row.epoch, row.tool) == ("admission", story.run, "s1", EPOCH, "refund")
    assert read_counters()["attempted_escapes"] == 1


def test_a_payload_that_is_not_the_committed_one_is_told_before_the_freeze(story: Story) -> None:
    token = story.agree()
    story.freeze(tool="refund")
    assert story.admit(token, {"tool": "refund", "args": {"invoice": 9, "cents": 1}})["code"] == "payload_mismatch"


def test_a_pull_gateway_is_not_offered_what_is_frozen(story: Story) -> None:
    story.agree("s1", key="k1")
    story.agree("s2", NOTE, key="k2")

    def offered() -> list[str]:
        items = told(gateway_queries.wanted(None, story.gateway))["items"]
        return sorted(item["action"]["tool"] for item in items)

    assert offered() == ["refund", "send_note"]
    of_tool = story.freeze(tool="refund")
    assert offered() == ["send_note"]
    of_run = story.freeze(run=story.run)
    assert offered() == []
    story.lift(of_tool)
    story.lift(of_run)
    assert offered() == ["refund", "send_note"]
    story.freeze()
    assert offered() == []


# ---- grants of its scope ----


def test_grants_of_the_scope_are_void_and_what_rests_on_them_is_taken_back(story: Story) -> None:
    token, name = story.go_alone()
    second = story.grant(tool="refund")["name"]  # the first is used up
    frozen = story.freeze(tool="refund")
    assert frozen["voided"] == sorted([name, second])
    assert places(frozen["stopped"]) == [(story.run, "s1")]
    assert (story.grant_state(name), story.grant_state(second)) == ("void", "void")
    assert (story.step()["phase"], story.step()["reason"]) == ("rejected", "grant_revoked")
    assert story.admit(token)["code"] == "revoked"
    story.lift(frozen)
    assert story.admit(token)["code"] == "revoked"  # a freeze that is lifted gives nothing back
    assert story.grant_state(name) == "void"


def test_a_commit_under_a_grant_that_is_out_stays_out(story: Story) -> None:
    token, name = story.go_alone()
    admitted = story.admit(token)
    frozen = story.freeze(run=story.run)
    assert (frozen["stopped"], frozen["voided"]) == ([], [name])
    assert [line["intent"] for line in frozen["already_out"]] == [admitted["intent"]]
    assert story.report(admitted, "succeeded")["state"] == "succeeded"


def test_a_fenced_step_falls_back_and_a_pending_grant_ends(story: Story) -> None:
    slow = {"tool": "refund_slow", "args": {"invoice": 9}}
    fencing = story.grant(tool="refund_slow")["name"]
    pending = story.grant(tool="wire")["name"]
    story.propose("s1", tool="refund_slow")
    story.vote(story.production, slow, "s1")
    story.decide()
    assert story.step("s1")["phase"] == "fenced"
    frozen = story.freeze()
    assert frozen["voided"] == sorted([fencing, pending])
    assert (places(frozen["stopped"]), frozen["stopped"][0]["intent"]) == ([(story.run, "s1")], None)
    assert story.step("s1")["phase"] == "proposed"
    assert story.approve(pending)["code"] == "already_decided"


def test_a_grant_for_another_tool_lives_on(story: Story) -> None:
    other = story.grant(tool="send_note")["name"]
    story.propose("s1", tool="send_note")
    by_step = story.grant(step="s1", path="production", name=f"{other}-s", tool=None, epoch=EPOCH)
    assert by_step["code"] == "grant_exists"
    story.propose("s2", tool="send_note")
    assert story.freeze(tool="refund")["voided"] == []
    assert story.grant_state(other) == "live"


@pytest.mark.parametrize(("pinned", "state"), [("refund", "void"), (None, "live"), ("send_note", "live")])
def test_a_grant_by_step_ends_where_its_step_is_known_to_be_about_the_tool(
    story: Story, pinned: str | None, state: str
) -> None:
    story.propose("s1", tool=pinned)
    name = story.grant(step="s1")["name"]
    story.freeze(tool="refund")
    assert story.grant_state(name) == state


def test_a_grant_by_step_ends_the_moment_a_vote_tells_that_it_is_about_the_frozen_tool(story: Story) -> None:
    frozen = story.freeze(tool="refund")
    names = {step: story.grant(step=step)["name"] for step in ("s1", "s2")}
    for step, action in (("s1", REFUND), ("s2", NOTE)):
        story.propose(step)
        story.vote(story.production, action, step)
    story.decide()
    assert (story.grant_state(names["s1"]), story.step("s1")["phase"]) == ("void", "proposed")
    assert (story.grant_state(names["s2"]), story.step("s2")["phase"]) == ("used_up", "committed")
    assert AuditEvent.objects.get(verb="void_grant").reason == "frozen"
    story.lift(frozen)
    story.decide()
    assert story.step("s1")["phase"] == "proposed"


@pytest.mark.parametrize("scope", [{"tool": "refund"}, {"run": "own"}, {}])
def test_nobody_issues_a_grant_into_a_freeze(story: Story, scope: dict[str, str]) -> None:
    frozen = freeze_of(story, scope)
    refused = story.grant(tool="refund")
    assert (refused["code"], refused["freeze"]) == ("frozen", frozen["id"])
    by_step = story.grant(step="s1", name=f"{story.run}-s")
    assert by_step.get("code") == (None if scope == {"tool": "refund"} else "frozen")  # nobody knows what it is about
    if "name" in by_step:
        story.revoke(by_step["name"])
    story.propose("s2", tool="refund")
    assert story.grant(step="s2")["code"] == "frozen"
    story.lift(frozen)
    assert story.grant(tool="refund")["status"] == 201


def test_agreement_goes_on_during_a_freeze_and_leaves_after_it(story: Story) -> None:
    frozen = story.freeze()
    token = story.agree()
    assert story.admit(token)["code"] == "frozen"
    story.lift(frozen)
    assert story.admit(token)["admit"] is True


# ---- who lifts it ----


def test_the_person_who_set_it_does_not_lift_it(story: Story) -> None:
    frozen = story.freeze(run=story.run)
    assert story.lift(frozen, by=story.oncall)["code"] == "own_freeze"
    assert SideLogRow.objects.filter(kind="freeze", reason="own_freeze", run=story.run).exists()
    lifted = story.lift(frozen)
    assert lifted["lifted"]["by"] == story.oncall2.person
    assert lifted["lifted"]["reason"] == "checked, it is fine"
    assert story.lift(frozen)["duplicate"] is True
    assert story.lift(frozen, by=story.oncall)["code"] == "own_freeze"


def test_a_freeze_is_lifted_with_a_reason_that_can_be_read(story: Story) -> None:
    frozen = story.freeze(run=story.run)
    lifted = told(freezes.lift_freeze(str(frozen["id"]), DecideGrant(reason=" \u200b "), story.oncall2))
    assert lifted["code"] == "reason_required"
    assert Freeze.objects.get().lifted_at is None


def test_somebody_who_comes_after_it_was_lifted_is_told_who_did(story: Story) -> None:
    frozen = story.freeze(by=story.oncall2)
    story.lift(frozen, by=story.oncall)
    third = story.lift(frozen, by=story.reviewer)  # the role is the API's affair
    assert (third["code"], third["decided_by"]) == ("already_decided", story.oncall.person)


def test_the_database_knows_it_too(story: Story) -> None:
    frozen = Freeze.objects.get(id=story.freeze()["id"])
    with pytest.raises(IntegrityError, match="freeze_lifted_by_another"), transaction.atomic():
        Freeze.objects.filter(pk=frozen.pk).update(
            lifted_at=frozen.set_at, lifted_by=frozen.set_by_id, lift_reason="mine"
        )


def test_a_second_tap_is_the_same_freeze(story: Story) -> None:
    story.agree()
    first, second = story.freeze(run=story.run), story.freeze(run=story.run)
    assert (second["status"], second["duplicate"], second["id"]) == (200, True, first["id"])
    assert second["stopped"] == first["stopped"]
    other_words = story.freeze(run=story.run, reason="still wrong")
    assert (other_words["id"], other_words["reason"]) == (first["id"], "something is very wrong")
    assert SideLogRow.objects.filter(kind="freeze", reason="conflicting_duplicate").count() == 1
    assert Freeze.objects.count() == 1


def test_two_people_freeze_the_same_and_each_lifts_the_others(story: Story) -> None:
    token = story.agree()
    mine, theirs = story.freeze(), story.freeze(by=story.oncall2)
    assert theirs["status"] == 201
    assert story.lift(mine, by=story.oncall2)["status"] == 200
    assert story.admit(token)["code"] == "frozen"
    assert story.lift(theirs, by=story.oncall)["status"] == 200
    assert story.admit(token)["admit"] is True


@pytest.mark.parametrize(
    ("scope", "reason", "code"),
    [
        ({"tool": "refnud"}, "something is very wrong", "unknown_tool"),
        ({"run": "no-such-run"}, "something is very wrong", "not_found"),
        ({"tool": "refund", "run": "no-such-run"}, "something is very wrong", "not_found"),
        ({}, " \u200b ", "reason_required"),
    ],
)
def test_a_freeze_that_would_freeze_nothing_is_refused_and_told(
    story: Story, scope: FreezeScope, reason: str, code: str
) -> None:
    result = freezes.freeze(SetFreeze(scope=scope, reason=reason), story.oncall)
    assert isinstance(result, Refusal)
    assert result.code == code
    assert not Freeze.objects.exists()
    assert SideLogRow.objects.filter(kind="freeze", reason=code).count() == 1


@pytest.mark.parametrize("freeze_id", ["no-such", "00000000-0000-0000-0000-000000000000"])
def test_what_is_not_there_is_not_lifted(story: Story, freeze_id: str) -> None:
    result = freezes.lift_freeze(freeze_id, DecideGrant(reason="fine"), story.oncall2)
    assert isinstance(result, Refusal)
    assert result.code == "not_found"


# ---- what is on record ----


def test_setting_and_lifting_are_audited_with_what_they_reached(story: Story) -> None:
    story.go_alone()
    frozen = story.freeze(run=story.run)
    story.lift(frozen)
    events = {event.verb: event for event in AuditEvent.objects.filter(kind="freeze", subject=frozen["id"])}
    assert set(events) == {"set_freeze", "lift_freeze"}
    after: Any = events["set_freeze"].after
    assert (after["run"], after["stopped"], after["already_out"], len(after["voided"])) == (story.run, 1, 0, 1)
    assert events["lift_freeze"].reason == "checked, it is fine"
    assert AuditEvent.objects.filter(verb="void_grant", reason="frozen", run=story.run).count() == 1


def test_freezes_are_listed_by_state_run_and_tool(story: Story) -> None:
    of_run, of_tool = story.freeze(run=story.run), story.freeze(tool="refund")
    story.lift(of_run)

    def listed(**filters: object) -> list[str]:
        found = freeze_queries.list_freezes(filters, Page(limit=10))
        assert not isinstance(found, Refusal)
        return [each["id"] for each in found[0]]

    assert listed() == [of_tool["id"], of_run["id"]]
    assert listed(state="standing") == [of_tool["id"]] == listed(tool="refund")
    assert listed(state="lifted") == [of_run["id"]] == listed(run=story.run)
    (standing,) = freeze_queries.live_freezes()
    assert (standing.id, standing.scope, standing.by_id) == (of_tool["id"], "tool refund", story.oncall.person_id)
    read = freeze_queries.read_freeze(of_run["id"])
    assert read is not None
    assert (read.lifted_by, read.lift_reason) == (story.oncall2.person, "checked, it is fine")
    assert freeze_queries.read_freeze("no-such") is None
