"""Short stories about what the services do together: one run, its actors, the real database, no HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from django.conf import settings
from django.db import connection
from structlog.testing import capture_logs

from fencing.models import AuditEvent, Commit, Delivery, GrantUse, Outcome, SideLogRow
from fencing.models.fields import uuid7
from fencing.protocol import tokens
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Caller
from fencing.queries import votes as vote_queries
from fencing.queries.counters import read_counters
from fencing.queries.pages import Page
from fencing.services import side_log, signing, votes
from fencing.services.requests import AcknowledgeRows, CastVote
from tests.stories import (
    EPOCH,
    MAIL,
    NOTE,
    OTHER_MAIL,
    OTHER_REFUND,
    REFUND,
    Story,
    digest,
    register,
    told,
)

pytestmark = pytest.mark.django_db
HOLD = {"tool": "hold_for_review", "args": {"invoice": 9}}


@pytest.fixture
def story(db: None) -> Story:
    """A run in epoch 7, with its actors."""
    return Story.begin()


# ---- authority, and its end ----


def test_what_was_not_sent_is_taken_back_for_the_divergence_of_meanwhile(story: Story) -> None:
    admitted = story.admit(story.agree())
    assert story.vote(story.third, OTHER_REFUND)["vote"] == "late"
    assert story.step()["phase"] == "committed"

    assert story.report(admitted, "not_sent")["state"] == "cancelled"
    step = story.step()
    assert (step["phase"], step["reason"], step["commit"]) == ("rejected", "late_divergence", None)


def test_a_shared_intent_lives_as_long_as_one_who_wants_it(story: Story) -> None:
    first, grant = story.go_alone("s1", key="pay-1")
    second = story.agree("s2", key="pay-1")
    assert story.step("s1")["intent"]["id"] == story.step("s2")["intent"]["id"]

    assert [line["step"] for line in story.revoke(grant)["stopped"]] == ["s1"]
    assert story.step("s2")["intent"]["state"] == "ready"
    assert story.admit(first)["code"] == "revoked"
    assert story.admit(second)["admit"] is True


def test_an_intent_that_nobody_wants_is_cancelled_and_used_again(story: Story) -> None:
    token, grant = story.go_alone(key="pay-1")
    intent = story.step()["intent"]
    story.revoke(grant)
    assert story.step()["intent"]["state"] == "cancelled"
    assert story.admit(token)["code"] == "revoked"

    story.replay()
    story.agree("s1", epoch=8, key="pay-1")
    assert story.step(epoch=8)["intent"] == {**intent, "state": "ready"}


def test_a_key_serves_one_effect_until_that_failed(story: Story) -> None:
    def ask_with_the_same_key(step: str) -> object:
        story.propose(step, key="pay-1")
        story.vote(story.replica, OTHER_REFUND, step)
        story.vote(story.production, OTHER_REFUND, step)
        story.decide()
        return story.step(step)["reason"]

    token = story.agree("s1", key="pay-1")
    assert ask_with_the_same_key("s2") == "key_conflict"
    admitted = story.admit(token)
    assert ask_with_the_same_key("s3") == "key_conflict"
    assert story.report(admitted, "failed")["state"] == "failed"
    assert ask_with_the_same_key("s4") == "agreement"
    assert story.step("s4")["intent"]["generation"] == 2
    again = story.admit(story.token("s4"), OTHER_REFUND)
    assert again["idempotency_key"] != admitted["idempotency_key"]


def test_of_two_steps_with_one_key_in_one_batch_the_later_is_rejected(story: Story) -> None:
    for step, action in (("a", REFUND), ("b", OTHER_REFUND)):
        story.propose(step, key="pay-1")
        story.vote(story.replica, action, step)
        story.vote(story.production, action, step)
    story.decide()
    assert [story.step(step)["reason"] for step in "ab"] == ["agreement", "key_conflict"]


def test_something_unknown_goes_to_a_person_when_the_grant_behind_it_is_revoked(story: Story) -> None:
    token, grant = story.go_alone()
    admitted = story.admit(token)
    assert story.report(admitted, "unknown")["state"] == "ready"
    assert story.revoke(grant)["already_out"] == [{"step": "s1", "epoch": EPOCH, "intent": admitted["intent"]}]
    story.sweep()
    assert story.intent(admitted)["state"] == "in_doubt"
    assert story.admit(token)["code"] == "in_doubt"


def test_something_unknown_goes_to_a_person_when_the_grant_behind_it_expires(story: Story) -> None:
    token, _ = story.go_alone(ttl_s=1)
    admitted = story.admit(token)
    story.report(admitted, "unknown")
    time.sleep(1.05)
    story.sweep()
    assert story.intent(admitted)["state"] == "in_doubt"
    assert story.step()["phase"] == "committed"


def test_a_witness_takes_the_place_of_the_grant(story: Story) -> None:
    token, grant = story.go_alone()
    assert story.vote(story.replica, None, digest=digest(REFUND))["vote"] == "late"
    # Before the fencer has looked, and after.
    assert story.admit(token, OTHER_REFUND)["code"] == "payload_mismatch"
    assert story.step()["commit"]["authority"] == "grant"
    story.decide()
    commit = story.step()["commit"]
    assert (commit["authority"], commit["token"], commit["grant"]) == ("both", token, grant)
    assert story.step()["reason"] == "grant"

    assert story.revoke(grant)["stopped"] == []
    assert story.admit(token)["admit"] is True


def test_a_grant_that_expired_is_over_at_admission_before_any_sweep(story: Story) -> None:
    token, grant = story.go_alone(ttl_s=1)
    time.sleep(1.05)
    assert story.admit(token)["code"] == "grant_expired"
    assert story.step()["reason"] == "grant_expired"
    assert story.grant_state(grant) == "used_up"


def test_a_replay_voids_the_grants_of_its_step_alone(story: Story) -> None:
    names = {
        "its step": story.grant(step="s1", tool="refund_slow")["name"],
        "another step": story.grant(step="s2", tool="send_mail")["name"],
        "a tool": story.grant(tool="send_note")["name"],
    }
    story.propose()
    story.vote(story.replica)
    story.vote(story.production, OTHER_REFUND)
    story.decide()
    assert story.replay()["epoch"] == 8
    assert {scope: story.grant_state(name) for scope, name in names.items()} == {
        "its step": "void",
        "another step": "live",
        "a tool": "live",
    }


def test_a_restart_ends_the_grants_of_the_epoch_that_it_closes(story: Story) -> None:
    live, pending, used = (
        story.grant(tool="send_note")["name"],
        story.grant(tool="wire")["name"],
        story.go_alone()[1],
    )
    assert story.restart()["voided"] == sorted([live, pending])
    assert [story.grant_state(name) for name in (live, pending)] == ["void", "void"]
    assert story.step()["reason"] == "epoch_closed"
    assert story.grant_state(used) == "used_up"


def test_a_restart_leaves_what_is_out_and_never_lets_it_be_repeated(story: Story) -> None:
    token, _ = story.go_alone()
    admitted = story.admit(token)
    assert story.restart()["revoked"] == []
    assert story.report(admitted, "unknown")["state"] == "in_doubt"
    assert story.resolve(admitted, happened=False)["state"] == "cancelled"
    assert story.step()["reason"] == "epoch_closed"


def test_one_batch_takes_several_uses_of_one_grant(story: Story) -> None:
    name = story.grant(tool="refund", max_uses=3)["name"]
    for step in "abcd":
        story.propose(step, key=step)
        story.vote(story.production, step=step)
    with capture_logs() as logs:
        story.decide()
    assert not logs
    assert sorted(str(story.step(step)["phase"]) for step in "abcd") == ["committed"] * 3 + ["proposed"]
    assert GrantUse.objects.filter(grant__name=name).count() == 3


def test_a_dangerous_tool_takes_two_people_also_where_the_grant_named_no_tool(story: Story) -> None:
    name = story.grant(step="s1")["name"]
    story.propose()
    story.vote(story.production, {"tool": "wire", "args": {"cents": 1}})
    story.decide()
    assert story.step()["phase"] == "proposed"
    assert story.approve(name, by=story.oncall)["code"] == "own_grant"
    assert len(story.approve(name)["approvals"]) == 1
    story.decide()
    assert story.step()["reason"] == "grant"


# ---- what leaves, and what is known of it ----


def test_the_first_prose_that_left_is_the_one_that_is_repeated(story: Story) -> None:
    first, second = story.agree("s1", MAIL), story.agree("s2", OTHER_MAIL)
    admitted = story.admit(second, OTHER_MAIL)
    assert story.admit(first, MAIL)["code"] == "delivery_in_progress"
    story.report(admitted, "not_sent")
    other = story.admit(first, MAIL)
    assert other["idempotency_key"] == admitted["idempotency_key"]
    story.report(other, "succeeded", response={"id": 1})
    assert story.admit(second, OTHER_MAIL)["outcome"]["response"] == {"id": 1}


def test_a_lease_that_ran_out_is_closed_once_however_often_it_is_looked_at(story: Story) -> None:
    token = story.agree()
    first = story.admit(token)
    time.sleep(1.05)
    second = story.admit(token)
    assert second["delivery"] != first["delivery"]
    assert story.report(first, "succeeded")["state"] == "succeeded"
    time.sleep(1.05)
    for _ in range(3):
        story.sweep()
        assert story.admit(token)["admit"] is False
    about_second = Outcome.objects.filter(delivery_id=second["delivery"])
    assert about_second.count() <= 1, list(about_second.values("outcome", "is_effective"))


def test_a_late_failure_of_the_only_delivery_settles(story: Story) -> None:
    admitted = story.admit(story.agree())
    time.sleep(1.05)
    story.sweep()
    assert story.intent(admitted)["deliveries"][0]["outcome"] == "unknown"
    assert story.report(admitted, "failed")["state"] == "failed"
    step = story.step()
    assert (step["phase"], step["reason"], step["commit"]) == ("committed", "effect_failed", None)


def test_every_delivery_has_the_payload_of_its_commit(story: Story) -> None:
    token = story.agree("s1", MAIL)
    admitted = story.admit(token, MAIL)
    story.report(admitted, "not_sent")
    story.admit(token, MAIL)
    assert {each.payload_id for each in Delivery.objects.all()} == {digest(MAIL)}


def test_a_person_and_a_gateway_that_contradict_each_other_leave_doubt(story: Story) -> None:
    admitted = story.admit(story.agree("s1", NOTE), NOTE)
    story.report(admitted, "unknown")
    assert story.resolve(admitted, happened=False)["state"] == "ready"
    assert story.report(admitted, "succeeded")["code"] == "outcome_conflict"
    assert story.intent(admitted)["state"] == "in_doubt"
    assert story.resolve(admitted, happened=True)["state"] == "succeeded"


# ---- tokens ----


def claims_of(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def test_a_token_says_what_was_committed(story: Story) -> None:
    token = story.agree(key="pay-1")
    claims = claims_of(token)
    commit = Commit.objects.get()
    expected = {"run": story.run, "step": "s1", "epoch": 7, "tool": "refund", "dig": digest(REFUND), "key": "pay-1"}
    assert claims == expected | {
        "iss": tokens.ISSUER,
        "jti": str(commit.id),
        "iat": int(commit.committed_at.timestamp()),
        "auth": "agreement",
    }
    header = jwt.get_unverified_header(token)
    assert header["alg"] == "EdDSA"
    assert header["kid"] in signing.public_keys(signing.COMMIT)


def test_only_a_token_that_a_grant_alone_gave_ends_by_itself(story: Story) -> None:
    token, name = story.go_alone()
    claims = claims_of(token)
    assert claims["auth"] == "grant"
    expires_at = GrantUse.objects.get(grant__name=name).grant.expires_at
    assert expires_at is not None
    assert claims["exp"] == int(expires_at.timestamp())


def test_a_genuine_token_of_no_commit_opens_nothing(story: Story) -> None:
    own = claims_of(story.agree())
    stranger = tokens.Claims(**{**own, "jti": str(uuid7())})
    assert story.admit(tokens.mint(stranger, signing.signing_key()))["code"] == "unknown_commit"


def test_another_signature_over_the_claims_of_a_commit_opens_nothing(story: Story) -> None:
    token = story.agree()
    forged = tokens.Claims(**{**claims_of(token), "key": "another"})
    assert story.admit(tokens.mint(forged, signing.signing_key()))["code"] == "bad_token"
    permit = tokens.mint(tokens.Claims(**claims_of(token)), signing.signing_key(signing.PERMIT))
    assert story.admit(permit)["code"] == "bad_token"
    assert story.admit(token)["admit"] is True


def test_a_token_outlives_the_rotation_of_its_key(story: Story) -> None:
    old = story.agree("s1")
    signing.rotate_key()
    new = story.agree("s2", OTHER_REFUND)
    assert jwt.get_unverified_header(old)["kid"] != jwt.get_unverified_header(new)["kid"]
    assert {jwt.get_unverified_header(each)["kid"] for each in (old, new)} <= set(signing.public_keys())
    assert story.admit(old)["admit"] is True
    assert story.admit(new, OTHER_REFUND)["admit"] is True


# ---- votes, and what paths are asked ----


def test_of_two_votes_in_one_bulk_the_first_stays_the_first(story: Story) -> None:
    """Both have the same moment, so that only their order tells (F2, N2)."""
    for number in range(40):
        step = f"s{number}"
        story.propose(step)
        one, other = (
            CastVote(run=story.run, step=step, epoch=EPOCH, action=dict(action)) for action in (REFUND, OTHER_REFUND)
        )
        results = [told(result) for result in votes.cast_votes([one, other], story.production)]
        assert [result.get("code") for result in results] == [None, "equivocation"]
        assert story.vote(story.production, REFUND, step).get("vote") == "duplicate", f"round {number}"


def test_a_path_is_asked_although_many_steps_wait_for_others(story: Story) -> None:
    """What is not this path's to vote on must not fill its page (F10)."""
    for number in range(3):
        story.propose(f"solo{number}", tool="solo_note")
    story.propose("mine")
    asked = vote_queries.wanted(story.replica, Page(limit=2))
    assert isinstance(asked, Answer)
    items = asked.body["items"]
    assert isinstance(items, list)
    assert [(each["run"], each["step"]) for each in items] == [(story.run, "mine")]


