"""R1, R2 and R5: numbers that only grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.epochs import RunEpochs, check_epoch, restart_number, step_epoch
from fencing.protocol.errors import Code, Refusal

RUN = RunEpochs(epoch=7, counter=9)


@pytest.mark.parametrize(
    ("opened", "own"),
    [((), 7), ((3, 6), 7), ((7,), 7), ((7, 9), 9), ((9, 8), 9), ((6, 8), 8)],
)
def test_a_step_goes_on_in_the_highest_number_that_is_open_for_it(opened: tuple[int, ...], own: int) -> None:
    assert step_epoch(RUN, opened) == own


@pytest.mark.parametrize(
    ("given_number", "code"), [(6, Code.STALE_EPOCH), (7, None), (8, Code.FUTURE_EPOCH), (9, Code.FUTURE_EPOCH)]
)
def test_only_the_own_number_counts(given_number: int, code: Code | None) -> None:
    refusal = check_epoch(given=given_number, own=7)
    assert (None if refusal is None else refusal.code) is code
    if refusal is not None:
        assert refusal.extras["current_epoch"] == 7


@pytest.mark.parametrize(("expected", "named", "number"), [(7, None, 10), (7, 10, 10), (7, 50, 50)])
def test_a_restart_opens_a_number_above_every_one_that_was_given(expected: int, named: int | None, number: int) -> None:
    assert restart_number(RUN, expected=expected, named=named) == number


@pytest.mark.parametrize(("expected", "named"), [(6, None), (8, None), (9, None), (7, 9), (7, 7), (6, 50)])
def test_a_restart_from_elsewhere_or_into_the_past_is_refused(expected: int, named: int | None) -> None:
    refusal = restart_number(RUN, expected=expected, named=named)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.STALE_EPOCH
    assert refusal.extras["current_epoch"] == 7


def test_of_two_planners_that_race_one_gets_it() -> None:
    number = restart_number(RUN, expected=7, named=None)
    assert isinstance(number, int)
    assert isinstance(restart_number(RUN.restarted(number), expected=7, named=None), Refusal)


@given(moves=st.lists(st.none() | st.integers(-2, 12), max_size=12))
def test_both_numbers_only_grow(moves: list[int | None]) -> None:
    """None is a replay, a number names the epoch of a restart relative to the counter."""
    run = RunEpochs(epoch=1, counter=1)
    for move in moves:
        number = None if move is None else restart_number(run, expected=run.epoch, named=run.counter + move)
        after = run.replayed() if move is None else run.restarted(number) if isinstance(number, int) else run
        assert after.epoch >= run.epoch
        assert after.counter >= run.counter
        assert after.counter >= after.epoch
        run = after
