"""Grades on pages: the gate and why, every cell of an attempt, what was refused and spent, and resuming a lane."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from dashboard.presenters import grades as presenter
from fencing.environment import Price
from fencing.models import AuditEvent, Lane, LaneThresholds, SideLogRow
from fencing.protocol.callers import Role
from fencing.queries import grade_pages
from fencing.services import gating, grade_audit
from tests.factories import fresh
from tests.marking import Marking
from tests.people import confirm
from tests.planting import MIX, plant
from tests.stories import actor, register

pytestmark = pytest.mark.django_db
MakePerson = Callable[..., User]


@pytest.fixture
def marking() -> Marking:
    register([])
    return Marking.begin(expected=4)


@pytest.fixture
def reviewer(person: MakePerson) -> Client:
    client = Client()
    client.force_login(person(Group.REVIEWER, name="rosa"))
    confirm(client)
    return client


@pytest.fixture
def viewer(person: MakePerson) -> Client:
    client = Client()
    client.force_login(person(Group.VIEWER, name="vera"))
    return client


def shown(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    return re.sub(r"\s+", " ", answer.content.decode())


def halted(marking: Marking) -> None:
    """Publish an attempt, mix its grade behind the system's back, and let the auditor find it."""
    marking.whole(expected=4)
    assert marking.publish()["result"] == "publish"
    plant(MIX, [marking.attempt])
    grade_audit.audit_lane(marking.lane)


def test_without_a_lane_the_page_says_who_makes_one(viewer: Client) -> None:
    assert "No lane was made yet" in shown(viewer, "/lanes")


def test_a_lane_says_what_its_gate_says_and_why(viewer: Client, marking: Marking) -> None:
    marking.send(0)
    for path in ("/lanes", f"/lanes/{marking.lane}", f"/attempts/{marking.attempt}"):
        page = shown(viewer, path)
        assert "0 of 1 attempts are published" in page
        assert "misses seq 1 and 2 and 3" in page


def test_every_cell_says_what_it_is_and_leads_to_its_fragment(viewer: Client, marking: Marking) -> None:
    marking.send(0, body="old")
    marking.restart()
    marking.lease(4)
    marking.send(1, epoch=1)
    marking.send(0, epoch=2, body="new <b>& \u202e</b>", score=0.25)
    marking.send(0, epoch=2, body="another")
    marking.send(1, epoch=2)
    page = shown(viewer, f"/attempts/{marking.attempt}")
    said = re.findall(r'aria-label="(epoch \d, seq \d: [^"]*)"', page)
    assert said == [
        "epoch 2, seq 0: conflicting, score 0.25, 1 more with another body",
        "epoch 2, seq 1: accepted, score 0.5",
        "epoch 2, seq 2: in work",
        "epoch 2, seq 3: in work",
        "epoch 1, seq 0: superseded, score 0.5",
        "epoch 1, seq 1: stale, 1 came too late",
        "epoch 1, seq 2: missing",
        "epoch 1, seq 3: missing",
    ]
    assert "1 of closed epochs are on record" in page
    cell = shown(viewer, f"/attempts/{marking.attempt}/2/0")
    assert "new &lt;b&gt;" in cell
    assert "U+202E" in cell
    assert "conflicting duplicate" in cell
    assert "no: a restart dropped it" in shown(viewer, f"/attempts/{marking.attempt}/1/0")
    assert "No fragment was accepted here" in shown(viewer, f"/attempts/{marking.attempt}/1/1")
    for path in ("1/4", "3/0", "0/0"):
        assert viewer.get(f"/attempts/{marking.attempt}/{path}").status_code == 404
    for path in ("/lanes/none", "/attempts/none", "/attempts/none/1/0"):
        assert viewer.get(path).status_code == 404


def test_a_published_attempt_is_outlined_and_drawn_in_time(viewer: Client, marking: Marking) -> None:
    marking.whole(expected=4)
    marking.publish()
    page = shown(viewer, f"/attempts/{marking.attempt}")
    assert '<tr class="published">' in page
    assert "4 fragments of epoch 1, with a mean score of 0.5" in page
    read = grade_pages.read_attempt_page(marking.attempt, 0)
    assert read is not None
    figure = presenter.figure_of(read)
    assert [row[3] for row in figure.rows if "fragment" in row[3]] == [f"fragment {seq}" for seq in range(4)]
    assert figure.rows[-1][3] == "published"


