"""P2 to P6: who may decide on an undoing, on what, and what each end of its one delivery does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencing.protocol import compensations, deciding, undoing
from fencing.protocol.compensations import State
from fencing.protocol.deciding import Admitted, Approval, Approved, Done, Same, Undoing
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import BUSY_S, MAX_BUSY_S, ClaimState, Intent, Kind
from fencing.protocol.intents import State as IntentState
from tests.protocol.values import NOW, delivery, intent, later

ONE, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
WAITS = Undoing(state=State.PROPOSED, digest=ONE, needed=1)
OUT = intent(delivery(outcome=Kind.SUCCEEDED), state=IntentState.SUCCEEDED, claims=(ClaimState.LOST,))


def code(answer: object) -> Code | None:
    return answer.code if isinstance(answer, Refusal) else None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, None),
        ({"digest": OTHER}, Code.CHANGED),
        ({"digest": None}, Code.CHANGED),
        ({"state": State.HELD}, Code.HELD),
        ({"is_known": False}, Code.OUTCOME_UNKNOWN),
        ({"requester": 7}, Code.OWN_REQUEST),
        ({"barred": frozenset({7})}, Code.OWN_GRANT),
        ({"barred": frozenset({8}), "requester": 8}, None),
        *[({"state": state}, Code.ALREADY_DECIDED) for state in State if state not in (State.PROPOSED, State.HELD)],
    ],
)
def test_a_person_approves_what_was_shown_while_it_may_be_decided(facts: dict[str, Any], expected: Code | None) -> None:
    assert code(deciding.approve(replace(WAITS, **facts), person=7, digest=ONE)) is expected


def test_the_last_of_as_many_different_people_decides() -> None:
    two = replace(WAITS, needed=2)
    assert deciding.approve(two, person=7, digest=ONE) == Approved(is_last=False)
    half = replace(two, approvals=(Approval(person=7, digest=ONE),))
    assert deciding.approve(half, person=7, digest=ONE) == Same()
    assert deciding.approve(half, person=8, digest=ONE) == Approved(is_last=True)
    assert code(deciding.may_not_approve(half, 7)) is Code.ALREADY_DECIDED
    assert deciding.may_not_approve(half, 8) is None


def test_the_same_persons_same_word_is_a_duplicate_after_the_decision_too() -> None:
    decided = replace(WAITS, state=State.APPROVED, approvals=(Approval(person=7, digest=ONE),))
    assert deciding.approve(decided, person=7, digest=ONE) == Same()
    assert code(deciding.approve(decided, person=7, digest=OTHER)) is Code.ALREADY_DECIDED


def test_an_effect_stands_by_a_word_about_what_was_shown() -> None:
    assert deciding.waive(WAITS, digest=ONE) is None
    assert deciding.waive(replace(WAITS, state=State.HELD), digest=ONE) is None
    assert code(deciding.waive(WAITS, digest=OTHER)) is Code.CHANGED
    assert code(deciding.waive(replace(WAITS, state=State.APPROVED), digest=ONE)) is Code.ALREADY_DECIDED
    assert deciding.waive(replace(WAITS, digest=None), digest=None) is None


def test_by_hand_is_what_no_call_undoes() -> None:
    manual = replace(WAITS, digest=None)
    assert deciding.record(manual) is None
    assert code(deciding.record(WAITS)) is Code.HAS_COMPENSATOR
    assert code(deciding.record(replace(manual, state=State.HELD))) is Code.HELD
    assert code(deciding.record(replace(manual, is_known=False))) is Code.OUTCOME_UNKNOWN
    assert code(deciding.record(replace(manual, state=State.DONE))) is Code.ALREADY_DECIDED


# ---- the one delivery of an approval ----


def test_one_try_at_a_time_in_its_turn() -> None:
    def admit(state: State, *tries: Any, **more: Any) -> Any:
        facts = {"is_behind": False, "not_before": None, "now": NOW, **more}
        return deciding.admit(state, tries, **facts)

    assert admit(State.APPROVED) == Admitted(number=1)
    assert admit(State.APPROVED, delivery(outcome=Kind.BUSY)) == Admitted(number=2)
    assert admit(State.DONE) == Done()
    assert code(admit(State.IN_FLIGHT, delivery())) is Code.DELIVERY_IN_PROGRESS
    assert code(admit(State.IN_DOUBT)) is Code.IN_DOUBT
    assert code(admit(State.APPROVED, is_behind=True)) is Code.NOT_READY
    assert code(admit(State.APPROVED, not_before=later(5))) is Code.DELIVERY_IN_PROGRESS
    assert admit(State.APPROVED, not_before=later(-5)) == Admitted(number=1)


@pytest.mark.parametrize(
    ("state", "before", "outcome", "after"),
    [
        (State.IN_FLIGHT, None, Kind.SUCCEEDED, State.DONE),
        (State.IN_FLIGHT, None, Kind.FAILED, State.PROPOSED),
        (State.IN_FLIGHT, None, Kind.UNKNOWN, State.IN_DOUBT),
        (State.IN_FLIGHT, None, Kind.BUSY, State.APPROVED),
        (State.IN_FLIGHT, None, Kind.NOT_SENT, State.APPROVED),
        (State.IN_DOUBT, Kind.UNKNOWN, Kind.SUCCEEDED, State.DONE),
        (State.IN_DOUBT, Kind.UNKNOWN, Kind.FAILED, State.PROPOSED),
        (State.IN_DOUBT, Kind.UNKNOWN, Kind.BUSY, State.PROPOSED),
    ],
)
def test_what_each_end_of_the_delivery_does(state: State, before: Kind | None, outcome: Kind, after: State) -> None:
    told = deciding.report(
        state, delivery(outcome=before), is_newest=True, outcome=outcome, retry_after_s=None, now=NOW
    )
    assert (told.state, told.refusal) == (after, None)


@pytest.mark.parametrize(
    ("outcome", "retry_after_s", "pause_s", "waits_s"),
    [
        (Kind.BUSY, None, None, BUSY_S),
        (Kind.BUSY, 7, None, 7),
        (Kind.BUSY, 10**9, None, MAX_BUSY_S),
        (Kind.NOT_SENT, None, None, None),
        (Kind.BUSY, None, 0.5, 0.5),
        (Kind.BUSY, 7, 0.5, 7),
        (Kind.NOT_SENT, None, 0.5, 0.5),
    ],
)
def test_what_was_not_done_waits_as_the_tool_says_or_else_for_the_pause_of_who_calls(
    outcome: Kind, retry_after_s: float | None, pause_s: float | None, waits_s: float | None
) -> None:
    told = deciding.report(
        State.IN_FLIGHT,
        delivery(),
        is_newest=True,
        outcome=outcome,
        retry_after_s=retry_after_s,
        now=NOW,
        pause_s=pause_s,
    )
    assert told.not_before == (None if waits_s is None else later(waits_s))


def test_an_outcome_is_final_and_a_contradiction_goes_to_people() -> None:
    def report(state: State, before: Kind | None, outcome: Kind, *, is_newest: bool = True) -> deciding.Recorded:
        return deciding.report(
            state, delivery(outcome=before), is_newest=is_newest, outcome=outcome, retry_after_s=None, now=NOW
        )

    assert not report(State.DONE, Kind.SUCCEEDED, Kind.SUCCEEDED).is_news
    assert report(State.DONE, Kind.SUCCEEDED, Kind.FAILED).has_conflict
    assert report(State.PROPOSED, Kind.FAILED, Kind.SUCCEEDED).has_conflict
    late = report(State.PROPOSED, Kind.UNKNOWN, Kind.SUCCEEDED, is_newest=False)
    assert (code(late.refusal), late.has_conflict, late.state) == (Code.STALE_DELIVERY, True, State.IN_DOUBT)


# ---- P1, P4, B4, B5: what claims make of it ----


@pytest.mark.parametrize(
    ("claims", "has_won", "before", "after"),
    [
        ((ClaimState.LOST,), False, State.PROPOSED, State.PROPOSED),
        ((ClaimState.LOST,), False, State.HELD, State.PROPOSED),
        ((ClaimState.LOST, ClaimState.OPEN), False, State.APPROVED, State.HELD),
        ((ClaimState.LOST, ClaimState.WON), True, State.HELD, State.WITHDRAWN),
        ((ClaimState.WON,), False, State.PROPOSED, State.PROPOSED),
        ((ClaimState.LOST, ClaimState.WON), True, State.IN_FLIGHT, State.IN_FLIGHT),
        ((ClaimState.LOST, ClaimState.OPEN), False, State.IN_DOUBT, State.IN_DOUBT),
    ],
)
def test_an_undoing_follows_who_wants_the_effect(
    claims: tuple[ClaimState, ...], has_won: bool, before: State, after: State
) -> None:
    assert undoing.state_after_claims(before, replace(OUT, claims=claims), has_won=has_won) is after


def test_what_did_not_happen_needs_no_undoing() -> None:
    facts = intent(delivery(outcome=Kind.FAILED), state=IntentState.FAILED, claims=(ClaimState.LOST,))
    assert undoing.state_after_claims(State.PROPOSED, facts, has_won=False) is State.WITHDRAWN


def is_owed(facts: Intent, newest: State | None = None, *, is_of_lost_branch: bool = True) -> bool:
    return undoing.is_owed(facts, newest, is_of_lost_branch=is_of_lost_branch)


def test_an_undoing_is_owed_once_for_what_is_out_and_nobody_wants() -> None:
    assert is_owed(OUT)
    assert is_owed(OUT, State.WITHDRAWN)
    assert not is_owed(replace(OUT, claims=(ClaimState.LOST, ClaimState.OPEN)))
    for state in State:
        if state is not State.WITHDRAWN:
            assert not is_owed(OUT, state)


def test_what_never_left_is_owed_nothing_and_what_was_adopted_is() -> None:
    assert not is_owed(replace(OUT, deliveries=(), state=IntentState.READY))
    assert is_owed(replace(OUT, deliveries=(), state=IntentState.SUCCEEDED))


def test_what_no_lost_branch_sent_is_up_to_reviewers() -> None:
    assert not is_owed(OUT, is_of_lost_branch=False)


def test_approvals_lapse_with_what_they_were_given_for() -> None:
    assert compensations.lapses(State.APPROVED, State.HELD, is_changed=False)
    assert compensations.lapses(State.IN_FLIGHT, State.PROPOSED, is_changed=False)
    assert compensations.lapses(State.PROPOSED, State.PROPOSED, is_changed=True)
    assert not compensations.lapses(State.PROPOSED, State.PROPOSED, is_changed=False)
    assert not compensations.lapses(State.IN_FLIGHT, State.APPROVED, is_changed=False)
    assert not compensations.lapses(State.HELD, State.PROPOSED, is_changed=False)
