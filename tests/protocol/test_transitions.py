"""The tables of transitions: complete, asked by everybody, and drawn for the documents."""

from enum import StrEnum
from typing import Any

import pytest

from fencing.protocol import fence, grants, intents, transitions
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import State

TABLES: list[tuple[Any, StrEnum]] = [
    (fence.TRANSITIONS, Phase.IDLE),
    (grants.TRANSITIONS, grants.State.PENDING),
    (intents.TRANSITIONS, State.HELD),
]


@pytest.mark.parametrize(("table", "start"), TABLES)
def test_every_state_is_reached_from_the_first(table: Any, start: StrEnum) -> None:
    reached, waiting = {start}, [start]
    while waiting:
        for after in table.get(waiting.pop(), {}):
            if after not in reached:
                reached.add(after)
                waiting.append(after)
    assert reached == set(type(start))


@pytest.mark.parametrize(("table", "start"), TABLES)
def test_a_diagram_shows_every_move_and_every_end(table: Any, start: StrEnum) -> None:
    drawn = transitions.diagram(table, start=start)
    lines = [line.strip() for line in drawn.splitlines()]
    assert lines[:2] == ["stateDiagram-v2", f"[*] --> {start.value}"]
    for before in type(start):
        moves = table.get(before, {})
        for after in moves:
            assert any(line.partition(" : ")[0] == f"{before.value} --> {after.value}" for line in lines)
        assert (f"{before.value} --> [*]" in lines) is not bool(moves)
    assert drawn == transitions.diagram(table, start=start)


def test_reasons_stand_in_the_diagram_in_words() -> None:
    drawn = transitions.diagram(fence.TRANSITIONS, start=Phase.IDLE)
    assert "    idle --> proposed\n" in drawn
    assert "    agreed --> committed : agreement\n" in drawn
    assert "    committed --> committed : effect failed\n" in drawn
    assert "    idle --> rejected : branch lost, superseded\n" in drawn


def test_a_move_is_allowed_for_its_reasons_alone() -> None:
    assert transitions.allows(fence.TRANSITIONS, Phase.PROPOSED, Phase.REJECTED, Reason.TIMEOUT)
    assert transitions.allows(fence.TRANSITIONS, Phase.AGREED, Phase.PROPOSED, None)
    assert not transitions.allows(fence.TRANSITIONS, Phase.PROPOSED, Phase.REJECTED, Reason.GRANT_EXPIRED)
    assert not transitions.allows(fence.TRANSITIONS, Phase.REJECTED, Phase.COMMITTED, Reason.AGREEMENT)
    assert transitions.allows(intents.TRANSITIONS, State.READY, State.IN_FLIGHT)
    assert not transitions.allows(intents.TRANSITIONS, State.SUCCEEDED, State.READY)


def test_a_rejected_step_stays_rejected_and_an_exempt_one_exempt() -> None:
    assert not fence.TRANSITIONS[Phase.REJECTED]
    assert not fence.TRANSITIONS[Phase.EXEMPT]
