"""Each planted fault of branches, ledgers and undoing is found by random strings of all events, in bounded time."""

from __future__ import annotations

import json
from random import Random

import pytest

from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import read_trace
from fencing.protocol.simulate.strings import Tally, opening, play_again, try_random
from tests.length import is_long
from tests.protocol.faults import Plant
from tests.protocol.speculation_faults import KIN, SIXTEEN

STRINGS = 600
LETTERS = 70
SHORT = 16


def named(plant: Plant) -> str:
    return plant.__name__


@pytest.mark.parametrize("plant", [*SIXTEEN, *KIN] if is_long() else SIXTEEN, ids=named)
def test_random_strings_find_a_planted_fault_and_show_it_again(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = try_random(STRINGS, Random(1), tally=Tally(), seed=1, length=LETTERS, branched=1)  # noqa: S311 - a seed
    assert found is not None
    assert len(found.happenings) <= SHORT, [event for _, event in found.happenings]

    form = json.loads(json.dumps(found.as_json()))
    shown = play_again(read_trace(form, stage.tools), opening())
    assert form["property"] in {violation.property for violation in shown.violations}
