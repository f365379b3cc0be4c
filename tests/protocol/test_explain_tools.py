"""What a person reads first about tools: one sentence for each state, from values alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fencing.protocol.explain.tools import Decided, explain_change, explain_review, explain_tool
from fencing.protocol.explain.wording import Tone
from fencing.protocol.tool_changes import LIFE_S, TRANSITIONS, Pending, State, expires_at, state_of
from fencing.protocol.tools import ToolDefinition, read_tool

NOW = datetime(2026, 11, 30, 2, 14, 7, tzinfo=UTC)
CHANGE = Pending(
    tool="refund",
    base=3,
    current=3,
    digest="sha256:" + "0" * 64,
    proposer=1,
    approvers=frozenset(),
    approvals_needed=1,
    expires_at=NOW + timedelta(hours=2),
)
DECIDED = Decided(by="omar", at=NOW - timedelta(minutes=1))


def tool(**members: Any) -> ToolDefinition:
    found = read_tool({"tool": "refund", **members})
    assert isinstance(found, ToolDefinition), found
    return found


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (
            {},
            "Fenced: refund leaves when production and replica agree, or under a grant; a gateway outside sends it",
        ),
        ({"idempotent": True}, "at most 5 times with one key."),
        ({"policy": {"required_paths": ["production"]}}, "leaves when production asks for it, or under a grant"),
        ({"mode": "push", "endpoint": "https://a.example/"}, "a worker of this system sends it"),
        (
            {"idempotent": True, "optimistic": True, "compensator": {"tool": "refund", "args": {}}},
            "It may leave from an undecided branch.",
        ),
        (
            {"effect": "read_only"},
            "Read-only, it skips the fence: refund is admitted without a token and without a vote",
        ),
    ],
)  # fmt: skip
def test_a_tool_says_what_the_fence_asks_of_it(members: dict[str, Any], said: str) -> None:
    assert said in explain_tool(tool(**members)).text


@pytest.mark.parametrize(
    ("version", "weakenings", "differences", "said", "tone"),
    [
        (0, 0, 0, "A new tool: refund is not registered yet.", Tone.NEUTRAL),
        (3, 0, 0, "Nothing changes: this is what version 3 of refund says already.", Tone.NEUTRAL),
        (3, 0, 2, "Takes effect: nothing in it weakens the fence, so it is current at once, as version 4.", Tone.GOOD),
        (3, 1, 2, "Weakens the fence: in 1 way. It waits until a second administrator", Tone.WAITING),
        (3, 2, 2, "Weakens the fence: in 2 ways.", Tone.WAITING),
    ],
)
def test_a_change_that_is_looked_at_says_what_it_would_do(
    version: int, weakenings: int, differences: int, said: str, tone: Tone
) -> None:
    found = explain_review(tool="refund", version=version, weakenings=weakenings, differences=differences)
    assert found.text.startswith(said)
    assert found.tone is tone


@pytest.mark.parametrize(
    ("change", "proposer", "said"),
    [
        (CHANGE, "lena", "Waits for a second administrator: lena wants refund to fence less in 2 ways."),
        (CHANGE, "lena", "Version 3 stays current meanwhile. If nobody decides, it is over at 04:14:07 UTC (in 2 h)."),
        (replace(CHANGE, proposer=None, approvals_needed=2), "", "Waits for 2 administrators: the command line wants"),
        (
            replace(CHANGE, proposer=None, approvals_needed=2, approvers=frozenset({4})),
            "",
            "Waits for 1 administrator: the command line wants",
        ),
        (
            replace(CHANGE, current=5),
            "lena",
            "Out of date: lena compared it with version 3 of refund, and version 5 is",
        ),
        (replace(CHANGE, closed_as="approved"), "lena", "Approved by omar at 02:13:07 UTC: lena proposed it;"),
        (replace(CHANGE, closed_as="refused"), "lena", "Refused by omar at 02:13:07 UTC: refund stays as it was."),
        (replace(CHANGE, closed_as="withdrawn"), "lena", "Withdrawn by omar at 02:13:07 UTC: refund stays as it was."),
        (replace(CHANGE, closed_as="expired"), "lena", "Expired: nobody decided in time, so refund stays as it was."),
        (replace(CHANGE, expires_at=NOW), "lena", "Expired: nobody decided in time"),
    ],
)
def test_a_change_says_where_it_is(change: Pending, proposer: str, said: str) -> None:
    found = explain_change(
        change, weakenings=2, proposer=proposer, now=NOW, decided=DECIDED if change.closed_as else None
    )
    assert said in found.text


def test_a_change_ends_by_the_clock_at_the_very_instant_and_once() -> None:
    assert expires_at(NOW) == NOW + timedelta(seconds=LIFE_S)
    assert state_of(CHANGE, CHANGE.expires_at - timedelta(microseconds=1)) is State.PENDING
    assert state_of(CHANGE, CHANGE.expires_at) is State.EXPIRED
    assert state_of(replace(CHANGE, closed_as="approved"), CHANGE.expires_at) is State.APPROVED


def test_every_state_is_reached_from_pending_and_none_is_left() -> None:
    assert set(TRANSITIONS) == {State.PENDING}
    assert set(TRANSITIONS[State.PENDING]) == set(State) - {State.PENDING}
