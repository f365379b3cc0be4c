"""B1, B2, B7 from a planner's side: forks, and code in a branch that reaches for a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fencing.client import Branch, Planner, UnregisteredSideEffect
from tests.client.scripted import Answer, ScriptedServer

Make = Callable[..., Any]
FORK = {
    "run": "r",
    "fork": "f",
    "branches": [{"branch": "A", "state": "undecided"}, {"branch": "B", "state": "undecided"}],
}
PROPOSED = {"run": "r", "step": "s", "epoch": 7, "phase": "proposed", "branch": "A"}
NOTE = {"tool": "send_note", "args": {"to": "oncall"}}


def test_a_fork_is_opened_and_reconciled(client: Make, server: ScriptedServer) -> None:
    planner = client(Planner)
    server.will(Answer(status=201, body=FORK), Answer(body={"fork": "f", "winner": None, "compensations": ["c"]}))
    assert [each["branch"] for each in planner.open_fork("r", "f", ["A", "B"]).branches] == ["A", "B"]
    assert planner.reconcile("r", "f", None).compensations == ("c",)
    assert server.requests[1].body == {"run": "r", "fork": "f", "winner": None}, "no winner is said, not left out"


@pytest.fixture
def branch(client: Make, server: ScriptedServer) -> Branch:
    server.will(Answer(status=201, body=PROPOSED))
    made = Branch(client(Planner), run="r", name="A", epoch=7, read_only={"look_up"})
    made.register("s", NOTE)
    return made


def test_code_in_a_branch_reaches_for_what_it_registered(branch: Branch, server: ScriptedServer) -> None:
    assert server.requests[0].body == {"run": "r", "step": "s", "epoch": 7, "action": NOTE, "branch": "A"}
    branch.reach("send_note")
    branch.reach("send_note", step="s")
    branch.reach("look_up")


@pytest.mark.parametrize(("tool", "step"), [("delete_all", None), ("delete_all", "s"), ("send_note", "other")])
def test_code_in_a_branch_that_reaches_for_another_tool_is_told_so(branch: Branch, tool: str, step: str | None) -> None:
    with pytest.raises(UnregisteredSideEffect) as caught:
        branch.reach(tool, step)
    assert (caught.value.tool, caught.value.branch) == (tool, "A")
    assert tool in str(caught.value)
    assert "branch A" in str(caught.value)


def test_a_guarded_function_does_not_run_without_its_step(branch: Branch) -> None:
    ran: list[str] = []
    branch.guards("send_note")(ran.append)("oncall")
    with pytest.raises(UnregisteredSideEffect):
        branch.guards("delete_all")(ran.append)("everybody")

    @branch.guards("delete_all")
    async def later(to: str) -> None:
        ran.append(to)

    with pytest.raises(UnregisteredSideEffect):
        asyncio.run(later("everybody"))
    assert ran == ["oncall"]
