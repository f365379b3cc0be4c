"""The reviewer's inbox: what diverged, by what a reviewer looks for, each line leading to its step."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from fencing.models import Verdict
from fencing.services.verdicts import GiveVerdict, give_verdict
from tests.dashboard.conftest import SignedIn
from tests.factories import make_action, make_rejected_step, make_run, make_tool, make_vote, soon
from tests.stories import NOTE, OTHER_REFUND, REFUND, Story

pytestmark = pytest.mark.django_db
MOST_QUERIES = 9


def diverged(story: Story, step: str, production: Any = OTHER_REFUND, **members: Any) -> None:
    story.propose(step)
    story.vote(story.production, production, step, **members)
    story.vote(story.replica, REFUND, step)
    story.decide()


def found(client: Client, **query: str) -> list[str]:
    answer = client.get("/divergences", query)
    assert answer.status_code == 200
    return [line.step for line, *_ in answer.context["rows"]]


@pytest.fixture
def story() -> Story:
    """A run with one step of each kind; the first was judged."""
    story = Story.begin()
    diverged(story, "args", model="m-1")
    diverged(story, "tool", NOTE, model="m-2")
    story.propose("pinned", action=dict(OTHER_REFUND))
    for path in (story.production, story.replica):
        story.vote(path, REFUND, "pinned")
    story.propose("two-faced")
    for action in (REFUND, OTHER_REFUND):
        story.vote(story.production, action, "two-faced")
    story.decide()
    story.agree("agreed", NOTE)
    judge(story, "args")
    return story


def judge(story: Story, step: str) -> None:
    choice = Verdict.Choice.BOTH_WRONG
    give_verdict(GiveVerdict(run=story.run, step=step, epoch=7, verdict=choice, note="", seen=None), story.reviewer)


def test_nothing_diverged_yet(signed_in: SignedIn) -> None:
    assert "No step has diverged" in signed_in().get("/divergences").content.decode()


def test_divergences_stand_newest_first_and_lead_to_their_steps(signed_in: SignedIn, story: Story) -> None:
    client = signed_in()
    page = client.get("/divergences").content.decode()
    assert set(found(client)) == {"args", "tool", "pinned", "two-faced"}
    assert f'href="/runs/{story.run}/steps/tool?epoch=7"' in page
    assert "another tool" in page
    assert "both were wrong" in page


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        ({"reason": "divergence"}, {"args", "tool"}),
        ({"reason": "equivocation"}, {"two-faced"}),
        ({"reason": "proposal_mismatch"}, {"pinned"}),
        ({"difference": "other_tool"}, {"tool"}),
        ({"tool": "send_note"}, {"tool"}),
        ({"model": "m-1"}, {"args"}),
        ({"verdict": "both_wrong"}, {"args"}),
        ({"verdict": "none"}, {"tool", "pinned", "two-faced"}),
        ({"verdict": "none", "model": "m-2", "reason": "divergence"}, {"tool"}),
        ({"age": "1h"}, {"args", "tool", "pinned", "two-faced"}),
        ({"age": "nonsense"}, {"args", "tool", "pinned", "two-faced"}),
        ({"reason": "agreement"}, set()),
        ({"tool": "\x00</script>"}, set()),
    ],
)
def test_filters_narrow_the_list(signed_in: SignedIn, story: Story, query: dict[str, str], steps: set[str]) -> None:
    assert set(found(signed_in(), **query)) == steps


def test_old_ones_are_left_out_by_age(signed_in: SignedIn) -> None:
    run = make_run()
    make_rejected_step(run=run, name="old", decided_at=soon(-3 * 86_400))
    make_rejected_step(run=run, name="new")
    client = signed_in()
    assert found(client, age="24h") == ["new"]
    assert found(client, age="7d") == ["new", "old"]


def test_a_filter_without_a_match_says_so(signed_in: SignedIn, story: Story) -> None:
    page = signed_in().get("/divergences", {"tool": "none"}).content.decode()
    assert "No divergence like that" in page


def test_a_replayed_divergence_says_so(signed_in: SignedIn, story: Story) -> None:
    story.replay("args")
    page = signed_in().get("/divergences", {"model": "m-1"}).content.decode()
    assert "replayed" in page


def test_pages_neither_skip_nor_repeat_and_cost_the_same_queries(
    signed_in: SignedIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run, tool = make_run(), make_tool()
    actions = [make_action(tool=tool, invoice=number) for number in range(2)]
    names = {f"s-{number:03}" for number in range(120)}
    for name in names:
        step = make_rejected_step(run=run, tool=tool, name=name)
        for path, action in zip(("production", "replica"), actions, strict=True):
            make_vote(step=step, path=path, action=action, is_late=True)
    client = signed_in(Group.REVIEWER)
    seen: list[str] = []
    url = "/divergences"
    while url:
        with django_assert_max_num_queries(MOST_QUERIES):
            answer = client.get(url)
        seen += [line.step for line, *_ in answer.context["rows"]]
        url = answer.context["pager"].next_url
    assert len(seen) == len(names)
    assert set(seen) == names


@pytest.mark.parametrize("cursor", ["nonsense", "%00", "a" * 300])
def test_a_cursor_that_no_list_gave_begins_at_the_newest(signed_in: SignedIn, story: Story, cursor: str) -> None:
    assert len(found(signed_in(), cursor=cursor)) == 4


def test_the_rows_are_a_live_part(signed_in: SignedIn, story: Story) -> None:
    client = signed_in()
    first = client.get("/divergences", {"part": "rows"})
    again = client.get("/divergences", {"part": "rows"}, headers={"If-None-Match": first["ETag"]})
    diverged(story, "news")
    changed = client.get("/divergences", {"part": "rows"}, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, changed.status_code) == (200, 304, 200)
