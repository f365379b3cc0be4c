"""Compensations on pages: exactly what would be sent, who may decide, and decisions bound to what was seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.access import Group
from fencing.gateway import dispatching, undoings
from fencing.models import AuditEvent, Compensation, CompensationApproval, CompensationDelivery
from fencing.protocol.pushing import End, Ended
from fencing.queries.dossiers import of_compensation
from fencing.queries.evidence import make_pack
from tests.fencing.test_compensating import TWO, Undoing
from tests.fencing.test_forks import MORE, TICKET
from tests.people import confirm
from tests.pushing import LOCAL, Serving, definition, serving
from tests.stories import NOTE, TOOLS, register

pytestmark = pytest.mark.django_db
MakePerson = Callable[..., User]
REASON = "the branch lost and nobody wants the ticket"


@pytest.fixture
def story() -> Undoing:
    register([*TOOLS, *MORE, *TWO])
    story = Undoing()
    assert story.open()["status"] == 201
    assert story.fork()["status"] == 201
    return story


@pytest.fixture
def acting(person: MakePerson) -> Callable[..., Client]:
    def client_of(name: str = "rena", *groups: Group) -> Client:
        client = Client()
        client.force_login(person(*(groups or (Group.REVIEWER,)), name=name))
        confirm(client)
        return client

    return client_of


def shown(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def digest_in(html: str) -> str:
    found = re.search(r'name="digest" value="(sha256:[0-9a-f]{64})"', html)
    assert found is not None
    return found[1]


def test_the_page_shows_exactly_what_would_be_sent_and_what_that_undoes(
    acting: Callable[..., Client], story: Undoing
) -> None:
    made = story.lost()
    html = shown(acting(), f"/compensations/{made}")
    for word in (
        "close_ticket",
        "T-1",
        "phantom",
        "the agreement of all required paths",
        "branch_lost",
        "its branch lost",
    ):
        assert word in html or word.replace("_", " ") in html, word
    assert digest_in(html) == story.digest(made)
    assert "rena" in html, "who may approve"


def test_an_approval_is_bound_to_the_digest_that_was_seen(acting: Callable[..., Client], story: Undoing) -> None:
    made = story.lost()
    client = acting()
    digest = digest_in(shown(client, f"/compensations/{made}"))
    answer = client.post(f"/compensations/{made}/approve", {"digest": digest, "reason": REASON})
    assert answer.status_code == 302
    assert story.state(made) == "approved"
    row = CompensationApproval.objects.get()
    assert (row.digest, row.reason, row.person.get_username()) == (digest, REASON, "rena")
    html = shown(client, f"/compensations/{made}")
    assert "Your approval is stored: it is approved now." in html
    assert REASON in html


def test_what_changed_while_it_was_open_decides_nothing(acting: Callable[..., Client], story: Undoing) -> None:
    story.want("t", TICKET, branch="B")
    admitted = story.send("t", outcome=None)
    (made,) = story.reconcile(None)["compensations"]
    client = acting()
    seen = story.digest(made)
    html = shown(client, f"/compensations/{made}")
    assert "Whether the effect happened is not known yet" in html
    story.report(admitted, "succeeded", response={"ticket": "T-9"})
    answer = client.post(f"/compensations/{made}/approve", {"digest": seen, "reason": REASON})
    assert answer.status_code == 409
    assert "Nothing was decided." in answer.content.decode()
    assert REASON in answer.content.decode(), "what was typed is kept"
    assert story.state(made) == "proposed"


def test_two_reviewers_at_once_decide_once(acting: Callable[..., Client], story: Undoing) -> None:
    made = story.lost()
    first, second = acting("rena"), acting("rolf")
    page = shown(second, f"/compensations/{made}")
    typed = {"digest": digest_in(page), "reason": REASON}
    facts = re.search(r'name="facts" value="([^"]+)"', page)
    assert facts is not None
    first.post(f"/compensations/{made}/approve", typed)
    answer = second.post(f"/compensations/{made}/approve", {**typed, "facts": facts[1]})
    assert answer.status_code == 409
    assert "by rena" in answer.content.decode()


def test_the_button_tells_why_i_may_not(acting: Callable[..., Client], story: Undoing, person: MakePerson) -> None:
    story.want("t", TICKET)
    admitted = story.send("t", ticket="T-1")
    client = acting()
    rena = User.objects.get(username="rena")
    story.reviewer = story.reviewer.__class__(
        credential_id=None, name="browser", role=story.reviewer.role, person_id=rena.pk, person="rena"
    )
    made = story.ask(intent=admitted["intent"])["id"]
    html = shown(client, f"/compensations/{made}")
    assert "You asked for this: another person approves it." in html
    viewer = Client()
    viewer.force_login(person(Group.VIEWER, name="vera"))
    assert "you are not in it" in shown(viewer, f"/compensations/{made}")
    assert viewer.post(f"/compensations/{made}/approve", {"reason": REASON}).status_code == 403


def test_a_held_one_tells_by_whom(acting: Callable[..., Client], story: Undoing) -> None:
    made = story.lost()
    story.fork("D", "E", fork="f2")
    story.want("step-of-d", TICKET, branch="D")
    html = shown(acting(), f"/compensations/{made}")
    assert "It is held" in html
    assert "holds it" in html
    assert "step-of-d" in html


def test_letting_it_stand_stores_what_was_seen(acting: Callable[..., Client], story: Undoing) -> None:
    made = story.lost()
    client = acting()
    html = shown(client, f"/compensations/{made}")
    empty = client.post(f"/compensations/{made}/waive", {"digest": digest_in(html), "reason": " "})
    assert empty.status_code == 422
    client.post(f"/compensations/{made}/waive", {"digest": digest_in(html), "reason": "the ticket is useful"})
    row = Compensation.objects.get()
    assert (row.state, row.seen_digest, row.reason) == ("waived", digest_in(html), "the ticket is useful")


def test_what_was_done_by_hand_is_recorded(acting: Callable[..., Client], story: Undoing) -> None:
    story.want("n", NOTE)
    made = story.ask(intent=story.send("n", NOTE)["intent"])["id"]
    client = acting()
    assert "Nothing: no compensator" in shown(client, f"/compensations/{made}")
    client.post(f"/compensations/{made}/record", {"reason": "told them on the phone", "external_id": "call-1"})
    assert Compensation.objects.get().evidence == "told them on the phone"


@pytest.mark.parametrize(("happened", "state"), [("yes", "done"), ("no", "proposed")])
def test_a_doubt_is_resolved_with_evidence(
    acting: Callable[..., Client], story: Undoing, happened: str, state: str
) -> None:
    made = story.lost()
    story.approve(made)
    story.tell(story.undo(made), "unknown")
    client = acting()
    html = shown(client, f"/compensations/{made}")
    assert "It was undone…" in html
    assert "It was not undone…" in html
    client.post(f"/compensations/{made}/resolve", {"happened": happened, "reason": "seen in the ledger"})
    assert story.state(made) == state


def test_many_are_decided_as_listed_each_by_its_own_digest(acting: Callable[..., Client], story: Undoing) -> None:
    first = story.lost("one")
    story.fork("D", "E", fork="f2")
    other = {"tool": "create_ticket", "args": {"title": "second"}}
    second = story.lost("two", other, fork="f2", branch="D")
    client = acting()
    html = shown(client, f"/compensations/choose?row={first}&row={second}&row=nonsense")
    digests = dict(re.findall(r'name="digest-([0-9a-f-]+)" value="(sha256:[0-9a-f]{64})"', html))
    assert digests == {made: story.digest(made) for made in (first, second)}
    typed: dict[str, Any] = {"row": [first, second], "decision": "approve", "reason": REASON}
    typed |= {f"digest-{first}": digests[first], f"digest-{second}": digests[first]}
    client.post("/compensations/decide", typed)
    assert (story.state(first), story.state(second)) == ("approved", "proposed")


def test_the_queue_stands_in_the_order_of_undoing(acting: Callable[..., Client], story: Undoing) -> None:
    story.want("one", TICKET, branch="B")
    story.send("one", ticket="T-1")
    other = {"tool": "create_ticket", "args": {"title": "second"}}
    story.want("two", other, branch="B")
    story.send("two", other, ticket="T-2")
    made = story.reconcile(None)["compensations"]
    first, second = story.in_order(made)
    html = shown(acting(), "/compensations")
    assert html.index(second) < html.index(first)
    assert "2 effects wait for a person" in html
    detail = shown(acting("rolf"), f"/compensations/{first}")
    assert "This one comes after those above" in detail


def test_the_pages_cost_the_same_however_much_there_is(
    acting: Callable[..., Client], story: Undoing, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(6):
        story.fork(f"X{number}", f"Y{number}", fork=f"g{number}")
        action = {"tool": "create_ticket", "args": {"title": f"t{number}"}}
        story.lost(f"s{number}", action, fork=f"g{number}", branch=f"X{number}")
    client = acting()
    with django_assert_max_num_queries(20):
        shown(client, "/compensations")
    with django_assert_max_num_queries(30):
        shown(client, f"/compensations/{Compensation.objects.order_by('proposed_at').values_list('pk', flat=True)[0]}")
    with django_assert_max_num_queries(30):
        shown(client, f"/runs/{story.run}")


def test_a_run_shows_its_branches_as_a_tree_and_what_is_outstanding(
    acting: Callable[..., Client], story: Undoing
) -> None:
    story.fork("B1", "B2", fork="inner", parent="B")
    made = story.lost()
    client = acting()
    html = shown(client, f"/runs/{story.run}")
    assert "rolled back with 1 effect outstanding" in html
    assert html.index("f1") < html.index("inner")
    story.waive(made)
    assert "outstanding" not in shown(client, f"/runs/{story.run}")


def test_one_leads_who_may_to_its_evidence(acting: Callable[..., Client], story: Undoing) -> None:
    made = story.lost()
    assert story.approve(made)["state"] == "approved"
    admitted = story.undo(made)
    story.tell(admitted, "succeeded")
    assert "Evidence…" not in shown(acting("vera", Group.VIEWER), f"/compensations/{made}")
    assert f'href="/evidence/compensation/{made}"' in shown(acting(), f"/compensations/{made}")
    dossier = of_compensation(made)
    assert dossier is not None
    assert dossier.sentence == "The undoing of an effect of create_ticket, for branch_lost: done."
    assert [len(dossier.facts[name]) for name in ("compensation", "approvals", "releases", "undoing", "undone")] == [
        1
    ] * 5
    assert len(dossier.facts["commits"]) == len(dossier.facts["deliveries"]) == 1
    assert {("compensation", made), ("delivery", admitted["delivery"])} <= set(dossier.subjects)
    assert make_pack("compensation", made) is not None
    assert of_compensation("no-id") is None


def test_each_call_is_shown_by_whom_and_with_what_is_known_of_it(acting: Callable[..., Client], story: Undoing) -> None:
    made = story.lost()
    client = acting()
    assert "Nobody approved it yet." in shown(client, f"/compensations/{made}")
    story.approve(made)
    assert "No call was made yet" in shown(client, f"/compensations/{made}")
    busy = story.undo(made)
    story.tell(busy, "busy", retry_after=0)
    story.tell(story.undo(made), "succeeded", response={"closed": "C-17"})
    html = shown(client, f"/compensations/{made}")
    for word in (busy["idempotency_key"], "C-17", story.gateway.name, "of approval 1", "busy", "succeeded"):
        assert word in html, word


def test_an_effect_and_a_resource_lead_to_what_undoes_them(acting: Callable[..., Client], server: Serving) -> None:
    """Of a push tool: called by this system, and said by nobody's gateway."""
    args = {"invoice": {"from": "action", "pointer": "/args/invoice"}}
    early = definition(server, optimistic=True, compensator={"tool": "unpay", "args": args})
    register([early, {**definition(server), "tool": "unpay"}])
    story = Undoing()
    story.open()
    story.fork()
    intent = story.want("p", {"tool": "pay", "args": {"invoice": "inv-9"}}, branch="B")["intent"]["id"]
    told_by_the_tool(200, {"id": "eff-1"})
    (made,) = story.reconcile(None)["compensations"]
    client = acting()
    for path in (f"/effects/{intent}", "/resource?q=inv-9"):
        html = shown(client, path)
        assert f'href="/compensations/{made}"' in html
        assert "no call yet" in html
    story.approve(made)
    undoings.release_due()
    told_by_the_tool(500, {})
    for path in (f"/effects/{intent}", "/resource?q=inv-9"):
        assert "1 call, the last one unknown" in shown(client, path)
    for path in (f"/effects/{intent}", f"/compensations/{made}"):
        html = shown(client, path)
        assert "this system" in html
        assert "it may have happened" in html


