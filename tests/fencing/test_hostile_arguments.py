"""T3: arguments that a backtracking matcher would never be done with are answered at each door, and at once."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.services import steps, straight
from fencing.services.credentials import COMMAND_LINE
from fencing.services.requests import ProposeStep
from fencing.services.tools import load_definitions
from tests.protocol.within import within
from tests.stories import EPOCH, Story, register, told

pytestmark = pytest.mark.django_db
MOST_S = 10.0
SCHEMA: dict[str, Any] = {"properties": {"note": {"pattern": "^(a+)+$"}}}
TEXTS = ["a" * 60 + "!", "a" * 200_000 + "!"]


@pytest.fixture
def story() -> Story:
    register(
        [
            {"tool": "refund", "args_schema": SCHEMA, "policy": {"grace_s": 0}},
            {"tool": "look_up", "effect": "read_only", "args_schema": SCHEMA},
        ]
    )
    story = Story()
    assert story.open()["status"] == 201
    return story


@pytest.mark.parametrize("text", TEXTS, ids=["short", "long"])
def test_hostile_arguments_are_answered_in_proposals_votes_and_admissions(story: Story, text: str) -> None:
    hostile = {"tool": "refund", "args": {"note": text}}
    with within(MOST_S):
        assert story.propose("pinned", action=hostile)["code"] == "invalid_args"
        story.propose("voted", tool="refund")
        assert story.vote(story.production, hostile, "voted")["vote"] == "recorded"
        story.vote(story.replica, hostile, "voted")
        story.decide()
        assert story.step("voted")["reason"] == "invalid_args"
        assert story.admit(None, {"tool": "look_up", "args": {"note": text}})["code"] == "invalid_args"
        token = story.agree("fine", {"tool": "refund", "args": {"note": "aaa"}}, key="fine")
        assert story.admit(token, hostile)["code"] == "payload_mismatch"
        assert story.admit(token, {"tool": "refund", "args": {"note": "aaa"}})["admit"]


def test_what_takes_long_to_check_leaves_the_straight_way(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes of the web process read on its event loop, where everybody waits meanwhile."""
    monkeypatch.setattr(straight, "OUTSIDE_TRANSACTIONS", False)
    load_definitions(
        [{"tool": "many", "args_schema": {"properties": {"n": {"items": {"type": "integer"}}}}}], COMMAND_LINE
    )
    for count, is_plain in ((10, True), (20_000, False)):
        request = ProposeStep(
            run=story.run, step=f"s{count}", epoch=EPOCH, action={"tool": "many", "args": {"n": [1] * count}}
        )
        (answer,) = straight.go(straight.PROPOSALS, [(request, story.planner)])
        assert (answer is not None) is is_plain
        assert told(steps.propose_steps([request], story.planner)[0])["phase"] == "proposed"
