"""Effects of push tools in these cases: committing one, having it called, and what became of each try."""

from __future__ import annotations

from typing import Any

from fencing.gateway import dispatching
from fencing.models import Intent, Outcome
from tests.pushing import courier, eventually
from tests.stories import Action, Story


def action_of(do: Any = "ok", tool: str = "pay", **args: Any) -> Action:
    """Make an action of a push tool; `do` says how its calls end."""
    return {"tool": tool, "args": {"invoice": 9, "do": do, **args}}


def wanted(story: Story, action: Action, step: str = "s1", **members: Any) -> str:
    """Commit one effect; give its intent."""
    story.agree(step, action, **members)
    return str(story.step(step)["intent"]["id"])


def comes_to(intent: str, state: str) -> None:
    """Have what is due called until the intent is in a state."""
    with courier():
        eventually(lambda: Intent.objects.get(id=intent).state == state)


def nothing_leaves() -> None:
    """See that a worker that starts now finds nothing to call."""
    taken = dispatching.take_plain(16)
    assert not taken.calls
    assert dispatching.take(16) == []


def kinds(intent: str) -> list[str]:
    """How each try of an intent ended, in order."""
    rows = Outcome.objects.filter(delivery__intent_id=intent).order_by("recorded_at", "id")
    return list(rows.values_list("outcome", flat=True))


def ask_with_key(story: Story, key: str, action: Action, step: str) -> tuple[Any, Any]:
    """Propose a step for a key and agree on an action; what became of the step."""
    story.propose(step, key=key)
    for path in (story.replica, story.production):
        story.vote(path, action, step)
    story.decide()
    body = story.step(step)
    return body["phase"], body["reason"]
