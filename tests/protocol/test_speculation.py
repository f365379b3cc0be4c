"""Section 16, speculation: every order of two branches here and on a naive coordinator, and faults that are found."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.protocol import claims, intents, undoing
from fencing.protocol.intents import ClaimState, Intent
from fencing.protocol.simulate import speculation as simulated
from fencing.protocol.simulate.speculation import FirstOwner, interleavings, speculation


def test_the_figures_are_those_of_the_protocol() -> None:
    figures = speculation()
    assert figures.faults == ()
    assert [str(each) for each in figures.ours] == [
        "shared_key=0/6",
        "disjoint_keys=0/6",
        "wanted_twice=0/10",
        "overlapping=0/20",
    ]
    assert [str(each) for each in figures.naive][:2] == ["shared_key=3/6", "disjoint_keys=0/6"]
    assert all(each.n > 0 for each in figures.naive[2:])


def test_every_order_is_played_once() -> None:
    orders = list(interleavings("pq", "pr"))
    assert len(orders) == len(set(orders)) == 20
    assert all([key for branch, key in order if branch == "A"] == ["p", "q", None] for order in orders)


def test_a_suite_that_finds_nothing_on_the_naive_coordinator_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstOwner, "reconcile", lambda _self: None)
    assert any("could not see it" in fault for fault in speculation().faults)


def lost_by_the_first(_gate: Any, *, is_committed: bool) -> ClaimState:
    """An intent that belongs to the first branch that asked would be taken back with it."""
    return ClaimState.LOST


def never_shared(_newest: Intent | None, _digest: str) -> intents.Claiming:
    return intents.Claiming.OPEN_NEXT


def owed_while_wanted(intent: Intent, _newest: Any, **_more: bool) -> bool:
    return intents.is_admitted(intent)


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (claims, "state_of", lost_by_the_first),
        (intents, "claim", never_shared),
        (undoing, "is_owed", owed_while_wanted),
        (undoing, "is_owed", lambda _intent, _newest, **_more: False),
    ],
    ids=["a winner's claim is lost", "a key of siblings is not shared", "what a winner wants is undone", "nothing is"],
)
def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Any) -> None:
    monkeypatch.setattr(where, name, fault)
    assert speculation().faults
    assert simulated.SCENES
