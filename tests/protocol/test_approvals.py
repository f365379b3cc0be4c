"""Which call an approval lets through, and which escape an intent may adopt: two rules of the core."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.protocol import adopting, approvals, compensations
from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Intent, Kind
from fencing.protocol.intents import State as IntentState
from fencing.protocol.simulate import stage
from tests.protocol.values import ONE, OTHER, delivery, intent

CALL = approvals.Call(action=stage.TICKET)


def judged(call: approvals.Call = CALL, *, state: State = State.APPROVED, **more: Any) -> Code | None:
    facts = {"run": "run-88", "is_current": True, "payload": stage.TICKET.payload_digest, "definition": None, **more}
    refusal = approvals.judge(call, state=state, **facts)
    return None if refusal is None else refusal.code


def test_an_approval_lets_exactly_what_was_shown_through() -> None:
    assert judged() is None
    assert judged(approvals.Call(action=stage.TICKET, run="run-88")) is None
    assert judged(approvals.Call(action=stage.OTHER_TICKET)) is Code.PAYLOAD_MISMATCH
    assert judged(payload=stage.MAIL.payload_digest) is Code.PAYLOAD_MISMATCH


def test_the_token_of_an_approval_is_that_of_no_step_and_no_other_run() -> None:
    for more in ({"step": "a"}, {"epoch": 7}, {"run": "another"}):
        call = approvals.Call(action=stage.TICKET, **more)
        assert judged(call) is Code.BAD_TOKEN


@pytest.mark.parametrize("state", State)
def test_an_approval_that_lapsed_opens_nothing(state: State) -> None:
    assert judged(state=state, is_current=False) is Code.REVOKED
    assert judged(state=state) is (Code.REVOKED if state in approvals.LAPSED else None)


def test_what_would_not_fit_its_tool_is_not_let_through() -> None:
    fits: dict[str, Any] = {"payload": stage.NO_FIT.payload_digest, "definition": stage.tools("send_mail")}
    assert judged(approvals.Call(action=stage.NO_FIT), **fits) is Code.INVALID_ARGS


@pytest.mark.parametrize("state", compensations.State)
def test_what_is_being_undone_or_was_decided_is_not_adopted(state: State) -> None:
    refusal = adopting.check_undecided(is_open=True, undoing=[state])
    assert (refusal is None) is (state not in adopting.BEGUN)


def test_an_escape_that_somebody_closed_is_not_adopted() -> None:
    assert adopting.check_undecided(is_open=True, undoing=[]) is None
    assert isinstance(adopting.check_undecided(is_open=False, undoing=[State.WITHDRAWN]), Refusal)


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (intent(), None),
        (intent(state=IntentState.SUCCEEDED), Code.ALREADY_DECIDED),
        (intent(state=IntentState.FAILED), Code.ALREADY_DECIDED),
        (intent(delivery(outcome=Kind.UNKNOWN)), Code.OUTCOME_UNKNOWN),
        (intent(state=IntentState.HELD), Code.NOT_READY),
        (intent(state=IntentState.CANCELLED), Code.NOT_READY),
    ],
)
def test_an_intent_adopts_what_it_waits_for(facts: Intent, code: Code | None) -> None:
    refusal = adopting.check_fit(facts, digest=ONE, wanted={ONE})
    assert (None if refusal is None else refusal.code) is code
    if code is None:
        other = adopting.check_fit(facts, digest=ONE, wanted={OTHER})
        assert other is not None
        assert other.code is Code.PAYLOAD_MISMATCH
