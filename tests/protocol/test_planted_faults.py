"""The properties can fail: each planted fault is found within the bounded search, and nothing is found without one."""

import json
from random import Random

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import read_trace
from fencing.protocol.simulate.strings import Tally, opening, play_again, try_random
from tests.length import is_long
from tests.protocol.faults import ASKED_FOR, OTHERS, Plant, first_voter_wins
from tests.protocol.machine import BOUNDED, FenceMachine
from tests.protocol.test_properties import decided, facts_in_any_order

# Always the same examples, so that a fault that is found today is found tomorrow; found is enough, small is not needed.
SAME = settings(BOUNDED, max_examples=400, derandomize=True, database=None, phases=[Phase.generate], print_blob=False)
STRINGS = 800


def named(plant: Plant) -> str:
    return plant.__name__


@pytest.mark.parametrize("plant", [*ASKED_FOR, *OTHERS] if is_long() else ASKED_FOR, ids=named)
def test_the_state_machine_finds_a_planted_fault(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(FenceMachine, settings=SAME)


@pytest.mark.parametrize("plant", [*ASKED_FOR, *OTHERS], ids=named)
def test_the_simulator_finds_it_too_and_its_trace_shows_it_again(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = try_random(STRINGS, Random(1), tally=Tally(), seed=1)  # noqa: S311 - a seed, no secret
    assert found is not None
    assert len(found.happenings) <= 12

    form = json.loads(json.dumps(found.as_json()))
    shown = play_again(read_trace(form, stage.tools), opening())
    assert form["property"] in {violation.property for violation in shown.violations}
    assert len(shown.happenings) == len(form["events"])


def test_an_order_that_decides_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first_voter_wins(monkeypatch)
    orders = facts_in_any_order.flatmap(lambda facts: st.tuples(st.just(facts), st.permutations(facts)))
    found = find(orders, lambda pair: decided(pair[0]) != decided(pair[1]), settings=SAME)
    assert found