def test_a_step_keeps_the_tools_that_it_was_proposed_under(story: Story) -> None:
    story.propose("before")
    strict = {"type": "object", "required": ["invoice", "reason"]}
    register([{"tool": "refund", "idempotent": True, "args_schema": strict, "policy": {"grace_s": 0}}])
    story.propose("after")
    for step in ("before", "after"):
        story.vote(story.replica, REFUND, step)
        story.vote(story.production, REFUND, step)
    story.decide()
    assert story.step("before")["reason"] == "agreement"
    assert story.step("after")["reason"] == "invalid_args"
    assert story.admit(story.token("before"))["admit"] is True


def test_prose_that_cannot_be_kept_blocks_nothing(story: Story) -> None:
    """C7: the loss of cold prose never blocks a decision. The folder is a file here, as on a disk that went wrong."""
    folder = settings.FENCE_DATA / "cold"
    aside = settings.FENCE_DATA / "cold.aside"
    if folder.exists():
        folder.rename(aside)
    folder.write_text("")
    try:
        story.propose(context={"ticket": "SUP-1"})
        assert story.vote(story.replica, rationale="because")["vote"] == "recorded"
        assert story.vote(story.production)["vote"] == "recorded"
        story.decide()
        assert story.step()["phase"] == "committed"
    finally:
        folder.unlink()
        if aside.exists():
            aside.rename(folder)


