"""Faults that people reported of approvals and break-glass (kind f). Those that a page would show stand with the pages.

Where the reports ask for what the protocol decides otherwise, the protocol decides, and the test says so.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pytest
from django.db import DatabaseError, connection

from fencing.models import (
    AuditEvent,
    Commit,
    Delivery,
    Grant,
    GrantApproval,
    SideLogRow,
    ToolVersion,
    Vote,
)
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.explain.wording import spelt
from fencing.protocol.grants import version_of
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.queries import grants as grant_queries
from fencing.queries.pages import Page
from fencing.queries.trails import What, read_trail
from fencing.services import grants, writes
from fencing.services.requests import DecideGrant
from tests.cases.acting import Tool, attempt
from tests.cases.reports import check_coverage
from tests.fencing.beside import at_once, connect_as
from tests.fencing.breaking import forbidden, refused
from tests.playing import Player, fresh_names
from tests.stories import EPOCH, MAIL, OTHER_MAIL, REFUND, Action, Story, Told, actor, register, told

IDS: Final = tuple(f"F{number:02}" for number in range(1, 19))
ELSEWHERE: Final[Mapping[str, str]] = {
    "F15": "the chain of seals (U2, U3) has tests of its own where it is built; rows here cannot be changed at all",
}
WIRE: Final[Action] = {"tool": "wire", "args": {"iban": "XX00", "cents": 100}}


def read(name: str) -> Told:
    """A grant as anybody reads it now."""
    return told(grant_queries.get_grant(name, Caller(credential_id=None, name="auditor", role=Role.AUDITOR)))


# ---- F01, F02: what has an end, has it when it is asked ----


def test_f01_what_is_over_is_neither_approved_nor_used_with_no_sweeper_running(story: Story) -> None:
    name = story.grant(tool="refund", ttl_s=1)["name"]
    time.sleep(1.05)
    story.propose()
    story.vote(story.production)
    story.decide()
    assert story.step()["phase"] == "proposed"
    assert (read(name)["state"], story.approve(name)["code"]) == ("expired", "already_decided")
    found = grant_queries.list_grants({"state": "expired"}, Page(limit=10), story.oncall)
    assert not isinstance(found, Refusal)
    assert [each["name"] for each in found[0]] == [name]
    assert Grant.objects.get(name=name).expired_at is None  # nobody has written it down yet


def test_f02_what_a_grant_let_through_ends_with_it(story: Story, tool: Tool) -> None:
    token, _ = story.go_alone(ttl_s=1)
    time.sleep(1.05)
    assert attempt(story, token, REFUND, tool)["code"] == "grant_expired"
    assert tool.calls == []
    story.sweep()
    assert attempt(story, token, REFUND, tool)["code"] == "grant_expired"
    assert (story.step()["phase"], story.step()["commit"]) == ("rejected", None)


def test_f02_agreement_is_no_approval_that_could_go_stale(story: Story, tool: Tool) -> None:
    """G5: authority by agreement lasts, until somebody takes it back; then at once."""
    token = story.agree()
    assert attempt(story, token, REFUND, tool)["admit"] is True


# ---- F03, F10, F12: who approves what ----


@pytest.mark.parametrize("cents", [1, 1500, 10_000_000])
def test_f03_nobody_approves_what_they_asked_for_at_any_amount(story: Story, cents: int) -> None:
    name = story.grant(tool="wire")["name"]
    story.propose()
    story.vote(story.production, {"tool": "wire", "args": {"cents": cents}})
    assert story.approve(name, by=story.oncall)["code"] == "own_grant"
    story.decide()
    assert (story.step()["phase"], read(name)["state"]) == ("proposed", "pending")
    assert SideLogRow.objects.filter(kind="grant", reason="own_grant", by=story.oncall.credential_id).count() == 1
    assert story.revoke(name, by=story.oncall)["state"] == "revoked"  # to take it back is allowed
    trail = read_trail(name)
    assert trail is not None
    whats = [entry.what for entry in trail.entries]
    assert whats == [What.ASKED, What.REFUSED_ACT, What.REFUSED_USE, What.REVOKED]
    assert trail.entries[2].reason == "it is pending"


def test_f03_nobody_reviews_their_own_break_glass(story: Story) -> None:
    _, name = story.go_alone()
    assert story.review(name, by=story.oncall)["code"] == "own_grant"
    with connect_as("fence_owner") as owner, refused(owner, by="grant_reviewed_by_another"):
        owner.execute(
            "INSERT INTO fencing_grantreview (id, grant_id, person_id, reason)"
            " SELECT gen_random_uuid(), id, issuer_id, 'mine' FROM fencing_grant"
        )


def test_f10_a_quorum_is_of_the_right_people_on_the_right_thing_each_once(player: Player) -> None:
    """One and the same person counts once, somebody who is not on call does not, and neither does another grant."""
    names = fresh_names()
    grant = {"run": "${run}", "epoch": 1, "ttl_s": 60, "reason": "replica host is down since 02:10", "step": "s1"}
    other = {**grant, "name": "${grant}-other", "step": "s2", "tool": "wire_transfer"}
    yes = {"reason": "checked with finance"}
    waits = {
        "as": "planner",
        "call": "GET /runs/${run}/steps/s1",
        "expect": {"body": {"phase": "proposed", "commit": {"$null": True}}},
    }
    place = {"run": "${run}", "step": "s1", "epoch": 1}
    action = {"tool": "wire_transfer", "args": {"iban": "XX00", "cents": 100}}
    approve = "POST /grants/${grant}/approve"
    steps: list[dict[str, Any]] = [
        {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
        {"as": "planner", "call": "POST /steps", "body": place},
        {"as": "production", "call": "POST /votes", "body": {**place, "action": action}},
        {"as": "oncall", "call": "POST /grants", "body": {**grant, "name": "${grant}", "tool": "wire_transfer"}},
        {"as": "oncall", "call": "POST /grants", "body": other},
        {"as": "oncall", "call": approve, "body": yes, "expect": {"status": 403, "body": {"code": "own_grant"}}},
        {"as": "oncall", "call": approve, "body": yes, "expect": {"status": 403}},
        {"as": "reviewer", "call": approve, "body": yes, "expect": {"status": 403, "body": {"code": "forbidden_role"}}},
        {"as": "oncall2", "call": "POST /grants/${grant}-other/approve", "body": yes, "expect": {"status": 200}},
        {"sleep": 0.3},
        waits,
        {"as": "oncall2", "call": approve, "body": yes, "expect": {"status": 200, "body": {"state": "live"}}},
        {
            "as": "planner",
            "call": "GET /runs/${run}/steps/s1",
            "expect": {"body": {"phase": "committed", "commit": {"token": {"$any": True}}}},
            "within": 8,
        },
    ]
    player.play_steps(steps, names)


def test_f12_an_approval_is_for_one_grant_and_never_for_the_next_that_waits(story: Story) -> None:
    first, second = story.grant(step="s1", tool="wire")["name"], story.grant(step="s2", tool="wire")["name"]
    for step in ("s1", "s2"):
        story.propose(step, key=step)
        story.vote(story.production, WIRE, step)
    story.approve(first)
    story.approve(first)
    story.decide()
    assert (story.step("s1")["phase"], story.step("s2")["phase"]) == ("committed", "proposed")
    assert (read(second)["state"], read(second)["approvals"]) == ("pending", [])
    crossed = story.admit(story.token("s1"), WIRE, run=story.run, step="s2", epoch=EPOCH)
    assert crossed["code"] in {"not_committed", "bad_token"}
    assert not Delivery.objects.exists()


# ---- F04, F11: twice at once ----


def test_f04_a_double_click_approves_once_and_the_second_answer_is_no_error(story: Story) -> None:
    name = story.grant(tool="wire")["name"]
    story.propose()
    story.vote(story.production, WIRE)
    first, second = at_once(*[partial(story.approve, name)] * 2)
    assert sorted([bool(first.get("duplicate")), bool(second.get("duplicate"))]) == [False, True]
    assert {first["status"], second["status"]} == {200}
    story.decide()
    assert (GrantApproval.objects.count(), Commit.objects.count()) == (1, 1)


def test_f04_a_double_click_issues_revokes_reviews_and_freezes_once(story: Story) -> None:
    issuing: Callable[[], Told] = partial(story.grant, tool="refund", name=f"{story.run}-once")
    issued = at_once(issuing, issuing)
    assert sorted(each["status"] for each in issued) == [200, 201]
    assert Grant.objects.count() == 1
    name = issued[0]["name"]
    for act in (partial(story.review, name), partial(story.revoke, name), partial(story.freeze, run=story.run)):
        done = at_once(act, act)
        assert sorted(bool(each.get("duplicate")) for each in done) == [False, True]
        assert {each["status"] for each in done} <= {200, 201}


def test_f11_a_token_is_redeemed_by_one_of_ten(story: Story, tool: Tool) -> None:
    token, _ = story.go_alone()
    answers = at_once(*[partial(attempt, story, token, REFUND, tool)] * 10)
    ends = Counter("admitted" if answer.get("admit") else answer["code"] for answer in answers)
    assert ends == {"admitted": 1, "delivery_in_progress": 9}
    assert len(tool.calls) == 1


# ---- F05: revoked is revoked everywhere ----


def test_f05_a_revoked_grant_lets_nothing_through_in_any_process_and_tells_what_had_started(player: Player) -> None:
    names = fresh_names()
    refund = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
    grant = {"name": "${grant}", "run": "${run}", "epoch": 1, "ttl_s": 60, "tool": "refund", "max_uses": 2}
    steps: list[dict[str, Any]] = [
        {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
        {"as": "oncall", "call": "POST /grants", "body": {**grant, "reason": "replica host is down since 02:10"}},
    ]
    for step in ("s1", "s2"):
        place = {"run": "${run}", "step": step, "epoch": 1, "key": step}
        vote = {"run": "${run}", "step": step, "epoch": 1, "action": refund}
        steps += [
            {"as": "planner", "call": "POST /steps", "body": place},
            {"as": "production", "call": "POST /votes", "body": vote},
            {
                "as": "planner",
                "call": f"GET /runs/${{run}}/steps/{step}?wait=10",
                "expect": {"body": {"phase": "committed"}},
                "within": 10,
                "save": {step: "/commit/token"},
            },
        ]
    started = {"as": "gateway", "call": "POST /gateway/admissions", "body": {"token": "${s1}", "action": refund}}
    told_out = {"body": {"already_out": [{"step": "s1"}], "stopped": [{"step": "s2"}]}}
    steps += [
        {**started, "expect": {"body": {"admit": True}}},
        {
            "as": "oncall",
            "call": "POST /grants/${grant}/revoke",
            "body": {"reason": "wrong customer"},
            "expect": told_out,
        },
    ]
    player.play_steps(steps, names)
    call = {
        "as": "gateway",
        "call": "POST /gateway/admissions",
        "body": {"token": names["s2"], "action": refund},
    }
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda _: player.send(call), range(24)))
    assert {(reply.status, reply.body["code"]) for reply in replies} == {(403, "revoked")}


# ---- F06: one clock, and every moment with its zone ----


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/New_York"])
def zone(request: pytest.FixtureRequest, db: None) -> Iterator[str]:
    """The process and its database somewhere on earth."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    _move_database(request.param)
    yield str(request.param)
    _move_database(None)
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def _move_database(zone: str | None) -> None:
    """Give new sessions of this role another time zone, and begin one."""
    with connection.cursor() as cursor:
        user = connection.ops.quote_name(str(connection.settings_dict["USER"]))
        cursor.execute(f"ALTER ROLE {user} " + ("RESET TimeZone" if zone is None else f"SET TimeZone = '{zone}'"))
    connection.close()