def test_a_long_attempt_is_shown_a_window_at_a_time(viewer: Client, marking: Marking) -> None:
    name = fresh("attempt")
    marking.admit(name, expected=10_000)
    page = shown(viewer, f"/attempts/{name}", first="5000")
    assert "epoch 1, seq 5000: missing" in page
    assert "seq 5040:" not in page
    assert "0 to 39" in page
    assert "9960 to 9999" in page
    for nonsense in ("-1", "x", "99999999999"):
        assert viewer.get(f"/attempts/{name}", {"first": nonsense}).status_code == 200


def test_spend_stands_apart_by_what_came_of_it(viewer: Client, marking: Marking, settings: Any) -> None:
    settings.FENCE_PRICES = {"m-1": Price(tokens_in=Decimal(3), tokens_out=Decimal(15), currency="EUR")}
    live, late = marking.permit(0)["permit"], marking.permit(1)["permit"]
    marking.send(0, permit=live)
    marking.spend(live, tokens=1_000_000, model="m-1")
    marking.restart()
    marking.spend(late, tokens=1_000_000, model="m-1")
    page = shown(viewer, f"/lanes/{marking.lane}")
    assert "zombie" in page
    assert page.count("18.00 EUR") == 3, "live, zombie, and zombie spend beside the gate"
    assert "18.00 EUR" in shown(viewer, "/lanes")
    assert "epoch" in shown(viewer, f"/attempts/{marking.attempt}")


def test_a_reviewer_resumes_a_halted_lane_with_a_reason(reviewer: Client, marking: Marking) -> None:
    halted(marking)
    page = shown(reviewer, f"/lanes/{marking.lane}")
    assert "mixed grade" in page
    assert "it holds fragments of epoch 1 and 2" in page
    url = f"/lanes/{marking.lane}/resume"
    assert reviewer.post(url, {"reason": "", "halt": "1"}).status_code == 422
    assert reviewer.post(url, {"reason": "An older halt was seen.", "halt": "0"}).status_code == 409
    answer = reviewer.post(url, {"reason": "It was a drill; see the log.", "halt": "1"}, follow=True)
    assert "The lane runs again" in answer.content.decode()
    lane = Lane.objects.get(name=marking.lane)
    assert lane.state == "running"
    page = shown(reviewer, f"/lanes/{marking.lane}")
    assert "It was a drill; see the log." in page
    assert "Resume…" not in page
    assert "rosa" in page


ASKED = {"min_published": "2", "min_mean": "0.9", "reason": "for <b>the launch</b>", "version": "1"}


def test_a_reviewer_asks_something_else_of_a_lane_and_it_stands_in_the_trail(
    reviewer: Client, marking: Marking
) -> None:
    url = f"/lanes/{marking.lane}/thresholds"
    answer = reviewer.post(url, ASKED, follow=True)
    assert "Stored: the gate goes by version 2 from now on." in answer.content.decode()
    (first, second) = LaneThresholds.objects.filter(lane__name=marking.lane).order_by("version")
    assert (first.thresholds, second.thresholds) == ({}, {"min_mean": 0.9, "min_published": 2})
    assert second.person is not None
    assert second.person.get_username() == "rosa"
    event = AuditEvent.objects.get(verb="set_thresholds")
    assert (event.actor, event.role, event.reason) == ("rosa (browser)", "reviewer", "for <b>the launch</b>")
    assert (event.before, event.after) == (
        {"thresholds": {}}, {"thresholds": {"min_mean": 0.9, "min_published": 2}, "version": 2},
    )  # fmt: skip
    page = shown(reviewer, f"/lanes/{marking.lane}")
    assert "0 of at least 2 grades are published" in page
    assert "for &lt;b&gt;the launch" in page
    assert re.search(r"version 1 .*nothing asked", page)
    assert 'name="min_mean" value="0.9"' in page
    assert "You had asked this already" in reviewer.post(url, ASKED, follow=True).content.decode()
    assert LaneThresholds.objects.filter(lane__name=marking.lane).count() == 2