# ---- traces ----


def refusals(story: Story) -> dict[str, Callable[[], dict[str, Any]]]:
    """One refusal of every service."""
    nobody = {"intent": str(uuid7()), "delivery": str(uuid7())}
    return {
        "not_your_run": lambda: story.propose(by=stranger(story.planner)),
        "stale_epoch": lambda: story.propose(epoch=EPOCH - 1),
        "future_epoch": lambda: story.vote(story.production, epoch=EPOCH + 1),
        "unknown_step": lambda: story.vote(story.production, step="never"),
        "equivocation": lambda: story.vote(story.production, OTHER_REFUND),
        "unknown_tool": lambda: story.propose("odd", tool="format_disk"),
        "not_rejected": story.replay,
        "beyond_policy": lambda: story.grant(tool="refund", ttl_s=10_000),
        "reason_required": lambda: story.grant(tool="refund", reason="short"),
        "no_token": lambda: story.admit(None),
        "bad_token": lambda: story.admit("x"),
        "not_committed": lambda: story.admit(None, run=story.run, step="s1"),
        "not_found": lambda: story.report(nobody, "succeeded"),
    }


def stranger(planner: Caller) -> Caller:
    return Caller(credential_id=planner.credential_id, name="stranger", role=planner.role, group="another")


def test_every_refusal_leaves_one_row_of_its_reason(story: Story) -> None:
    story.propose()
    story.vote(story.production)
    for code, refuse in refusals(story).items():
        before = SideLogRow.objects.count()
        assert refuse()["code"] == code
        rows = SideLogRow.objects.order_by("-recorded_at", "-id")
        assert rows.count() == before + 1, code
        assert rows[0].reason == code


