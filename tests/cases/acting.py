"""A tool as a stub that remembers its calls, and workers that act only with admission."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.playing import Player, fresh_names
from tests.stories import Action, Story, Told


@dataclass(kw_only=True)
class Tool:
    """Remembers each call: the idempotency key that came with it."""

    calls: list[str] = field(default_factory=list)

    def call(self, idempotency_key: str) -> None:
        self.calls.append(idempotency_key)


def attempt(story: Story, token: str, action: Action, tool: Tool) -> Told:
    """Ask for admission, and call the tool if it was given; what became of the call is told by nobody yet."""
    answer = story.admit(token, action)
    if answer.get("admit"):
        tool.call(answer["idempotency_key"])
    return answer


def deliver(story: Story, token: str, action: Action, tool: Tool, outcome: str, **members: Any) -> Told:
    """Ask for admission, call the tool, and report."""
    answer = attempt(story, token, action, tool)
    return {**answer, **story.report(answer, outcome, **members)} if answer.get("admit") else answer


def commit_live(player: Player, action: Action) -> tuple[str, dict[str, Any]]:
    """Commit an action in a new run of the whole system, and give its token and the names of the run."""
    names = fresh_names()
    place = {"run": "${run}", "step": "s1", "epoch": 1}
    steps: list[dict[str, Any]] = [
        {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
        {"as": "planner", "call": "POST /steps", "body": place},
        {"as": "replica", "call": "POST /votes", "body": {**place, "action": action}},
        {"as": "production", "call": "POST /votes", "body": {**place, "action": action}},
        {
            "as": "planner",
            "call": "GET /runs/${run}/steps/s1?wait=10",
            "expect": {"body": {"phase": "committed"}},
            "within": 10,
            "save": {"token": "/commit/token"},
        },
    ]
    player.play_steps(steps, names)
    return str(names["token"]), names
