"""The trail of a grant (G8), what it would let through, and who may do what at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fencing.models import AuditEvent, Credential, Grant, GrantRefusal, Run
from fencing.models.facts import read_clock
from fencing.protocol.errors import Refusal
from fencing.queries.authority import Authority, read_authority
from fencing.queries.preview import Preview, Wanted, read_preview
from fencing.queries.trails import Entry, What, read_trail, trail_body
from tests.factories import make_audit_event, make_grant, make_user, soon
from tests.stories import EPOCH, MAIL, NOTE, OTHER_REFUND, REFUND, Story

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(valkey: str) -> Story:
    return Story.begin()


def trail(name: str) -> list[Entry]:
    found = read_trail(name)
    assert found is not None
    return list(found.entries)


def whats(name: str) -> list[str]:
    return [entry.what.value for entry in trail(name)]


def one(name: str, what: What) -> Entry:
    (found,) = (entry for entry in trail(name) if entry.what is what)
    return found


# ---- the trail ----


def test_the_whole_life_of_a_grant_stands_on_its_trail_in_order(story: Story) -> None:
    name = story.grant(tool="wire", max_uses=2)["name"]
    story.approve(name, by=story.oncall)
    story.approve(name)
    wire = {"tool": "wire", "args": {"iban": "XX00"}}
    story.propose("s1")
    story.vote(story.production, wire, "s1")
    story.decide()
    admitted = story.admit(story.token("s1"), wire)
    story.report(admitted, "succeeded")
    story.admit(story.token("s1"), {"tool": "wire", "args": {"iban": "YY11"}})
    story.revoke(name)
    story.review(name)
    told = trail(name)
    assert [entry.what.value for entry in told] == [
        *("asked", "refused_act", "approved", "live", "used", "refused_call", "revoked", "reviewed")
    ]
    asked, refused, approved, live, used, call, revoked, reviewed = told
    assert (asked.by.split(" ")[0], asked.role) == (story.oncall.person, "oncall")
    assert refused.reason.startswith("approve: ")
    assert (approved.reason, live.by) == ("checked with finance", approved.by)
    assert used.effect is not None
    assert (used.effect.intent, used.effect.state) == (admitted["intent"], "succeeded")
    assert used.effect.left_at is not None
    assert used.step is not None
    assert (used.step.step, call.step) == ("s1", used.step)
    assert call.reason.startswith("payload_mismatch")
    assert [step.step for step in revoked.already_out] == ["s1"]
    assert (reviewed.reason, reviewed.by.split(" ")[0]) == ("it did what it should", story.reviewer.person)


def test_a_divergence_under_a_live_grant_is_a_refused_use(story: Story) -> None:
    name = story.grant(tool="refund")["name"]
    story.propose("s1")
    story.vote(story.replica, OTHER_REFUND, "s1")
    story.vote(story.production, REFUND, "s1")
    story.decide()
    entry = one(name, What.REFUSED_USE)
    assert (entry.reason, entry.by) == ("a visible divergence beats every grant", "fencer")
    assert entry.step is not None
    assert entry.step.step == "s1"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another digest": ({"tool": "refund", "digest": "sha256:" + "0" * 64}, "it is pinned to another digest"),
    "not approved": ({"step": "s1"}, "the tool asks for 2 approvals"),
    "too long": ({"step": "s1", "ttl_s": 1000}, "the tool allows grants of 900 s at most"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_use_that_does_not_fit_is_refused_with_its_reason_once(story: Story, how: str) -> None:
    scope, why = REFUSED[how]
    name = story.grant(**scope)["name"]
    action = {"tool": "wire", "args": {"iban": "XX00"}} if how == "not approved" else REFUND
    story.propose("s1")
    story.vote(story.production, action, "s1")
    story.decide()
    story.vote(story.production, action, "s1")
    story.decide()
    assert one(name, What.REFUSED_USE).reason == why
    assert GrantRefusal.objects.count() == 1


def test_a_step_beyond_the_last_use_is_refused_as_used_up(story: Story) -> None:
    name = story.grant(tool="refund")["name"]
    for step in ("s1", "s2"):
        story.propose(step, key=step)
        story.vote(story.production, REFUND, step)
        story.decide()
    assert whats(name) == ["asked", "live", "used", "refused_use"]
    assert trail(name)[-1].reason == "it is used up"


def test_what_is_about_something_else_is_no_refused_use(story: Story) -> None:
    name = story.grant(tool="send_note")["name"]
    story.propose("s1")
    story.vote(story.production, REFUND, "s1")
    story.vote(story.replica, REFUND, "s1")
    story.propose("s2", key="s2")
    story.vote(story.replica, NOTE, "s2")
    story.decide()
    assert whats(name) == ["asked", "live"]


def test_agreement_beside_a_grant_refuses_it_nothing(story: Story) -> None:
    name = story.grant(tool="refund")["name"]
    story.propose("s1")
    story.vote(story.production, REFUND, "s1")
    story.vote(story.replica, REFUND, "s1")
    story.decide()
    assert whats(name) == ["asked", "live"]


def test_votes_that_came_too_late_are_told(story: Story) -> None:
    _, name = story.go_alone("s1", key="k1")
    story.vote(story.replica, REFUND, "s1")
    story.vote(story.third, OTHER_REFUND, "s1")
    story.propose("s2", key="k2")
    story.revoke(name)
    story.vote(story.production, REFUND, "s2")
    reasons = [entry.reason for entry in trail(name) if entry.what is What.LATE_VOTE]
    assert reasons == [
        "replica voted the same after it was let through: it bears witness",
        "third voted something else after it was let through",
        "production voted after the grant was over",
    ]


def test_a_votes_source_address_is_told(story: Story) -> None:
    _, name = story.go_alone("s1")
    story.replica = type(story.replica)(**{**_members(story.replica), "address": "192.0.2.9"})
    story.vote(story.replica, REFUND, "s1")
    assert one(name, What.LATE_VOTE).source == "192.0.2.9"


def _members(caller: Any) -> dict[str, Any]:
    return {name: getattr(caller, name) for name in type(caller).__slots__}


@pytest.mark.parametrize("end", ["restart", "replay", "freeze"])
def test_why_a_grant_is_void_is_told(story: Story, end: str) -> None:
    name = story.grant(step="s1", tool="refund")["name"]
    story.propose("s1")
    story.vote(story.production, OTHER_REFUND, "s1")
    story.vote(story.replica, REFUND, "s1")
    story.decide()
    acts: dict[str, Callable[[], Any]] = {
        "restart": story.restart,
        "replay": story.replay,
        "freeze": lambda: story.freeze(tool="refund"),
    }
    acts[end]()
    words = {"restart": "its epoch was closed", "replay": "its step was replayed", "freeze": "a freeze of its scope"}
    assert one(name, What.VOIDED).reason == words[end]


def test_an_expiry_is_told_before_any_sweep_and_once_after_it(story: Story) -> None:
    name = story.grant(tool="refund", ttl_s=1)["name"]
    time.sleep(1.05)
    assert whats(name) == ["asked", "live", "expired"]
    assert one(name, What.EXPIRED).by == "the clock"
    story.sweep()
    assert whats(name) == ["asked", "live", "expired"]
    assert one(name, What.EXPIRED).by == "fencer"


def test_a_trail_is_read_in_a_bounded_number_of_statements(story: Story) -> None:
    name = story.grant(tool="refund", max_uses=30)["name"]

    def use(number: int) -> None:
        story.propose(f"s{number}", key=f"s{number}")
        story.vote(story.production, REFUND, f"s{number}")

    for number in range(2):
        use(number)
    story.decide()
    with CaptureQueriesContext(connection) as few:
        read_trail(name)
    for number in range(2, 25):
        use(number)
        story.vote(story.replica, REFUND, f"s{number}")
    story.decide()
    with CaptureQueriesContext(connection) as many:
        body = trail_body(read_trail(name))  # type: ignore[arg-type]
    assert len(many) <= len(few) + 2
    assert body["grant"]["name"] == name
    assert read_trail("no-such") is None


# ---- the preview ----


def preview(story: Story, **scope: Any) -> Preview:
    return read_preview(Wanted(run=story.run, **{"ttl_s": 60, "max_uses": 1, **scope}), story.oncall)


def test_what_would_pass_now_is_told_with_its_action_and_its_sum(story: Story) -> None:
    for step, action in (("s1", REFUND), ("s2", OTHER_REFUND), ("s3", NOTE)):
        story.propose(step, key=step)
        story.vote(story.production, action, step)
    story.propose("s4")
    story.propose("s5", tool="send_note")
    story.decide()
    found = preview(story, tool="refund", max_uses=1)
    assert [(line.step.step, line.within_uses) for line in found.passes] == [("s1", True), ("s2", False)]
    first = found.passes[0]
    assert (first.action, first.resources, first.digest) == (REFUND, ("9",), first.digest)
    assert first.amount is not None
    assert (first.amount.member, first.amount.value) == ("cents", Decimal(4200))
    (total,) = found.totals
    assert (total.tool, total.value, total.count) == ("refund", Decimal(4200), 1)
    assert [line.step.step for line in found.waits] == ["s4"]
    assert found.refusal is None
    assert not found.needs_second


def test_it_is_right_about_what_issuing_then_lets_through(story: Story) -> None:
    for number in range(4):
        story.propose(f"s{number}", key=f"k{number}")
        story.vote(story.production, REFUND if number % 2 else MAIL, f"s{number}")
    story.vote(story.replica, OTHER_REFUND, "s1")
    found = preview(story, tool="refund", max_uses=5)
    story.grant(tool="refund", max_uses=5)
    story.decide()
    committed = {f"s{number}" for number in range(4) if story.step(f"s{number}")["phase"] == "committed"}
    assert {line.step.step for line in found.passes if line.within_uses} == committed == {"s3"}
    assert {(line.step.step, line.why) for line in found.cannot} == {("s1", "a visible divergence beats every grant")}


def test_what_it_cannot_let_through_is_told_with_the_reason(story: Story) -> None:
    story.propose("diverged")
    story.vote(story.production, REFUND, "diverged")
    story.vote(story.replica, OTHER_REFUND, "diverged")
    story.agree("agreed", key="k1")
    story.decide()
    story.replay("diverged")
    story.propose("diverged", EPOCH + 1)
    story.vote(story.production, REFUND, "diverged", EPOCH + 1)
    story.propose("bare")
    story.vote(story.production, None, "bare", digest="sha256:" + "1" * 64)
    story.propose("theirs", tool="refund")
    story.vote(story.replica, REFUND, "theirs")
    why = {(line.step.step, line.step.epoch): line.why for line in preview(story, tool="refund").cannot}
    assert (
        why
        == {
            ("diverged", EPOCH): "it is rejected already (divergence)",
            ("diverged", EPOCH + 1): f"it is in epoch {EPOCH + 1}, and the grant would be for epoch {EPOCH}",
            ("bare", EPOCH): "production voted a digest alone, without its action",
            ("theirs", EPOCH): "replica voted, and it would let production act alone",
        }
        or ("agreed", EPOCH) not in why
    )


def test_a_witness_passes_with_its_exact_digest_alone(story: Story) -> None:
    story.propose("s1")
    digest = story.vote(story.replica, REFUND, "s1")["digest"]
    without = preview(story, step="s1", path="replica")
    assert without.refusal is not None
    assert without.refusal.code == "beyond_policy"
    assert [line.why for line in without.cannot] == ["a path that is not trusted acts alone only with its exact digest"]
    pinned = preview(story, step="s1", path="replica", digest=digest)
    assert (pinned.refusal, [line.step.step for line in pinned.passes]) == (None, ["s1"])


def test_the_last_hours_are_judged_by_what_was_said_within_the_grace(story: Story) -> None:
    story.propose("silent", key="k1", deadline_s=1)
    story.vote(story.production, REFUND, "silent")
    story.agree("agreed", key="k2")
    story.propose("late", key="k3")
    story.vote(story.production, REFUND, "late")
    time.sleep(1.05)
    story.vote(story.replica, OTHER_REFUND, "late")  # the tool has no grace: it would have passed by then
    story.decide()
    past = {line.step.step: line.instead for line in preview(story, tool="refund").past}
    assert past == {"silent": "timeout", "late": "divergence"}  # what agreed had no need of it


def test_a_second_person_is_told_and_who_could_be_one(story: Story) -> None:
    oncall = Group.objects.get_or_create(name="on-call")[0]
    asleep, awake = make_user(last_login=soon(-9000)), make_user(last_login=soon(-60))
    for person in (asleep, awake, User.objects.get(username=story.oncall.person)):
        person.groups.add(oncall)
    make_user(is_active=False).groups.add(oncall)
    found = preview(story, tool="wire")
    assert found.needs_second
    assert "asks for two people" in found.why_second
    names = [each.person for each in found.seconds]
    assert names[:2] == [awake.username, asleep.username]
    assert story.oncall.person not in names


def test_the_refusal_that_issuing_would_answer_is_told_beforehand(story: Story) -> None:
    assert preview(story, tool="refund").refusal is None
    standing = story.grant(tool="refund")["name"]
    exists = preview(story, tool="refund").refusal
    assert exists is not None
    assert (exists.code, exists.extras["grant"]) == ("grant_exists", standing)
    own = read_preview(Wanted(run=story.run, tool="refund", ttl_s=60), story.oncall, of=standing)
    assert own.refusal is None
    story.freeze(tool="refund")
    frozen = preview(story, tool="refund").refusal
    assert frozen is not None
    assert frozen.code == "frozen"


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        ({}, "beyond_policy"),
        ({"tool": "no_such"}, "unknown_tool"),
        ({"tool": "refund", "ttl_s": 100_000}, "beyond_policy"),
        ({"tool": "refund", "reason": "short"}, "reason_required"),
        ({"tool": "refund", "epoch": 3}, "stale_epoch"),
        ({"tool": "refund", "path": "third", "digest": "sha256:" + "0" * 64}, "beyond_policy"),
    ],
)
def test_half_a_form_is_answered_and_never_raises(story: Story, scope: dict[str, Any], code: str) -> None:
    story.propose("s1")
    refusal = preview(story, **scope).refusal
    assert refusal is not None
    assert refusal.code == code


def test_a_run_that_is_not_there_is_told(story: Story) -> None:
    refusal = read_preview(Wanted(run="no-such-run"), story.oncall).refusal
    assert refusal is not None
    assert refusal.code == "not_found"


def test_a_preview_costs_the_same_for_many_steps(story: Story) -> None:
    def fill(numbers: range) -> None:
        for number in numbers:
            story.propose(f"s{number}", key=f"s{number}")
            story.vote(story.production, REFUND, f"s{number}")

    fill(range(2))
    with CaptureQueriesContext(connection) as few:
        preview(story, tool="refund")
    fill(range(2, 40))
    with CaptureQueriesContext(connection) as many:
        found = preview(story, tool="refund")
    assert len(found.passes) == 40
    assert len(many) <= len(few)
    assert len(many) <= 16


# ---- authority ----


def authority(at: datetime | None = None) -> Authority:
    found = read_authority(at)
    assert isinstance(found, Authority)
    return found


def test_authority_tells_who_may_act_alone_now_and_at_each_moment_before(story: Story) -> None:
    moments = [read_clock()]
    name = story.grant(tool="wire", max_uses=2)["name"]
    moments.append(read_clock())
    story.approve(name)
    moments.append(read_clock())
    wire = {"tool": "wire", "args": {"iban": "XX00"}}
    story.propose("s1")
    story.vote(story.production, wire, "s1")
    story.decide()
    moments.append(read_clock())
    frozen = story.freeze(tool="wire")
    moments.append(read_clock())
    story.lift(frozen)
    moments.append(read_clock())

    def seen(at: datetime) -> tuple[list[tuple[str, int]], int]:
        found = authority(at)
        return [(each.state.value, each.uses) for each in found.grants if each.name == name], len(found.freezes)

    assert [seen(at) for at in moments] == [
        ([], 0),
        ([("pending", 0)], 0),
        ([("live", 0)], 0),
        ([("live", 1)], 0),
        ([], 1),
        ([], 0),
    ]
    (then,) = authority(moments[2]).grants
    assert (then.path, then.tool, then.issuer) == ("production", "wire", story.oncall.person)
    assert then.approved_by == (story.oncall2.person,)
    assert then.until is not None
    (freeze,) = authority(moments[4]).freezes
    assert (freeze.scope, freeze.by) == ("tool wire", story.oncall.person)


def test_a_grant_is_over_at_the_very_instant_in_the_past_as_well(story: Story) -> None:
    run = Run.objects.get(name=story.run)
    old = make_grant(run=run, tool="refund", live_at=soon(-3600), issued_at=soon(-3600), due_at=None)
    assert old.expires_at is not None
    assert old.name in {each.name for each in authority(old.expires_at - timedelta(microseconds=1)).grants}
    assert old.name not in {each.name for each in authority(old.expires_at).grants}
    assert Grant.objects.filter(pk=old.pk).exists()


def test_keys_are_told_as_they_were_with_what_bound_them(story: Story) -> None:
    key = Credential.objects.get(name=story.gateway.name)
    before = read_clock()
    Credential.objects.filter(pk=key.pk).update(tools=["refund"], expires_at=soon(3600))
    AuditEvent.objects.create(
        actor="admin",
        role="administrator",
        verb="scope_key",
        kind="key",
        subject=key.name,
        before={"tools": None, "expires_at": None},
        after={"tools": ["refund"]},
    )
    after = read_clock()
    Credential.objects.filter(pk=key.pk).update(revoked_at=read_clock())

    def told(at: datetime) -> list[tuple[Any, bool]]:
        return [(each.tools, each.until is None) for each in authority(at).keys if each.name == key.name]

    assert told(before) == [(None, True)]
    assert told(after) == [(("refund",), False)]
    assert told(read_clock()) == []
    assert told(key.created_at - timedelta(seconds=1)) == []


def test_a_persons_roles_are_told_as_the_audit_tells_them(story: Story) -> None:
    person = make_user(date_joined=soon(-3600))
    group = Group.objects.get_or_create(name="on-call")[0]
    before = read_clock()
    person.groups.add(group)
    make_audit_event(
        verb="change_roles", kind="person", subject=person.username, before={"roles": []}, after={"roles": ["on-call"]}
    )
    between = read_clock()
    User.objects.filter(pk=person.pk).update(is_active=False)
    make_audit_event(
        verb="close_person",
        kind="person",
        subject=person.username,
        before={"is_active": True},
        after={"is_active": False},
    )

    def told(at: datetime) -> list[tuple[str, ...]]:
        return [each.roles for each in authority(at).people if each.person == person.username]

    assert told(before) == []
    assert told(between) == [("on-call",)]
    assert told(read_clock()) == []


@pytest.mark.parametrize("at", ["2999-01-01T00:00:00+00:00", "0001-01-01T00:00:00+14:00", "1999-12-31T23:59:59+00:00"])
def test_a_moment_of_which_nothing_is_known_is_refused(story: Story, at: str) -> None:
    refused = read_authority(datetime.fromisoformat(at))
    assert isinstance(refused, Refusal)
    assert refused.code == "invalid_value"
