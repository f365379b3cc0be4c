"""L1, L2, L5: keys, generations and what may act."""

import pytest

from fencing.protocol import claims
from fencing.protocol.fence import Gate
from fencing.protocol.intents import ClaimState, Intent, Kind, State
from tests.protocol.values import IDEMPOTENT, ONCE, ONE, OTHER, delivery, intent

FAILED = intent(delivery(outcome=Kind.FAILED), state=State.FAILED, claims=(ClaimState.LOST,))
CANCELLED = intent(state=State.CANCELLED, claims=(ClaimState.LOST,))


@pytest.mark.parametrize(
    ("newest", "digest", "is_taken"),
    [
        (None, ONE, False),
        (intent(), ONE, False),
        (intent(), OTHER, True),
        (FAILED, OTHER, False),
        (CANCELLED, OTHER, False),
    ],
)
def test_a_key_is_taken_while_its_first_action_is_wanted_or_may_be_out(
    newest: Intent | None, digest: str, is_taken: bool
) -> None:
    assert claims.is_key_taken(newest, digest, has_own_claim=False) is is_taken
    assert not claims.is_key_taken(newest, digest, has_own_claim=True)


@pytest.mark.parametrize(
    ("newest", "digest", "generation"),
    [(None, ONE, 1), (intent(), ONE, 1), (CANCELLED, ONE, 1), (FAILED, ONE, 2), (CANCELLED, OTHER, 2)],
)
def test_which_generation_serves_a_step(newest: Intent | None, digest: str, generation: int) -> None:
    assert claims.generation_for(newest, digest) == generation


def test_an_effect_may_be_delivered_while_a_claim_is_won_or_optimistic() -> None:
    assert intent(claims=(ClaimState.LOST, ClaimState.WON)).may_act
    assert not intent(claims=(ClaimState.LOST, ClaimState.OPEN)).may_act
    assert intent(claims=(ClaimState.OPEN,), is_optimistic=True).may_act
    assert not intent(claims=(ClaimState.LOST,), is_optimistic=True).may_act
    assert not intent(claims=()).may_act


@pytest.mark.parametrize(
    ("gate", "is_committed", "state"),
    [
        (Gate(), True, ClaimState.WON),
        (Gate(), False, ClaimState.OPEN),
        (Gate(may_act=False), True, ClaimState.OPEN),
        (Gate(may_act=False, is_lost=True), True, ClaimState.LOST),
        (Gate(may_act=False, is_lost=True), False, ClaimState.LOST),
    ],
)
def test_a_claim_is_won_by_a_commit_in_a_branch_that_may_act(gate: Gate, is_committed: bool, state: ClaimState) -> None:
    assert claims.state_of(gate, is_committed=is_committed) is state


def test_what_is_unknown_and_may_not_be_repeated_is_stuck() -> None:
    waiting = intent(delivery(outcome=Kind.UNKNOWN))
    assert not claims.is_stuck(waiting, IDEMPOTENT, has_authority=True)
    assert claims.is_stuck(waiting, IDEMPOTENT, has_authority=False)
    assert claims.is_stuck(waiting, ONCE, has_authority=True)
    assert not claims.is_stuck(intent(), ONCE, has_authority=False)
    assert not claims.is_stuck(intent(delivery(outcome=Kind.UNKNOWN), state=State.IN_DOUBT), ONCE, has_authority=False)