def test_to_acknowledge_what_is_not_there_leaves_a_trace(story: Story) -> None:
    request = AcknowledgeRows(ids=(str(uuid7()),), reason="seen")
    assert told(side_log.acknowledge(request, story.oncall))["code"] == "not_found"
    assert SideLogRow.objects.filter(reason="not_found").count() == 1


def test_the_counters_count_each_thing_once(story: Story) -> None:
    before = read_counters()
    token = story.agree("s1")
    story.vote(story.production, step="s1")
    story.admit(None)
    story.admit(token, OTHER_REFUND)
    admitted = story.admit(token)
    story.admit(token)
    story.report(admitted, "not_sent")
    again = story.admit(token)
    story.report(again, "succeeded")
    story.report(again, "succeeded")
    story.propose("s2", epoch=EPOCH - 1)
    story.vote(story.production, step="never")
    after = read_counters()

    def grown(name: str) -> object:
        old, new = before[name], after[name]
        if isinstance(new, dict):
            return new["n"] - old["n"], new["of"] - old["of"]
        return new - old

    assert {name: grown(name) for name in after} == {
        "i1_divergent_commits": (0, 1),
        "i2_landed_escapes": (0, 0),
        # Of six attempts at admission two were without authority; one only had to wait.
        "i2_attempted_escapes": (2, 5),
        "i3_wrong_effects": (0, 1),
        "i4_mixed_grades": (0, 0),
        "i5_untraced_inputs": (0, 0),
        "i6_undetected_edits": (0, 0),
        "correlated_agreements": (0, 1),
        "retries": 1,
        "duplicates": 2,
        "refusals": 2,
        "stale_rejects": 1,
        "superseded_fragments": 0,
        "attempted_escapes": 2,
        "landed_escapes": 0,
        "zombie_spend": 0,
        "repeated_admissions": 0,
        "exempt_admissions": 0,
        "unauthenticated": 0,
        "unacknowledged": 5,
        "undecided_steps": 0,
        "unsettled_intents": 0,
    }


