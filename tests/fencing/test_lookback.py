"""T1: the last week of a tool, read in a bounded number of statements."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from fencing.models import Step, ToolVersion
from fencing.protocol.tools import ToolDefinition, read_tool, stored_tool
from fencing.queries import lookback
from fencing.queries.lookback import Lookback, read_lookback
from tests.stories import EPOCH, NOTE, OTHER_REFUND, REFUND, Story

pytestmark = pytest.mark.django_db
MOST_QUERIES = 13


def current(tool: str = "refund") -> ToolDefinition:
    return stored_tool(bytes(ToolVersion.objects.filter(tool=tool).latest("pk").definition))


def changed(tool: str = "refund", **members: Any) -> ToolDefinition:
    written = {**json.loads(json.dumps(current(tool).as_json()))}
    written["policy"] |= members.pop("policy", {})
    found = read_tool({**written, **members})
    assert isinstance(found, ToolDefinition), found
    return found


@pytest.fixture
def story() -> Story:
    return Story.begin()


def told(newer: ToolDefinition) -> Lookback:
    return read_lookback(current(newer.tool), newer)


def turns(found: Lookback) -> dict[tuple[str, str], int]:
    return {(turn.before.reason, turn.after.reason): turn.count for turn in found.replayed.turns}


def test_a_week_without_steps_has_no_figures(story: Story) -> None:
    found = told(changed(effect="read_only"))
    assert (found.replayed.steps, found.beyond.grants, found.beyond.calls, found.is_cut) == (0, 0, 0, False)


def test_steps_are_decided_again_from_what_is_stored(story: Story) -> None:
    token = story.agree("paid")
    story.report(story.admit(token), "succeeded")
    story.go_alone("alone", key="alone")
    story.propose("split")
    story.vote(story.production, OTHER_REFUND, "split")
    story.vote(story.replica, REFUND, "split")
    story.propose("note")
    story.vote(story.production, NOTE, "note")
    story.decide()
    found = told(changed(effect="read_only"))
    assert (found.replayed.steps, found.replayed.with_actions, found.replayed.exempt) == (3, 3, 1)
    # What one path asked for under a grant is no agreement: it waits.
    assert turns(found) == {("agreement", "read_only"): 1, ("grant", ""): 1}
    found = told(changed(advisory=["/cents"]))
    assert (found.replayed.other_digests, turns(found)) == (3, {("divergence", "agreement"): 1})
    found = told(changed(args_schema={"properties": {"cents": {"maximum": 100}}}))
    assert (found.replayed.misfits, turns(found)) == (
        3,
        {("agreement", "invalid_args"): 1, ("grant", "invalid_args"): 1},
    )
    found = told(changed(policy={"grant_approvals": 2, "max_grant_ttl_s": 10}))
    assert (found.beyond.grants, found.beyond.too_long, found.beyond.short_of_approvals) == (1, 1, 1)
    assert turns(found) == {("grant", ""): 1}
    assert found.beyond.calls == 1


def test_a_digest_alone_under_the_advisory_members_of_its_time_is_told(story: Story) -> None:
    mail = {"tool": "send_mail", "args": {"to": "a@example.org", "body": "one"}}
    story.propose("mail", tool="send_mail")
    story.vote(story.replica, mail, "mail")
    digest = story.step("mail")["votes"][0]["digest"] if story.step("mail")["votes"] else None
    story.vote(story.production, None, "mail", digest=digest)
    story.decide()
    assert told(changed("send_mail", policy={"grace_s": 9})).replayed.untold == 0
    assert told(changed("send_mail", advisory=[])).replayed.untold == 1


def test_a_restart_is_no_work_of_the_tool(story: Story) -> None:
    story.propose("s1", tool="refund")
    story.vote(story.production)
    story.restart()
    assert Step.objects.get(name="s1", epoch=EPOCH).reason == "superseded"
    assert turns(told(changed(policy={"deadline_s": 9}))) == {}


def test_more_steps_than_are_played_again_are_told(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        story.propose(f"s{number}", tool="refund")
    monkeypatch.setattr(lookback, "MOST", 2)
    found = told(changed(effect="read_only"))
    assert (found.replayed.steps, found.is_cut) == (2, True)
    monkeypatch.setattr(lookback, "MOST", 3)
    assert not told(changed(effect="read_only")).is_cut
    monkeypatch.setattr(lookback, "LOOKED_AT", 2)
    found = told(changed(effect="read_only"))
    assert (found.replayed.steps, found.is_cut) == (2, True)


def test_large_actions_and_long_checks_are_cut_and_told(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        action = {"tool": "refund", "args": {"invoice": number, "note": "x" * 1000}}
        story.agree(f"s{number}", action, key=f"k{number}")
    monkeypatch.setattr(lookback, "MOST_BYTES", 2500)
    found = told(changed(effect="read_only"))
    assert (found.replayed.steps, found.is_cut) == (2, True)
    monkeypatch.undo()
    monkeypatch.setattr(lookback, "MOST_WORK", 8)
    found = told(changed(args_schema={"properties": {"note": {"maxLength": 5}}}))
    assert 1 <= found.replayed.steps < 4
    assert found.is_cut
    assert turns(found) == {("agreement", "invalid_args"): found.replayed.steps}


def test_statements_do_not_grow_with_steps(story: Story, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(8):
        story.agree(f"s{number}", key=f"k{number}")
    story.grant(tool="refund")
    older, newer = current(), changed(effect="read_only")
    with django_assert_max_num_queries(MOST_QUERIES):
        assert read_lookback(older, newer).replayed.steps == 8


def test_what_was_told_survives_being_stored(story: Story) -> None:
    story.agree("paid")
    found = told(changed(effect="read_only"))
    assert Lookback.of_json(json.loads(json.dumps(found.as_json()))) == found
