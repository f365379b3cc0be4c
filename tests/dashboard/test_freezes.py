"""Freezes, outages and authority on pages: stopped in two taps, three hundred steps in one confirmation, any moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from fencing.models import Freeze, Grant, SideLogRow
from fencing.protocol.moments import read_moment
from fencing.services import steps as steps_service
from fencing.services import votes
from fencing.services.requests import CastVote, ProposeStep
from tests.people import confirm
from tests.stories import REFUND, Story

pytestmark = pytest.mark.django_db
REASON = "it refunds everybody"
MakePerson = Callable[..., User]


@pytest.fixture
def story() -> Story:
    return Story.begin()


@pytest.fixture
def acting(person: MakePerson) -> Callable[..., Client]:
    def client_of(name: str = "omar", *groups: Group) -> Client:
        client = Client()
        client.force_login(person(*(groups or (Group.ONCALL,)), name=name))
        confirm(client)
        return client

    return client_of


def waiting_step(story: Story, step: str = "s1", action: Any = REFUND) -> None:
    story.propose(step)
    story.vote(story.production, action, step)


def shown(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


# -- freezes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "tool", "is_run"),
    [("tool:refund", "refund", False), ("run:{run}", None, True), ("everything", None, False)],
)
def test_a_scope_is_frozen_once_however_often_it_is_tapped(
    acting: Callable[..., Client], story: Story, scope: str, tool: str | None, is_run: bool
) -> None:
    client = acting()
    typed = {"scope": scope.format(run=story.run), "reason": REASON}
    places = {client.post("/freezes/set", typed)["Location"] for _ in range(2)}
    freeze = Freeze.objects.get()
    assert places == {f"/freezes/{freeze.id}#main"}
    assert (freeze.tool, freeze.run is not None) == (tool, is_run)


@pytest.mark.parametrize(
    "typed", [{"scope": "tool:refund", "reason": " "}, {"scope": "elsewhere", "reason": REASON}, {"reason": REASON}]
)
def test_a_freeze_needs_a_scope_and_a_reason_and_keeps_what_was_typed(
    acting: Callable[..., Client], story: Story, typed: dict[str, str]
) -> None:
    answer = acting().post("/freezes/set", typed)
    assert answer.status_code == 422
    assert Freeze.objects.count() == 0


def test_nobody_freezes_or_lifts_by_opening_a_link(acting: Callable[..., Client], story: Story) -> None:
    client = acting()
    assert client.get("/freezes/set", {"scope": "everything", "reason": REASON}).status_code == 405
    client.post("/freezes/set", {"scope": "everything", "reason": REASON})
    freeze = Freeze.objects.get()
    assert client.get(f"/freezes/{freeze.id}/lift").status_code == 405
    assert Freeze.objects.get().lifted_at is None


def test_a_freeze_is_on_every_page_until_another_person_lifts_it(acting: Callable[..., Client], story: Story) -> None:
    client, other = acting(), acting("lena")
    client.post("/freezes/set", {"scope": "tool:refund", "reason": REASON})
    freeze = Freeze.objects.get()
    for path in ("/", "/runs", "/grants", "/more"):
        assert REASON in shown(other, path)
    own = shown(client, f"/freezes/{freeze.id}")
    assert "You set this freeze: another person lifts it." in own
    lift = {"reason": "the tool was mended and tried"}
    assert client.post(f"/freezes/{freeze.id}/lift", lift).status_code == 403
    assert other.post(f"/freezes/{freeze.id}/lift", lift).status_code == 302
    assert REASON not in shown(other, "/runs")
    assert "the tool was mended and tried" in shown(client, f"/freezes/{freeze.id}")


def test_who_lifts_what_another_lifted_meanwhile_sees_who_and_why(acting: Callable[..., Client], story: Story) -> None:
    acting().post("/freezes/set", {"scope": "tool:refund", "reason": REASON})
    url = f"/freezes/{Freeze.objects.get().id}"
    late = acting("nils")
    facts = re.search(r'name="facts" value="([^"]*)"', shown(late, url))
    assert facts
    assert acting("lena").post(f"{url}/lift", {"reason": "the tool was mended"}).status_code == 302
    answer = late.post(f"{url}/lift", {"reason": "finance says that it is fine", "facts": facts.group(1)})
    told = answer.content.decode()
    assert answer.status_code == 409
    assert re.search(r"<td[^>]*>.*stands.*</td><td[^>]*>.*lifted by lena at .*Z.*</td>", told)
    assert "the tool was mended" in told
    assert "finance says that it is fine" in told
    assert f'href="{url}"' in told
    assert f'action="{url}/lift"' not in told


def test_who_is_not_on_call_freezes_nothing(acting: Callable[..., Client], story: Story) -> None:
    client = acting("rita", Group.REVIEWER)
    assert client.post("/freezes/set", {"scope": "everything", "reason": REASON}).status_code == 403
    assert "This is for the group on-call" in shown(client, "/freezes")


def test_the_page_of_a_freeze_that_is_not_there_is_not_found(acting: Callable[..., Client]) -> None:
    client = acting()
    assert client.get("/freezes/01a22b40-56cf-72b2-93ed-8f38b0640d29").status_code == 404
    assert client.get("/freezes/none").status_code == 404


# -- outages ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def silence(settings: Any) -> None:
    settings.FENCE_SILENCE_S = 0


def chosen(page: str) -> list[str]:
    return re.findall(r'name="step"\s+value="([^"]+)"', page)


def test_three_hundred_waiting_steps_are_one_confirmation(
    acting: Callable[..., Client], story: Story, silence: None, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    names = [f"s-{number:03}" for number in range(300)]
    steps_service.propose_steps([ProposeStep(run=story.run, step=name, epoch=7) for name in names], story.planner)
    ballots = [
        CastVote(run=story.run, step=name, epoch=7, action={"tool": "refund", "args": {"invoice": name, "cents": 1}})
        for name in names
    ]
    votes.cast_votes(ballots, story.production)
    client = acting()
    assert "is silent" in re.sub("<[^>]+>", "", shown(client, "/runs"))
    with django_assert_max_num_queries(20):
        page = shown(client, "/outages/replica")
    steps = chosen(page)
    assert len(steps) == 300
    typed = {"step": steps, "reason": "the replica's host is down", "minutes": "15", "batch": "outage-1"}
    with django_assert_max_num_queries(60):
        answer = client.post("/outages/replica/grants", typed)
    assert answer.status_code == 200
    assert Grant.objects.count() == 300
    again = client.post("/outages/replica/grants", typed)
    assert "issued before" in again.content.decode()
    assert Grant.objects.count() == 300
    with django_assert_max_num_queries(20):
        assert "0 of 300 steps committed" in shown(client, "/outages/replica/batches/outage-1")


def test_what_cannot_be_granted_is_told_step_by_step(
    acting: Callable[..., Client], story: Story, silence: None
) -> None:
    waiting_step(story)
    waiting_step(story, "s2")
    client = acting()
    steps = chosen(shown(client, "/outages/replica"))
    story.vote(story.replica, step="s2")
    story.decide()
    typed = {
        "step": [*steps, "a/b", "no/such/7/production//"],
        "reason": "the replica is down",
        "minutes": "5",
        "batch": "b",
    }
    page = client.post("/outages/replica/grants", typed).content.decode()
    assert page.count("refused") >= 2
    assert Grant.objects.count() == 1


@pytest.mark.parametrize(
    "members", [{"step": []}, {"reason": ""}, {"minutes": "soon"}, {"minutes": "0"}, {"batch": "not a name"}]
)
def test_a_form_that_is_not_whole_issues_nothing(
    acting: Callable[..., Client], story: Story, silence: None, members: dict[str, Any]
) -> None:
    waiting_step(story)
    client = acting()
    typed = {
        "step": chosen(shown(client, "/outages/replica")),
        "reason": "the replica is down",
        "minutes": "5",
        "batch": "b",
    }
    answer = client.post("/outages/replica/grants", {**typed, **members})
    assert answer.status_code == 422
    assert Grant.objects.count() == 0


def test_those_that_timed_out_are_replayed_by_a_reviewer(
    acting: Callable[..., Client], story: Story, silence: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.propose("late", deadline_s=1)
    story.vote(story.production, step="late")
    wait_for_timeout(story)
    client = acting("rita", Group.REVIEWER)
    steps = chosen(shown(client, "/outages/replica"))
    assert steps == [f"{story.run}/late/7"]
    page = client.post("/outages/replica/replays", {"step": steps, "reason": "the replica is back"}).content.decode()
    assert "it goes on in epoch 8" in page
    assert acting().post("/outages/replica/replays", {"step": steps, "reason": "x"}).status_code == 403


def wait_for_timeout(story: Story) -> None:
    until = datetime.now(UTC) + timedelta(seconds=5)
    while story.step("late")["phase"] != "rejected":
        assert datetime.now(UTC) < until
        story.decide()


@pytest.mark.parametrize("path", ["%00", "a b", "x" * 201])
def test_a_path_of_no_name_is_not_found(acting: Callable[..., Client], path: str) -> None:
    assert acting().get(f"/outages/{path}").status_code == 404


def test_no_silence_says_so(acting: Callable[..., Client], story: Story) -> None:
    assert "No path is silent" in shown(acting(), "/outages")


def test_the_banner_is_a_part_of_its_own(acting: Callable[..., Client], story: Story) -> None:
    client = acting()
    assert client.get("/banners")["Location"] == "/"
    first = client.get("/banners", {"part": "banners", "on": "/runs"})
    client.post("/freezes/set", {"scope": "everything", "reason": REASON})
    then = client.get("/banners", {"part": "banners", "on": "/runs"}, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, then.status_code) == (200, 200)
    assert REASON in then.content.decode()
    assert SideLogRow.objects.count() == 0


# -- authority -------------------------------------------------------------------------------------------------------


def test_authority_is_told_as_of_now_and_as_of_then(acting: Callable[..., Client], story: Story) -> None:
    client = acting()
    before = datetime.now(UTC) - timedelta(seconds=1)
    name = str(story.grant(tool="refund")["name"])
    assert name in shown(client, "/authority")
    past = shown(client, "/authority", at=before.strftime("%Y-%m-%dT%H:%M:%S"))
    assert name not in past
    assert "could act alone" in past


@pytest.mark.parametrize("at", ["2999-01-01T00:00", "yesterday", "\x00", "9" * 500])
def test_a_moment_that_is_none_or_to_come_is_told(acting: Callable[..., Client], story: Story, at: str) -> None:
    answer = acting().get("/authority", {"at": at})
    assert answer.status_code == 422
    assert "as of now" in answer.content.decode()


def test_a_moment_without_a_zone_is_in_utc_wherever_the_server_stands() -> None:
    naive, told = read_moment("2026-01-01T00:00:00"), read_moment("2025-12-31T21:00:00-03:00")
    assert naive == told == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_viewer_reads_no_authority(person: MakePerson) -> None:
    client = Client()
    client.force_login(person(Group.VIEWER, name="vera"))
    assert client.get("/authority").status_code == 403