def test_who_saw_an_older_version_sees_what_is_asked_now_and_keeps_what_they_typed(
    reviewer: Client, marking: Marking
) -> None:
    page = shown(reviewer, f"/lanes/{marking.lane}")
    (facts,) = re.findall(r'name="facts" value="([^"]+)"', page)
    marking.ask({"max_reject_ratio": 0.1}, "too many came late")
    answer = reviewer.post(f"/lanes/{marking.lane}/thresholds", {**ASKED, "facts": facts})
    assert answer.status_code == 409
    html = re.sub(r"\s+", " ", answer.content.decode())
    assert "It changed while you looked" in html
    for word, seen, now in (("version", "1", "2"), ("max reject ratio", "not there", r"0\.1")):
        assert re.search(rf"{word}</th><td[^>]*>.*{seen}.*</td><td[^>]*>.*{now}", html), word
    assert "too many came late" in html
    assert 'name="min_mean" value="0.9"' in html
    assert 'name="version" value="2"' in html
    assert LaneThresholds.objects.filter(lane__name=marking.lane).count() == 2
    assert SideLogRow.objects.get(reason="changed").lane == marking.lane
    for number in ("", "0", "two", "9" * 40):
        assert reviewer.post(f"/lanes/{marking.lane}/thresholds", {**ASKED, "version": number}).status_code == 409
    assert reviewer.post(f"/lanes/{marking.lane}/thresholds", {**ASKED, "version": "2"}).status_code == 302


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("min_published", "1.5"),
        ("min_published", "-1"),
        ("min_published", "1,000"),
        ("max_unacknowledged", "many"),
        ("min_mean", "0,9"),
        ("min_mean", "nan"),
        ("max_reject_ratio", "1.5"),
        ("max_reject_ratio", "2 %"),
        ("reason", " "),
    ],
)
def test_a_threshold_that_is_none_is_told_at_its_field(
    reviewer: Client, marking: Marking, field: str, typed: str
) -> None:
    answer = reviewer.post(f"/lanes/{marking.lane}/thresholds", {**ASKED, field: typed})
    assert answer.status_code == 422
    assert f'id="thresholds-{field}_errors"' in answer.content.decode()
    assert LaneThresholds.objects.filter(lane__name=marking.lane).count() == 1


def test_thresholds_are_asked_by_reviewers_who_have_just_confirmed(
    client: Client, viewer: Client, person: MakePerson, marking: Marking
) -> None:
    url = f"/lanes/{marking.lane}/thresholds"
    client.force_login(person(Group.REVIEWER))
    asked = client.post(url, ASKED, headers={"Referer": f"http://testserver/lanes/{marking.lane}"})
    assert asked.status_code == 303
    confirm(client)
    again = client.get(parse_qs(urlsplit(asked["Location"]).query)["next"][0]).content.decode()
    assert 'name="min_mean" value="0.9"' in again
    assert viewer.post(url, ASKED).status_code == 403
    assert "This is for the group reviewer" in shown(viewer, f"/lanes/{marking.lane}")
    assert LaneThresholds.objects.filter(lane__name=marking.lane).count() == 1


def test_a_viewer_is_told_why_the_button_does_nothing(viewer: Client, marking: Marking) -> None:
    halted(marking)
    page = shown(viewer, f"/lanes/{marking.lane}")
    assert 'aria-disabled="true"' in page
    assert viewer.post(f"/lanes/{marking.lane}/resume", {"reason": "x", "halt": "1"}).status_code == 403
    assert Lane.objects.get(name=marking.lane).state == "halted"


def test_what_the_gate_said_stands_on_the_lane(viewer: Client, marking: Marking) -> None:
    by = actor(Role.GATE)
    gating.read_gate(marking.lane, by)
    assert by.name in shown(viewer, f"/lanes/{marking.lane}")


def test_pages_ask_no_more_for_many_lanes_and_fragments_than_for_few(
    viewer: Client, marking: Marking, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(8):
        other = Marking.begin()
        other.whole()
        other.publish()
    for seq in range(4):
        marking.send(seq)
        marking.send(seq, body="another")
    with django_assert_max_num_queries(20):
        viewer.get("/lanes")
    with django_assert_max_num_queries(32):
        viewer.get(f"/lanes/{marking.lane}")
    with django_assert_max_num_queries(32):
        viewer.get(f"/attempts/{marking.attempt}")


def test_a_published_grade_leads_who_may_to_its_evidence(viewer: Client, reviewer: Client, marking: Marking) -> None:
    marking.whole(expected=4)
    page = f"/attempts/{marking.attempt}"
    assert "Evidence…" not in shown(reviewer, page)
    marking.publish()
    assert "Evidence…" not in shown(viewer, page)
    assert f'href="/evidence/grade/{marking.attempt}"' in shown(reviewer, page)
    assert "4 fragments of epoch 1" in shown(reviewer, f"/evidence/grade/{marking.attempt}")
