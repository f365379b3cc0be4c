"""T1: what a change of a tool would have changed, told from facts alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fencing.protocol import grants
from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.lookback import (
    OPEN,
    UNTOLD,
    Called,
    Fate,
    Issued,
    Past,
    Permit,
    Reader,
    Said,
    beyond,
    fate_of,
    replay,
)
from fencing.protocol.matching import allowance
from fencing.protocol.tools import ToolDefinition, read_tool

START = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
UNTIL = START + timedelta(days=1)
REFUND: dict[str, Any] = {"tool": "refund", "args": {"invoice": 9, "cents": 4200, "note": "sorry"}}
OTHER: dict[str, Any] = {"tool": "refund", "args": {"invoice": 9, "cents": 4200, "note": "we are sorry"}}
HOLD: dict[str, Any] = {"tool": "hold", "args": {"invoice": 9}}


def tool(**members: Any) -> ToolDefinition:
    found = read_tool({"tool": "refund", **members})
    assert isinstance(found, ToolDefinition), found
    return found


PLAIN = tool()


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def said(path: str, action: Any = REFUND, seconds: float = 1, *, alone: bool = False) -> Said:
    return Said(
        at=at(seconds),
        path=path,
        digest=None if action is None else digest_of(canonical_bytes(action)),
        action=None if alone else action,
        tool=None if alone or action is None else action["tool"],
    )


def past(*votes: Said, **members: Any) -> Past:
    facts: dict[str, Any] = {
        "run": "run-88",
        "step": "pay",
        "epoch": 7,
        "proposed_at": START,
        "own_deadline_s": None,
        "advisory": (),
        "said": tuple(sorted(votes, key=lambda vote: vote.at)),
    }
    return Past(**facts | members)


def permit(*, ttl_s: int = 900, live_s: float = 0, **members: Any) -> Permit:
    grant = grants.Grant(
        name="night-shift-3",
        epoch=7,
        step=None,
        tool="refund",
        path="production",
        digest=None,
        max_uses=1,
        uses=0,
        ttl_s=ttl_s,
        approvals=0,
        approvals_needed=0,
        pending_until=None,
        expires_at=at(live_s + ttl_s),
    )
    times = {name: members.pop(name) for name in ("approved_at", "used_at") if name in members}
    return Permit(grant=replace(grant, **members), live_at=at(live_s), **times)


AGREED = past(said("production"), said("replica", seconds=2))
DIVERGED = past(said("production"), said("replica", OTHER, 2))
ALONE = past(said("production"))
GRANTED = past(said("production"), permits=(permit(),))


def fate(facts: Past, definition: ToolDefinition = PLAIN) -> tuple[str, str]:
    found = fate_of(facts, Reader(definition), UNTIL)
    return found.phase, found.reason


# -- one step ----------------------------------------------------------------------------------------------------------


def test_a_step_is_decided_again_from_its_facts() -> None:
    assert fate(AGREED) == ("committed", "agreement")
    assert fate(DIVERGED) == ("rejected", "divergence")
    assert fate(ALONE) == ("rejected", "timeout")
    assert fate(GRANTED) == ("committed", "grant")
    assert fate(past(said("production", None), said("replica", None))) == ("rejected", "path_unavailable")


def test_facts_count_from_when_they_came() -> None:
    late = past(said("production"), said("replica", OTHER, 500))
    assert fate(late) == ("rejected", "timeout")
    granted_late = past(said("production"), permits=(permit(live_s=121),))
    assert fate(granted_late) == ("rejected", "timeout")
    assert fate(past(said("production"), said("replica", OTHER, 4), permits=(permit(),))) == ("rejected", "divergence")
    assert fate(past(said("production"), said("replica", OTHER, 7), permits=(permit(),))) == ("committed", "grant")


@pytest.mark.parametrize(
    "members",
    [
        {"revoked_at": at(3)},
        {"voided_at": at(3)},
        {"expires_at": at(3)},
        {"used_at": (at(0.5),)},
        {"tool": "hold"},
        {"epoch": 6},
    ],
)
def test_a_grant_that_was_over_or_for_something_else_let_nothing_through(members: dict[str, Any]) -> None:
    assert fate(past(said("production"), permits=(permit(**members),))) == ("rejected", "timeout")


def test_what_ended_a_grant_later_had_not_happened() -> None:
    ended = permit(revoked_at=at(30), expired_at=at(40), voided_at=at(50), used_at=(at(60),))
    assert fate(past(said("production"), permits=(ended,))) == ("committed", "grant")


def test_a_step_that_nobody_decided_yet_is_open() -> None:
    found = fate_of(ALONE, Reader(PLAIN), at(30))
    assert found == Fate(phase=OPEN)


def test_a_restart_ends_a_step_under_every_definition() -> None:
    ended = replace(AGREED, ended_at=at(1.5))
    assert fate(ended) == ("rejected", "superseded")
    assert fate(ended, tool(policy={"required_paths": ["production"]})) == ("committed", "agreement")


def test_a_planners_own_deadline_is_kept_and_the_tools_is_not() -> None:
    slow = past(said("production"), said("replica", seconds=100))
    assert fate(slow, tool(policy={"deadline_s": 50})) == ("rejected", "timeout")
    assert fate(replace(slow, own_deadline_s=110), tool(policy={"deadline_s": 50})) == ("committed", "agreement")


# -- one change --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "members", "after"),
    [
        (AGREED, {"effect": "read_only"}, ("exempt", "read_only")),
        (past(pinned_tool="refund"), {"effect": "read_only"}, ("exempt", "read_only")),
        (AGREED, {"args_schema": {"properties": {"cents": {"maximum": 100}}}}, ("rejected", "invalid_args")),
        (DIVERGED, {"advisory": ["/note"]}, ("committed", "agreement")),
        (ALONE, {"policy": {"required_paths": ["production"]}}, ("committed", "agreement")),
        (AGREED, {"policy": {"required_paths": ["production", "replica", "third"]}}, ("rejected", "timeout")),
        (GRANTED, {"policy": {"grant_approvals": 2}}, ("rejected", "timeout")),
        (GRANTED, {"policy": {"max_grant_ttl_s": 899}}, ("rejected", "timeout")),
        (GRANTED, {"policy": {"trusted_path": "replica"}}, ("rejected", "timeout")),
        (GRANTED, {"policy": {"grace_s": 1000}}, ("rejected", "timeout")),
    ],
)
def test_a_change_tells_what_it_would_have_made_of_a_step(
    facts: Past, members: dict[str, Any], after: tuple[str, str]
) -> None:
    assert fate(facts, tool(**members)) == after
    (turn,) = replay([facts], PLAIN, tool(**members), UNTIL).turns
    assert ((turn.before.phase, turn.before.reason), (turn.after.phase, turn.after.reason)) == (fate(facts), after)
    assert (turn.count, turn.samples) == (1, (("run-88", "pay", 7),))


def test_a_second_approval_counts_from_when_it_was_given() -> None:
    careful = tool(policy={"grant_approvals": 2})
    for approved_s, expected in ((119, ("committed", "grant")), (121, ("rejected", "timeout"))):
        facts = past(said("production"), permits=(permit(approved_at=(at(approved_s),)),))
        assert fate(facts, careful) == expected


def test_an_action_of_another_tool_is_read_as_it_was() -> None:
    facts = past(said("production", HOLD), said("replica", HOLD, 2))
    strict = tool(args_schema={"required": ["cents"]}, advisory=["/invoice"])
    assert fate(facts, strict) == ("committed", "agreement")


def test_a_pinned_action_that_does_not_fit_is_refused_at_once() -> None:
    facts = replace(AGREED, pinned_action=REFUND, pinned_digest=said("production").digest, pinned_tool="refund")
    assert fate(facts) == ("committed", "agreement")
    assert fate(facts, tool(args_schema={"required": ["customer"]})) == ("rejected", "invalid_args")
    assert fate(facts, tool(advisory=["/note"])) == ("committed", "agreement")


def test_digests_alone_tell_nothing_of_other_digests() -> None:
    alone = past(said("production", alone=True), said("replica", seconds=2, alone=True))
    assert fate(alone, tool(advisory=["/note"])) == (UNTOLD, "")
    assert fate(replace(alone, advisory=("/note",)), tool(advisory=["/note"])) == (OPEN, "")  # its action never came
    pinned = replace(AGREED, pinned_digest=said("production").digest)
    assert fate(pinned, tool(advisory=["/note"])) == (UNTOLD, "")
    told = replay([alone, AGREED], PLAIN, tool(advisory=["/note"]), UNTIL)
    assert (told.untold, told.turns) == (1, ())


def test_every_figure_is_of_its_own_number_of_steps() -> None:
    newer = tool(advisory=["/note"], args_schema={"properties": {"invoice": {"maximum": 8}}})
    told = replay([AGREED, DIVERGED, past(said("production", None)), GRANTED], PLAIN, newer, UNTIL)
    assert (told.steps, told.with_actions, told.misfits, told.other_digests, told.exempt) == (4, 3, 3, 3, 0)
    assert [(turn.before.reason, turn.after.reason, turn.count) for turn in told.turns] == [
        ("agreement", "invalid_args", 1),
        ("grant", "invalid_args", 1),
        ("divergence", "invalid_args", 1),
    ]


def test_the_same_action_is_read_once_for_each_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    checked = ToolDefinition.check_args

    def check(self: ToolDefinition, args: Any, **options: Any) -> Any:
        seen.append(self.digest)
        return checked(self, args, **options)

    monkeypatch.setattr(ToolDefinition, "check_args", check)
    votes = tuple(replace(each, payload=each.digest) for each in AGREED.said)
    replay([replace(AGREED, said=votes)] * 50, PLAIN, tool(advisory=["/note"]), UNTIL)
    assert len(seen) == 2


def test_where_the_work_runs_out_it_is_told_how_far_it_came() -> None:
    checked = tool(args_schema={"properties": {"cents": {"type": "integer"}}})
    with allowance(40):
        told = replay([AGREED] * 100, PLAIN, checked, UNTIL)
    assert 1 <= told.steps < 10
    assert told.with_actions == told.steps


def test_an_unchanged_definition_changes_nothing() -> None:
    told = replay([AGREED, DIVERGED, ALONE, GRANTED], PLAIN, PLAIN, UNTIL)
    assert (told.steps, told.turns, told.misfits, told.other_digests, told.exempt, told.untold) == (4, (), 0, 0, 0, 0)


def test_only_the_newest_of_many_are_named() -> None:
    many = [replace(AGREED, step=f"s{number}") for number in range(20)]
    (turn,) = replay(many, PLAIN, tool(effect="read_only"), UNTIL).turns
    assert (turn.count, [step for _, step, _ in turn.samples]) == (20, ["s0", "s1", "s2", "s3", "s4"])


# -- grants and calls --------------------------------------------------------------------------------------------------


def test_grants_and_calls_beyond_a_new_policy_are_counted() -> None:
    issued = [Issued(ttl_s=60, seconds=0), Issued(ttl_s=900, seconds=0), Issued(ttl_s=900, seconds=1)]
    called = [Called(number=1, took_s=3), Called(number=4, took_s=40), Called(number=2, took_s=None)]
    newer = tool(policy={"max_grant_ttl_s": 300, "grant_approvals": 2, "lease_s": 20, "max_deliveries": 3})
    told = beyond(issued, called, PLAIN, newer)
    assert (told.grants, told.too_long, told.short_of_approvals, told.with_one_less) == (3, 2, 2, 0)
    assert (told.calls, told.given_up, told.too_often) == (3, 1, 1)
    back = beyond(issued, called, newer, PLAIN)
    assert (back.too_long, back.short_of_approvals, back.with_one_less, back.given_up, back.too_often) == (
        0,
        0,
        3,
        0,
        0,
    )


def test_a_push_call_is_given_up_after_its_timeout() -> None:
    pushed = {"mode": "push", "endpoint": "https://a.example/"}
    newer = tool(**pushed, policy={"timeout_s": 2})
    assert beyond([], [Called(number=1, took_s=3)], tool(**pushed), newer).given_up == 1