@pytest.mark.usefixtures("zone")
def test_f06_a_grant_ends_at_the_same_instant_on_every_host(story: Story) -> None:
    issued = story.grant(tool="refund", ttl_s=60)
    row = Grant.objects.get(name=issued["name"])
    assert row.expires_at is not None
    assert (row.expires_at - row.issued_at).total_seconds() == 60
    assert issued["expires_at"].endswith("Z")
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM fencing_grant")
        ((left,),) = cursor.fetchall()
    assert 55 < float(left) <= 60
    assert issued["state"] == "live"


def test_f06_a_moment_without_a_zone_is_refused(player: Player) -> None:
    """The report asks for 400; the protocol says 422 of a value that is wrong (C3)."""
    naive = player.send({"as": "auditor", "call": "GET /authority?at=2026-01-01T00:00:00"})
    assert (naive.status, naive.body["code"]) == (422, "invalid_value")
    zoned = player.send({"as": "auditor", "call": "GET /authority?at=2026-11-01T00:00:00-03:00"})
    assert (zoned.status, zoned.body["at"]) == (200, "2026-11-01T03:00:00.000000Z")


# ---- F07: who only looks decides nothing ----


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("key", [True, False], ids=["with a key", "as a scanner"])
def test_f07_following_a_link_decides_nothing(player: Player, method: str, *, key: bool) -> None:
    names = fresh_names()
    grant = {"name": "${grant}", "run": "${run}", "epoch": 1, "ttl_s": 60, "tool": "wire_transfer"}
    steps: list[dict[str, Any]] = [
        {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
        {"as": "oncall", "call": "POST /grants", "body": {**grant, "reason": "replica host is down since 02:10"}},
        {
            "as": "oncall",
            "call": "POST /freezes",
            "body": {"scope": {"run": "${run}"}, "reason": "x"},
            "save": {"f": "/id"},
        },
    ]
    player.play_steps(steps, names)
    who = {"as": "oncall2"} if key else {}
    links = [f"/grants/{names['grant']}/{act}" for act in ("approve", "revoke", "review")]
    for link in [*links, f"/freezes/{names['f']}/lift"]:
        assert player.send({**who, "call": f"{method} {link}"}).status in {401, 404, 405}
    after = player.send({"as": "auditor", "call": f"GET /grants/{names['grant']}"}).body
    assert (after["approvals"], after["review"], after["state"]) == ([], None, "void")
    standing = player.send({"as": "auditor", "call": f"GET /freezes/{names['f']}"}).body
    assert standing["lifted"] is None
    lift = {"as": "oncall2", "call": f"POST /freezes/{names['f']}/lift", "body": {"reason": "fine"}}
    assert player.send(lift).status == 200  # the link stays usable


# ---- F08, F09, F13, F16: what is done is what was seen ----


def test_f08_what_runs_is_what_was_voted_file_digest_and_tool_included(story: Story, tool: Tool) -> None:
    script: Action = {"tool": "refund", "args": {"file": "deploy.sh", "sha256": "aa"}}
    token, _ = story.go_alone("s1", script)
    rewritten: Action = {"tool": "refund", "args": {"file": "deploy.sh", "sha256": "bb"}}
    as_root: Action = {"tool": "refund_slow", "args": {"file": "deploy.sh", "sha256": "aa"}}
    assert attempt(story, token, rewritten, tool)["code"] == "payload_mismatch"
    assert attempt(story, token, as_root, tool)["code"] == "payload_mismatch"
    assert tool.calls == []
    assert attempt(story, token, script, tool)["admit"] is True


def test_f09_arguments_that_are_rewritten_after_the_vote_are_other_arguments(story: Story, tool: Tool) -> None:
    token = story.agree("s1", MAIL, key="k")
    everybody: Action = {"tool": "send_mail", "args": {"to": "all@example.org", "body": "one"}}
    assert attempt(story, token, everybody, tool)["code"] == "payload_mismatch"
    assert attempt(story, token, OTHER_MAIL, tool)["code"] == "payload_mismatch"  # also where only prose changed
    assert attempt(story, token, MAIL, tool)["admit"] is True


def test_f13_look_alike_text_is_another_text_and_is_spelt_for_people(story: Story) -> None:
    latin: Action = {"tool": "refund", "args": {"url": "https://apple.example/x", "note": "safe"}}
    for number, args in enumerate(
        (
            {"url": "https://\u0430pple.example/x", "note": "safe"},
            {"url": "https://apple.example/x", "note": "safe\u202e"},
            {"url": "https://apple.example/x", "note": "sa\u200bfe"},
        )
    ):
        step = f"s{number}"
        story.grant(step=step, tool="refund")
        story.propose(step, key=step)
        story.vote(story.production, latin, step)
        story.vote(story.replica, {"tool": "refund", "args": args}, step)
        story.decide()
        assert (story.step(step)["phase"], story.step(step)["reason"]) == ("rejected", "divergence")
    assert spelt("rm -rf /tmp/\u200bimportant safe\u202egpj.exe") == "rm -rf /tmp/[U+200B]important safe[U+202E]gpj.exe"


@pytest.mark.parametrize("reason", ["\u200b" * 20, "\u3164" * 12, "a\u202e" * 9])
def test_f13_a_reason_that_cannot_be_seen_is_none(story: Story, reason: str) -> None:
    assert story.grant(tool="refund", reason=reason)["code"] == "reason_required"


def test_f16_nothing_can_be_added_to_what_was_approved(story: Story) -> None:
    pending = story.grant(tool="wire", max_uses=1)
    seen = version_of(pending)
    widened = story.grant(tool="wire", max_uses=50, name=pending["name"])
    assert widened["code"] == "grant_conflict"  # no grant is ever edited
    story.approve(pending["name"])
    stale = grants.approve_grant(pending["name"], DecideGrant(reason="as I saw it"), actor(Role.ONCALL), seen=seen)
    assert told(stale)["code"] == "already_decided"
    story.revoke(pending["name"])
    other = story.grant(step="s9")
    story.approve(other["name"])
    changed = grants.approve_grant(
        other["name"], DecideGrant(reason="as I saw it"), actor(Role.ONCALL), seen=version_of(other)
    )
    assert told(changed)["code"] == "changed"


def test_f16_a_proposal_is_not_edited_under_its_votes(story: Story) -> None:
    story.propose("s1", tool="refund")
    story.vote(story.production, REFUND, "s1")
    assert story.propose("s1", tool="send_mail")["code"] == "step_conflict"
    assert Vote.objects.count() == 1


# ---- F14: break-glass leaves a trail, and somebody owes a look at it ----


def test_f14_the_audit_has_its_beginning_each_use_with_its_digest_and_its_end(story: Story) -> None:
    token, name = story.go_alone(ttl_s=2)
    admitted = story.admit(token)
    story.report(admitted, "succeeded")
    time.sleep(2.05)
    story.sweep()
    verbs = list(AuditEvent.objects.filter(kind="grant", subject=name).order_by("id").values_list("verb", flat=True))
    assert verbs == ["issue_grant", "use_grant", "expire_grant"]
    commit: Any = AuditEvent.objects.get(verb="commit_step").after
    assert commit["payload_digest"] == Commit.objects.get().payload_id
    assert commit["grant"] == name
    owed = grant_queries.debts()
    assert [line.body["name"] for line in owed.lines] == [name]
    story.review(name)
    assert grant_queries.debts().count == 0


def test_f14_where_the_audit_cannot_be_written_the_call_is_not_made(
    story: Story, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, name = story.go_alone()
    insert = writes._insert  # noqa: SLF001 - the one statement behind every row

    def full(table: str, columns: Any, rows: Any) -> None:
        if table == "auditevent":
            raise DatabaseError("No space left on device")
        insert(table, columns, rows)

    monkeypatch.setattr(writes, "_insert", full)
    with pytest.raises(DatabaseError):
        attempt(story, token, REFUND, tool)
    with pytest.raises(DatabaseError):
        story.freeze(run=story.run)
    monkeypatch.undo()
    assert (tool.calls, Delivery.objects.count(), read(name)["state"]) == ([], 0, "used_up")
    assert attempt(story, token, REFUND, tool)["admit"] is True


# ---- F17, F18: nobody goes round it ----


def test_f17_a_tool_that_says_nothing_of_itself_is_taken_for_one_that_acts() -> None:
    silent = read_tool({"tool": "x"})
    assert isinstance(silent, ToolDefinition)
    assert not silent.is_read_only
    assert not silent.idempotent
    hinted = read_tool({"tool": "wallet.pay", "annotations": {"destructiveHint": False, "readOnlyHint": True}})
    assert isinstance(hinted, Refusal) or not hinted.is_read_only  # a hint never sets what it is (T2)


def test_f17_a_definition_that_changes_is_another_version_and_a_step_keeps_its_own(story: Story) -> None:
    story.propose("s1", tool="refund")
    register([{"tool": "refund", "idempotent": True, "args_schema": {"type": "object", "required": ["order"]}}])
    assert ToolVersion.objects.filter(tool="refund").count() == 2
    story.vote(story.production, REFUND, "s1")
    story.vote(story.replica, REFUND, "s1")
    story.decide()
    assert story.step("s1")["phase"] == "committed"
    assert story.propose("s2", action=dict(REFUND))["code"] == "invalid_args"


def test_f18_a_process_that_calls_by_itself_gets_nothing(player: Player) -> None:
    names = fresh_names()
    action = {"tool": "refund", "args": {"invoice": 9, "cents": 1}}
    place = {"run": "${run}", "step": "s1", "epoch": 1}
    body = {"action": action}
    gate = "POST /gateway/admissions"
    player.play_steps(
        [
            {"call": gate, "body": body, "expect": {"status": 401}},
            {"as": "planner", "call": gate, "body": body, "expect": {"status": 403}},
            {"as": "gateway", "call": gate, "body": body, "expect": {"status": 403, "body": {"code": "no_token"}}},
            {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
            {"as": "planner", "call": "POST /steps", "body": place},
            {
                "as": "gateway",
                "call": gate,
                "body": {**body, **place},
                "expect": {"status": 403, "body": {"code": "not_committed"}},
            },
            {
                "as": "gateway",
                "call": gate,
                "body": {**body, "token": "forged"},
                "expect": {"status": 403, "body": {"code": "bad_token"}},
            },
        ],
        names,
    )


def test_f18_a_row_that_is_typed_in_commits_and_delivers_nothing(story: Story) -> None:
    story.propose()
    story.vote(story.production)
    with connect_as("fence_app") as app, forbidden(app):
        app.execute("INSERT INTO fencing_commit (id) VALUES (gen_random_uuid())")
    with connect_as("fence_app") as app, refused(app, by="delivery_of_its_intent"):
        app.execute(
            "INSERT INTO fencing_delivery (id, run_id, intent_id, number, commit_id, payload_id, idempotency_key,"
            " lease_until, by_id) SELECT gen_random_uuid(), r.id, gen_random_uuid(), 1, gen_random_uuid(), 'x', 'x',"
            " clock_timestamp(), r.owner_id FROM fencing_run r LIMIT 1"
        )
    assert not Delivery.objects.exists()


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "f", IDS, ELSEWHERE)
