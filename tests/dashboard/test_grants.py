"""The pages of grants: what is issued is issued once, what is decided is decided by POST, and everything says why."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from fencing.models import Grant, Run, SideLogRow
from tests.factories import make_grant, make_user, soon
from tests.people import confirm
from tests.stories import OTHER_REFUND, REFUND, Story

pytestmark = pytest.mark.django_db
REASON = "the replica's host is down since 02:10"
SCRIPT = "</script><script>alert(1)</script>"
TURNED = "please pay in\u202evoice 9 to acc\u200bount 42"
LOOKALIKE = "see https://p\u0430ypal.example/login"
WIRE: dict[str, Any] = {"tool": "wire", "args": {"to": "IBAN 9", "cents": 1}}
MakePerson = Callable[..., User]


@pytest.fixture
def story() -> Story:
    return Story.begin()


@pytest.fixture
def acting(person: MakePerson) -> Callable[..., Client]:
    """A client of somebody on call who has just confirmed who they are."""

    def client_of(name: str = "omar", *groups: Group, is_confirmed: bool = True) -> Client:
        client = Client()
        client.force_login(person(*(groups or (Group.ONCALL,)), name=name))
        if is_confirmed:
            confirm(client)
        return client

    return client_of


def waiting_step(story: Story, step: str = "s1", action: Any = REFUND) -> None:
    story.propose(step)
    story.vote(story.production, action, step)


def form(story: Story, **members: str) -> dict[str, str]:
    """What the form sends when its scope was filled in from a step."""
    filled = {"run": story.run, "step": "s1", "tool": "refund", "epoch": "7", "max_uses": "1", "minutes": "15"}
    return {**filled, "path": "production", "name": "night-1", "reason": REASON, **members}


def shown(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


# -- issuing ---------------------------------------------------------------------------------------------------------


def test_a_grant_is_issued_with_a_reason_beyond_its_scope(acting: Callable[..., Client], story: Story) -> None:
    waiting_step(story)
    answer = acting().post("/new-grant/issue", form(story))
    assert answer["Location"] == "/grants/night-1#main"
    grant = Grant.objects.get()
    assert (grant.issuer.get_username(), grant.reason, grant.step_name, grant.ttl_s) == ("omar", REASON, "s1", 900)


def test_a_double_click_issues_one_grant_also_without_scripts(acting: Callable[..., Client], story: Story) -> None:
    waiting_step(story)
    client = acting()
    places = {client.post("/new-grant/issue", form(story))["Location"] for _ in range(3)}
    assert places == {"/grants/night-1#main"}
    assert Grant.objects.count() == 1
    assert "It was issued already" in shown(client, "/grants/night-1")


def test_an_issuer_who_did_not_confirm_sends_nothing_and_loses_nothing(
    acting: Callable[..., Client], story: Story
) -> None:
    waiting_step(story)
    client = acting(is_confirmed=False)
    answer = client.post("/new-grant/issue", form(story))
    assert answer.status_code == 303
    assert Grant.objects.count() == 0
    way = re.search(r"kept%3D([\w-]+)", answer["Location"])
    assert way
    page = shown(client, "/new-grant/issue", kept=way.group(1))
    assert Grant.objects.count() == 0
    assert REASON.replace("'", "&#x27;") in page
    assert 'value="night-1"' in page


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"reason": " short "}, "with 10 visible characters or more"),
        ({"reason": "\u200b" * 30}, "with 10 visible characters or more"),
        ({"run": "no such run"}, "must be 1 to 200 characters"),
        ({"tool": "none"}, "No tool none is registered."),
        ({"minutes": "soon"}, "ttl_s"),
        ({"minutes": "16"}, "900 s at most"),
        ({"max_uses": "0"}, "max_uses"),
        ({"step": "", "tool": ""}, "A grant names a step or a tool"),
        ({"path": "replica"}, "only with the exact digest"),
        ({"digest": "sha256:00"}, "64 lower-case hexadecimal digits"),
    ],
)
def test_what_is_wrong_is_told_beside_what_was_typed(
    acting: Callable[..., Client], story: Story, members: dict[str, str], told: str
) -> None:
    waiting_step(story)
    answer = acting().post("/new-grant/issue", form(story, **members))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert told in page
    assert 'value="night-1"' in page
    assert Grant.objects.count() == 0


def test_a_stale_page_is_told_so_and_keeps_its_reason(acting: Callable[..., Client], story: Story) -> None:
    waiting_step(story)
    story.restart()
    answer = acting().post("/new-grant/issue", form(story))
    assert answer.status_code == 409
    assert REASON.replace("'", "&#x27;") in answer.content.decode()
    assert Grant.objects.count() == 0
    assert SideLogRow.objects.filter(kind="grant", reason="stale_epoch").count() == 1


def test_a_grant_that_is_in_the_way_is_named(acting: Callable[..., Client], story: Story) -> None:
    waiting_step(story)
    client = acting()
    client.post("/new-grant/issue", form(story))
    answer = client.post("/new-grant/issue", form(story, name="night-2"))
    assert answer.status_code == 409
    assert 'href="/grants/night-1"' in answer.content.decode()


def test_the_epoch_that_was_shown_is_the_one_that_is_issued(acting: Callable[..., Client], story: Story) -> None:
    waiting_step(story)
    client = acting()
    part = shown(client, "/new-grant", part="preview", run=story.run, tool="refund")
    assert 'name="shown_epoch" value="7"' in part
    client.post("/new-grant/issue", form(story, epoch="", shown_epoch="7"))
    assert Grant.objects.get().epoch == 7


def test_the_form_says_what_it_would_let_through_and_what_it_cannot(
    acting: Callable[..., Client], story: Story, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    waiting_step(story)
    waiting_step(story, "diverged", OTHER_REFUND)
    story.vote(story.replica, REFUND, "diverged")
    story.decide()
    for number in range(30):
        waiting_step(story, f"more-{number}", {"tool": "refund", "args": {"invoice": number, "cents": 1}})
    client = acting()
    with django_assert_max_num_queries(24):
        part = shown(client, "/new-grant", part="preview", run=story.run, tool="refund", max_uses="2")
    assert "2 steps" in part
    assert "a visible divergence beats every grant" in part or "diverged" in part
    assert "Not needed to begin" in part


@pytest.mark.parametrize(
    "query",
    [{}, {"run": "none"}, {"run": "\x00"}, {"run": "x" * 5000, "tool": "y"}, {"epoch": "9" * 30, "minutes": "1e99"}],
)
def test_the_preview_answers_at_every_keystroke(
    acting: Callable[..., Client], story: Story, query: dict[str, str]
) -> None:
    shown(acting(), "/new-grant", part="preview", **query)


def test_who_is_not_on_call_reads_why_and_cannot_issue(person: MakePerson, story: Story) -> None:
    client = Client()
    client.force_login(person(Group.VIEWER, name="vera"))
    confirm(client)
    assert "This is for the group on-call" in shown(client, "/new-grant")
    assert client.post("/new-grant/issue", form(story)).status_code == 403
    assert Grant.objects.count() == 0


# -- deciding --------------------------------------------------------------------------------------------------------


@pytest.fixture
def pending(acting: Callable[..., Client], story: Story) -> str:
    waiting_step(story, action=WIRE)
    acting("lena").post("/new-grant/issue", form(story, tool="wire"))
    assert Grant.objects.get().live_at is None
    return "night-1"


def seen_in(page: str) -> str:
    found = re.search(r'name="seen" value="([^"]*)"', page)
    assert found
    return found.group(1)


def test_a_scanner_that_opens_every_link_decides_nothing(acting: Callable[..., Client], pending: str) -> None:
    client = acting()
    for act in ("approve", "revoke", "review"):
        for call in (client.get, client.head):
            assert call(f"/grants/{pending}/{act}").status_code == 405
        assert Client().get(f"/grants/{pending}/{act}").status_code == 302
    assert Client().get(f"/grants/{pending}").status_code == 302
    assert Grant.objects.get().live_at is None
    page = shown(client, f"/grants/{pending}")
    client.post(f"/grants/{pending}/approve", {"reason": "seen with finance", "seen": seen_in(page)})
    assert Grant.objects.get().live_at is not None


def test_an_approval_without_the_forms_token_is_nothing(person: MakePerson, pending: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(Group.ONCALL, name="omar"))
    confirm(client)
    assert client.post(f"/grants/{pending}/approve", {"reason": "seen with finance"}).status_code == 403
    assert Grant.objects.get().live_at is None


def test_the_issuer_approves_nothing_of_their_own(pending: str) -> None:
    client = Client()
    client.force_login(User.objects.get(username="lena"))
    confirm(client)
    assert "A second person approves, never the issuer." in shown(client, f"/grants/{pending}")
    answer = client.post(
        f"/grants/{pending}/approve", {"reason": "it is fine, really", "seen": "pending.0.0.unreviewed"}
    )
    assert answer.status_code == 403
    assert Grant.objects.get().live_at is None


def test_who_approves_what_changed_meanwhile_sees_what_changed(acting: Callable[..., Client], pending: str) -> None:
    client = acting()
    page = shown(client, f"/grants/{pending}")
    facts = re.search(r'name="facts" value="([^"]*)"', page)
    assert facts
    typed = {"reason": "seen with finance", "seen": seen_in(page), "facts": facts.group(1)}
    other = acting("nils")
    other.post(f"/grants/{pending}/revoke", {"reason": "not needed any more"})
    answer = client.post(f"/grants/{pending}/approve", typed)
    told = answer.content.decode()
    assert answer.status_code == 409
    assert "There is nothing left of this to decide." in told
    assert re.search(r"<th scope=\"row\">state</th><td[^>]*>.*pending.*</td><td[^>]*>.*revoked.*</td>", told)
    assert "seen with finance" in told
    assert f'href="/grants/{pending}"' in told
    assert "nils revoked the grant." in told
    assert f'action="/grants/{pending}/approve"' not in told
    assert Grant.objects.get().live_at is None


def test_a_double_approval_is_one_approval(acting: Callable[..., Client], pending: str) -> None:
    client = acting()
    seen = seen_in(shown(client, f"/grants/{pending}"))
    for _ in range(2):
        answer = client.post(f"/grants/{pending}/approve", {"reason": "seen with finance", "seen": seen})
        assert answer.status_code == 302
    assert Grant.objects.get().approvals.count() == 1


def test_a_revocation_lists_what_was_stored(acting: Callable[..., Client], story: Story) -> None:
    _, name = story.go_alone()
    client = acting()
    answer = client.post(f"/grants/{name}/revoke", {"reason": "the replica is back"}, follow=True)
    page = answer.content.decode()
    assert "Stopped: 1. Already out: 0." in page
    assert "Stopped before it left" in page
    assert f'href="/runs/{story.run}/steps/s1?epoch=7"' in page
    again = client.post(f"/grants/{name}/revoke", {"reason": "the replica is back"}, follow=True)
    assert "It had been revoked already" in again.content.decode()


def test_a_review_takes_the_issuer_out_of_debt(acting: Callable[..., Client], story: Story) -> None:
    _, name = story.go_alone()
    client = acting("rita", Group.REVIEWER)
    assert name in shown(client, "/reviews")
    seen = seen_in(shown(client, f"/grants/{name}"))
    client.post(f"/grants/{name}/review", {"reason": "right: the refund was due", "seen": seen})
    assert "Nothing is owed" in shown(client, "/reviews")
    assert "reviewed by rita" in shown(client, "/grants")


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [SCRIPT, TURNED, LOOKALIKE])
def test_deceiving_reasons_are_spelt_wherever_they_stand(
    acting: Callable[..., Client], story: Story, text: str
) -> None:
    waiting_step(story)
    client = acting()
    client.post("/new-grant/issue", form(story, reason=text))
    for path in ("/grants/night-1", "/grants", "/", f"/runs/{story.run}", "/reviews"):
        page = shown(client, path)
        assert SCRIPT not in page
        assert "\u202e" not in page
        assert "\u200b" not in page
    if text == LOOKALIKE:
        assert "xn--pypal-4ve.example" in shown(client, "/grants/night-1")


def test_each_use_leads_to_its_step_and_each_refused_use_tells_why(acting: Callable[..., Client], story: Story) -> None:
    name = str(story.grant(tool="refund", max_uses=2)["name"])
    waiting_step(story)
    waiting_step(story, "diverged", OTHER_REFUND)
    story.vote(story.replica, REFUND, "diverged")
    story.decide()
    page = shown(acting(), f"/grants/{name}")
    assert f'href="/runs/{story.run}/steps/s1?epoch=7#effect"' in page
    assert "a visible divergence beats every grant" in page
    assert "What it did not let through" in page


def test_a_list_of_many_costs_as_many_queries_as_one_of_few(
    acting: Callable[..., Client], story: Story, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run, issuer = Run.objects.get(name=story.run), make_user()
    client = acting()
    for number in range(120):
        make_grant(
            run=run, tool="refund", name=f"g-{number:03}", issuer=issuer, review_due_at=soon(3600), due_at=soon(50)
        )
    seen: list[str] = []
    url = "/grants"
    while url:
        with django_assert_max_num_queries(30):
            answer = client.get(url)
        seen += [row.name for row in answer.context["rows"]()]
        url = answer.context["pager"]().next_url
    assert len(seen) == len(set(seen)) == 120
    with django_assert_max_num_queries(20):
        client.get("/reviews")
    with django_assert_max_num_queries(24):
        client.get("/grants/g-000")


@pytest.mark.parametrize("query", [{"state": "live"}, {"tool": "\x00'"}, {"state": "nonsense"}, {"cursor": "zzz"}])
def test_filters_and_cursors_of_any_kind_are_answered(
    acting: Callable[..., Client], story: Story, query: dict[str, str]
) -> None:
    story.grant(tool="refund")
    shown(acting(), "/grants", **query)


@pytest.mark.parametrize("name", ["none", "%00", "x" * 300])
def test_a_grant_that_is_not_there_is_not_found(acting: Callable[..., Client], name: str) -> None:
    assert acting().get(f"/grants/{name}").status_code == 404


def test_a_live_part_that_did_not_change_is_a_304(acting: Callable[..., Client], story: Story) -> None:
    story.grant(tool="refund")
    client = acting()
    first = client.get("/grants", {"part": "live"})
    again = client.get("/grants", {"part": "live"}, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    assert first["Fence-Now"] < again["Fence-Now"]