def test_neither_audit_nor_side_log_holds_a_token_or_a_payload(story: Story) -> None:
    secret = {"tool": "refund", "args": {"iban": "DE-very-secret", "cents": 1}}
    token = story.agree("s1", secret)
    story.admit(token, {**secret, "args": {"iban": "DE-very-secret", "cents": 2}})
    story.report(story.admit(token, secret), "succeeded", response={"iban": "DE-very-secret"})
    with connection.cursor() as cursor:
        for table in ("fencing_auditevent", "fencing_sidelogrow", "fencing_feedevent"):
            cursor.execute(f"SELECT coalesce(jsonb_agg(to_jsonb(t))::text, '') FROM {table} AS t")  # noqa: S608
            (text,) = cursor.fetchone()
            assert text, table
            assert "very-secret" not in text, table
            assert token not in text, table


def test_every_act_is_in_the_audit_with_its_actor(story: Story) -> None:
    token, grant = story.go_alone()
    admitted = story.admit(token)
    story.report(admitted, "unknown")
    story.revoke(grant)
    story.restart()
    verbs = {event.verb: event for event in AuditEvent.objects.filter(run=story.run)}
    assert {
        "open_run",
        "propose_step",
        "vote",
        "issue_grant",
        "use_grant",
        "move_step",
        "commit_step",
        "open_intent",
        "move_intent",
        "admit",
        "record_outcome",
        "revoke_grant",
        "restart_run",
    } <= verbs.keys()
    assert verbs["vote"].actor == story.production.name
    assert str(story.oncall.person) in verbs["revoke_grant"].actor
    assert json.dumps(verbs["revoke_grant"].after).count(admitted["intent"]) == 1