def test_the_tool_is_asked_what_became_of_an_undoing_in_doubt_and_decides_nothing(
    acting: Callable[..., Client], server: Serving
) -> None:
    args = {"invoice": {"from": "action", "pointer": "/args/invoice"}}
    early = definition(server, optimistic=True, compensator={"tool": "unpay", "args": args})
    register([early, {**definition(server), "tool": "unpay"}])
    story = Undoing()
    story.open()
    story.fork()
    story.want("p", {"tool": "pay", "args": {"invoice": "inv-9"}}, branch="B")
    told_by_the_tool(200, {"id": "eff-1"})
    (made,) = story.reconcile(None)["compensations"]
    story.approve(made)
    undoings.release_due()
    page, client = f"/compensations/{made}", acting("omar", Group.ONCALL)
    assert "read-back" not in shown(client, page)
    assert "look there yourself" in client.post(f"{page}/read-back", follow=True).content.decode()  # nothing was tried
    told_by_the_tool(500, {})
    assert f'action="{page}/read-back"' in shown(client, page)
    assert "it did not happen" in client.post(f"{page}/read-back", follow=True).content.decode()
    key = CompensationDelivery.objects.get().idempotency_key
    server.ledger.act(key, {"tool": "unpay", "args": {"invoice": "inv-9"}}, once=True)
    assert "it happened, as eff-1" in client.post(f"{page}/read-back", follow=True).content.decode()
    assert story.state(made) == "in_doubt"
    asked = AuditEvent.objects.filter(verb="read_back", kind="compensation", subject=made).order_by("id")
    assert [(row.after or {})["happened"] for row in asked] == [False, True]
    viewer = acting("vera", Group.VIEWER)
    assert viewer.post(f"{page}/read-back").status_code == 403
    assert client.post(f"/compensations/{uuid4()}/read-back").status_code == 404


def told_by_the_tool(status: int, body: dict[str, Any]) -> None:
    """Take the one call that is due, and have it answered."""
    (one,) = dispatching.take(16)
    dispatching.settle([(one, Ended(how=End.ANSWERED, status=status, body=body))], [0.5])


@pytest.fixture
def server(settings: Settings) -> Iterator[Serving]:
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as made:
        yield made


def test_the_page_of_a_freeze_leads_to_the_undoings_that_it_reached(
    story: Undoing, acting: Callable[..., Client]
) -> None:
    made = story.lost()
    story.approve(made)
    frozen = story.freeze(run=story.run)
    assert f'<a href="/compensations/{made}">an undoing</a>' in shown(acting(), f"/freezes/{frozen['id']}")
