"""What a grant would do, judged by the fence's own functions: now, in the past, and for who is silent."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fencing.protocol import fence, outages, previews
from fencing.protocol.explain import explain_wanted
from fencing.protocol.fence import Phase, Step, covering_grant
from fencing.protocol.grants import Grant, version_of
from fencing.protocol.outages import GrantFor
from fencing.protocol.previews import Amount, Fate, amount_of
from fencing.protocol.refused_uses import why_refused
from fencing.protocol.tools import ToolDefinition, read_tool
from tests.protocol.values import NOW, ONE, OTHER, RULES, grant, step, vote

DANGEROUS = replace(RULES, grant_approvals=2)
ASKED = grant(expires_at=None, approvals_needed=0)


def now(facts: Step, asked: Grant = ASKED, rules: Any = RULES, reason: str | None = None) -> tuple[Fate, str]:
    verdict = previews.judge_now(facts, asked, reason=reason, rules=rules, now=NOW)
    return verdict.fate, verdict.why


# ---- now ----


@pytest.mark.parametrize(
    ("facts", "asked", "fate", "why"),
    [
        (step(vote("production")), ASKED, Fate.PASSES, ""),
        (step(), ASKED, Fate.WAITS, ""),
        (step(pinned_tool="refund"), ASKED, Fate.WAITS, ""),
        (step(vote("production"), vote("replica")), ASKED, Fate.NOT_ASKED, ""),
        (step(vote("replica")), ASKED, Fate.BARRED, "replica voted, and it would let production act alone"),
        (
            step(vote("production"), vote("replica", OTHER)),
            ASKED,
            Fate.BARRED,
            "a visible divergence beats every grant",
        ),
        (
            step(vote("production", payload=None, tool=None)),
            ASKED,
            Fate.BARRED,
            "production voted a digest alone, without its action",
        ),
        (step(vote("production")), replace(ASKED, digest=OTHER), Fate.BARRED, "it is pinned to another digest"),
        (step(pinned_digest=ONE), replace(ASKED, digest=OTHER), Fate.BARRED, "it is pinned to another digest"),
        (step(vote("production")), replace(ASKED, tool="mail"), Fate.NOT_ASKED, ""),
        (step(vote("production")), replace(ASKED, step="other"), Fate.NOT_ASKED, ""),
        (
            step(vote("production"), epoch=9),
            ASKED,
            Fate.BARRED,
            "it is in epoch 9, and the grant would be for epoch 7",
        ),
        (step(vote("production"), phase=Phase.EXEMPT), ASKED, Fate.NOT_ASKED, ""),
        (step(vote("production"), phase=Phase.REJECTED, epoch=6), ASKED, Fate.NOT_ASKED, ""),
    ],
)
def test_what_it_would_do_now(facts: Step, asked: Grant, fate: Fate, why: str) -> None:
    assert now(facts, asked) == (fate, why)


def test_what_is_decided_says_how() -> None:
    told = now(step(vote("production"), phase=Phase.REJECTED), reason="path_unavailable")
    assert told == (Fate.BARRED, "it is rejected already (path unavailable)")


def test_it_is_judged_as_it_would_be_once_everybody_approved_it() -> None:
    assert now(step(vote("production")), replace(ASKED, approvals_needed=1), DANGEROUS) == (Fate.PASSES, "")
    too_long = replace(ASKED, ttl_s=901)
    assert now(step(vote("production")), too_long)[1] == "the tool allows grants of 900 s at most"
    assert now(step(pinned_tool="refund"), too_long)[1] == "the tool allows grants of 900 s at most"


@pytest.mark.parametrize(
    "facts",
    [
        step(vote("production")),
        step(vote("replica")),
        step(vote("production"), vote("replica")),
        step(vote("production"), vote("replica", OTHER)),
        step(vote("production", payload=None, tool=None)),
        step(vote("production"), pinned_digest=OTHER),
        step(),
    ],
)
@pytest.mark.parametrize(
    "asked", [ASKED, replace(ASKED, step="pay", tool=None), replace(ASKED, path="replica", digest=ONE)]
)
def test_it_passes_exactly_what_the_fence_would_let_through(facts: Step, asked: Grant) -> None:
    live = previews.as_live(asked, RULES, NOW)
    covered = not fence.divergence(facts) and not fence.is_agreed(facts, RULES)
    covers = covered and covering_grant(facts, rules=RULES, grants=[live], now=NOW) is not None
    assert (now(facts, asked)[0] is Fate.PASSES) is covers


# ---- then ----


@pytest.mark.parametrize(
    ("facts", "heard_s", "fate"),
    [
        (step(vote("production"), phase=Phase.REJECTED), [0], Fate.PASSES),
        (step(vote("production"), vote("replica"), phase=Phase.COMMITTED), [0, 4], Fate.NOT_ASKED),
        (step(vote("production"), vote("replica"), phase=Phase.COMMITTED), [0, 6], Fate.PASSES),
        (step(vote("replica"), vote("production"), phase=Phase.COMMITTED), [0, 9], Fate.NOT_ASKED),
        (step(vote("production"), vote("replica", OTHER), phase=Phase.REJECTED), [0, 4], Fate.BARRED),
        (step(vote("production"), vote("replica", OTHER), phase=Phase.REJECTED), [0, 6], Fate.PASSES),
        (step(vote("production"), phase=Phase.REJECTED), [130], Fate.NOT_ASKED),
        (step(vote("replica"), phase=Phase.REJECTED), [0], Fate.NOT_ASKED),
        (step(phase=Phase.REJECTED), [], Fate.NOT_ASKED),
        (step(vote("production"), phase=Phase.REJECTED, epoch=5), [0], Fate.PASSES),
    ],
)
def test_what_it_would_have_done_by_what_was_said_within_the_grace(facts: Step, heard_s: list[int], fate: Fate) -> None:
    heard = [NOW + timedelta(seconds=seconds) for seconds in heard_s]
    verdict = previews.judge_then(facts, heard, ASKED, rules=RULES)
    assert verdict.fate is fate
    if fate is Fate.PASSES:
        assert (verdict.at, verdict.digest) == (heard[0] + timedelta(seconds=5), ONE)


# ---- sums ----


def tool(**more: Any) -> ToolDefinition:
    read = read_tool({"tool": "refund", **more})
    assert isinstance(read, ToolDefinition)
    return read


@pytest.mark.parametrize(
    ("args", "amount"),
    [
        ({"cents": 4200}, Amount(member="cents", value=Decimal(4200))),
        ({"amount": "12.50", "currency": "EUR"}, Amount(member="amount", value=Decimal("12.50"), currency="EUR")),
        ({"amount": 0.1, "currency": "eur\u202e"}, Amount(member="amount", value=Decimal("0.1"))),
        ({"amount": "all of it", "cents": 1}, Amount(member="cents", value=Decimal(1))),
        ({"amount": True}, None),
        ({"amount": "1e9"}, None),
        ({"invoice": 9}, None),
        ([], None),
    ],
)
def test_a_sum_is_found_where_the_arguments_tell_one(args: Any, amount: Amount | None) -> None:
    assert amount_of(args, None) == amount


def test_a_sum_that_is_sensitive_is_not_told() -> None:
    assert amount_of({"cents": 4200}, tool(sensitive=["/cents"])) is None


# ---- refused uses ----


@pytest.mark.parametrize(
    ("facts", "asked", "why"),
    [
        (step(vote("production")), grant(), None),
        (step(vote("production")), grant(uses=1), "it is used up"),
        (step(vote("production")), grant(expires_at=NOW), "it is expired"),
        (step(vote("production"), vote("replica", OTHER)), grant(), "a visible divergence beats every grant"),
        (step(vote("production"), vote("replica")), grant(uses=1), None),
        (step(vote("replica")), grant(uses=1), None),
        (step(vote("production")), grant(uses=1, epoch=6), None),
        (step(vote("production")), grant(uses=1, step="other"), None),
        (step(vote("production")), grant(uses=1, tool="mail"), None),
        (step(), grant(uses=1), None),
        (
            step(vote("production", payload=None, tool=None)),
            grant(tool=None, step="pay"),
            "production voted a digest alone, without its action",
        ),
        (
            step(vote("production"), vote("third")),
            grant(),
            "2 paths voted, and it lets one act alone",
        ),
    ],
)
def test_why_a_use_was_refused(facts: Step, asked: Grant, why: str | None) -> None:
    assert why_refused(facts, asked, rules=RULES, now=NOW) == why


# ---- silence ----


def test_the_trusted_path_helps_where_another_is_silent() -> None:
    place = outages.relief("r", step(vote("production")), "replica", rules=RULES, now=NOW)
    assert place == GrantFor(run="r", step="pay", epoch=7, path="production", tool="refund")
    assert outages.covers(grant(), place)
    assert outages.covers(grant(tool=None, step="pay"), place)
    assert not outages.covers(grant(step="other"), place)
    assert not outages.covers(grant(epoch=8), place)


def test_a_witness_helps_with_its_digest_where_the_trusted_path_is_silent() -> None:
    place = outages.relief("r", step(vote("replica")), "production", rules=RULES, now=NOW)
    assert place == GrantFor(run="r", step="pay", epoch=7, path="replica", tool="refund", digest=ONE)


@pytest.mark.parametrize(
    ("facts", "silent", "words"),
    [
        (step(), "production", "none did"),
        (step(vote("production"), vote("production", OTHER)), "replica", "visible divergence"),
        (step(vote("replica")), "third", "replica voted, and it would let production act alone"),
    ],
)
def test_where_no_grant_helps_it_is_told_why(facts: Step, silent: str, words: str) -> None:
    told = outages.relief("r", facts, silent, rules=RULES, now=NOW)
    assert isinstance(told, str)
    assert words in told


# ---- words ----


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            replace(ASKED, max_uses=2),
            "Lets production alone commit refund in run-88, epoch 7, twice, until 02:15:00 UTC (in 60 s).",
        ),
        (
            replace(ASKED, step="pay", digest=ONE, approvals_needed=1),
            (
                "Lets production alone commit refund on step pay, with one exact digest, in run-88, epoch 7, once, for"
                " 60 s from a second person's approval."
            ),
        ),
        (
            replace(ASKED, tool=None, step="pay"),
            (
                "Lets production alone commit whatever it asks for on step pay in run-88, epoch 7, once, until 02:15:00"
                " UTC (in 60 s)."
            ),
        ),
        (
            replace(ASKED, tool=None, ttl_s=2**60),
            "Lets production alone commit nothing yet: name a step, or a tool, or both.",
        ),
    ],
)
def test_what_is_asked_for_is_told_while_it_is_typed(asked: Grant, sentence: str) -> None:
    assert explain_wanted(asked, run="run-88", now=NOW).text == sentence


def test_a_sight_of_a_grant_changes_with_what_a_person_decides_by() -> None:
    body = {"state": "pending", "uses": 0, "approvals": [], "review": None}
    seen = {
        version_of(each)
        for each in (
            body,
            {**body, "state": "live"},
            {**body, "uses": 1},
            {**body, "approvals": [{}]},
            {**body, "review": {}},
        )
    }
    assert len(seen) == 5
    assert version_of(body) == version_of({**body, "reason": "other words"})
