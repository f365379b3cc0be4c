"""The pages of people: who is there, and what administrators do about them, each with a reason and an audit row."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.access import Group, groups_of
from dashboard.presenters.browsers import in_words
from fencing.environment import Mode
from fencing.models import AuditEvent
from tests.oidc import LocalProvider
from tests.people import confirm, give_authenticator, knock

MakePerson = Callable[..., User]
WHY = {"reason": "she asked for it"}


@pytest.fixture
def ada(client: Client, person: MakePerson) -> Client:
    """An administrator who has just confirmed."""
    client.force_login(person(Group.ADMINISTRATOR, name="ada"))
    confirm(client)
    return client


def groups(name: str) -> frozenset[Group]:
    return groups_of(User.objects.get(username=name))


def link_in(html: str) -> str:
    (found,) = re.findall(r"<code>http://testserver(/set-password/[^<]+)</code>", html)
    return str(found)


def test_a_person_is_made_and_comes_in_by_the_link(ada: Client) -> None:
    answer = ada.post("/new-person/make", {"name": "lena", "groups": ["on-call", "viewer"]})
    assert "no-store" in answer["Cache-Control"]
    link = link_in(answer.content.decode())
    assert groups("lena") == {Group.ONCALL, Group.VIEWER}
    lena = Client()
    lena.get(link)
    lena.post("/set-password", {"new_password": "a long new password", "again": "a long new password"})
    assert knock(lena, password="a long new password").status_code == 302
    assert link.rpartition("/")[2] not in ada.get("/people/lena").content.decode()


@pytest.mark.parametrize("name", ["Lena", "l\u0435na", "0mar", "", "x" * 70])
def test_a_name_that_is_not_plain_or_looks_like_another_is_told(ada: Client, person: MakePerson, name: str) -> None:
    person(name="omar")
    answer = ada.post("/new-person/make", {"name": name, "groups": ["reviewer"]})
    assert answer.status_code == 422
    html = answer.content.decode()
    assert 'class="error"' in html
    assert re.search(r'value="reviewer"[^>]*checked', html)
    assert User.objects.count() == 2


def test_groups_change_and_who_saw_others_sees_what_is_now(ada: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    page = ada.get("/people/lena").content.decode()
    (facts,) = set(re.findall(r'name="facts" value="([^"]+)"', page))
    given = {"groups": ["on-call"], "seen": "viewer", **WHY}
    assert ada.post("/people/lena/groups", given)["Location"] == "/people/lena"
    assert groups("lena") == {Group.ONCALL}
    late = ada.post("/people/lena/groups", {**given, "groups": ["reviewer"], "facts": facts})
    assert late.status_code == 409
    html = late.content.decode()
    assert "It changed while you looked" in html
    assert re.search(r"<th scope=\"row\">groups</th><td[^>]*>.*viewer.*</td><td[^>]*>.*on-call.*</td>", html)
    assert 'name="seen" value="on-call"' in html
    assert re.search(r'value="reviewer"[^>]*checked', html)
    assert groups("lena") == {Group.ONCALL}


def test_an_act_on_somebody_who_was_shut_out_meanwhile_says_so(ada: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    (facts,) = set(re.findall(r'name="facts" value="([^"]+)"', ada.get("/people/lena").content.decode()))
    ada.post("/people/lena/deactivate", WHY)
    answer = ada.post("/people/lena/password", {"reason": "she forgot it", "facts": facts})
    html = answer.content.decode()
    assert answer.status_code == 409
    assert "There is nothing left of this to decide." in html
    assert re.search(r"<th scope=\"row\">state</th><td[^>]*>.*active.*</td><td[^>]*>.*deactivated.*</td>", html)
    assert "she forgot it" in html
    assert "/set-password/" not in html


@pytest.mark.parametrize(
    ("act", "verb"),
    [
        ("deactivate", "deactivate_person"),
        ("second-factor", "reset_second_factor"),
        ("password", "reset_password"),
    ],
)
def test_each_act_takes_a_reason_and_stands_in_the_audit(ada: Client, person: MakePerson, act: str, verb: str) -> None:
    give_authenticator(person(Group.ONCALL))
    without = ada.post(f"/people/lena/{act}", {"reason": " "})
    assert without.status_code == 422
    assert "Say why" in without.content.decode()
    assert not AuditEvent.objects.exists()
    assert ada.post(f"/people/lena/{act}", WHY).status_code in (200, 302)
    event = AuditEvent.objects.get(verb=verb)
    assert (event.actor, event.role, event.reason) == ("ada (browser)", "administrator", "she asked for it")


def test_what_an_act_ends_is_said_before_and_true_after(ada: Client, person: MakePerson) -> None:
    person(Group.ONCALL)
    lena = Client()
    knock(lena)
    confirm(lena)
    lena.post("/new-key/personal", {"role": "oncall", "life": "3600"})
    assert "1 session and 1 personal key end at once" in ada.get("/people/lena").content.decode()
    ada.post("/people/lena/sessions", WHY)
    assert lena.get("/gallery?show=none").status_code == 302
    ada.post("/people/lena/deactivate", WHY)
    page = ada.get("/people/lena").content.decode()
    assert "lena cannot sign in" in page
    assert "Activate…" in page
    assert "Deactivate…" not in page
    ada.post("/people/lena/activate", WHY)
    assert knock(Client()).status_code == 302


def test_nobody_takes_the_last_administrators_right_away_their_own_least_of_all(ada: Client) -> None:
    answer = ada.post("/people/ada/groups", {"groups": ["viewer"], "seen": "administrator", **WHY})
    assert answer.status_code == 422
    assert "last administrator" in answer.content.decode()
    assert ada.post("/people/ada/deactivate", WHY).status_code == 422
    assert groups("ada") == {Group.ADMINISTRATOR}


def test_everybody_sees_who_is_there_and_administrators_the_rest(client: Client, person: MakePerson) -> None:
    person(Group.REVIEWER, name="omar")
    give_authenticator(User.objects.get(username="omar"))
    client.force_login(person(Group.VIEWER))
    page = client.get("/people").content.decode()
    assert "reviewer" in page
    assert "authenticator" in page
    assert 'href="/people/omar"' not in page
    assert client.get("/people/omar").status_code == 403


def test_the_trail_of_an_account_tells_what_happened_to_it(ada: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    knock(Client())
    ada.post("/people/lena/groups", {"groups": ["on-call"], "seen": "viewer", "reason": "<b>new rota</b>"})
    page = ada.get("/people/lena").content.decode()
    assert "signed in" in page
    assert "put into other groups" in page
    assert "&lt;b&gt;new rota" in page
    assert "by: password" in page


def test_several_forms_of_a_page_have_ids_of_their_own(ada: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    page = ada.get("/people/lena").content.decode()
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_pages_cost_as_much_for_many_people(
    ada: Client, person: MakePerson, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(40):
        give_authenticator(person(Group.VIEWER, name=f"person-{number}"))
    with django_assert_max_num_queries(9):
        ada.get("/people")


def test_an_account_at_the_provider_is_linked_by_its_number(
    ada: Client, person: MakePerson, settings: Settings
) -> None:
    person(Group.VIEWER)
    assert "Link an account" not in ada.get("/people/lena").content.decode()
    assert ada.post("/people/lena/link", {"account": "sub-1"}).status_code == 404
    settings.FENCE_PROVIDER = LocalProvider(issuer="http://127.0.0.1:9", process=None).settings()  # type: ignore[arg-type]
    assert ada.post("/people/lena/link", {"account": " sub-1 "})["Location"] == "/people/lena"
    assert "<code>sub-1</code>" in ada.get("/people/lena").content.decode()
    assert ada.post("/people/ada/link", {"account": "sub-1"}).status_code == 422
    ada.post("/people/lena/unlink", WHY)
    assert "no account linked" in ada.get("/people/lena").content.decode()


def test_you_says_what_is_missing_and_what_a_password_is_worth(
    client: Client, person: MakePerson, settings: Settings
) -> None:
    user = person(Group.ONCALL)
    client.force_login(user)
    assert "here a password is enough" in client.get("/you").content.decode()
    settings.FENCE_MODE = Mode.PRODUCTION
    assert "You cannot act yet." in client.get("/you").content.decode()
    give_authenticator(user)
    page = client.get("/you").content.decode()
    assert "You cannot act yet." not in page
    assert "10 codes left" in page
    assert Authenticator.objects.filter(user=user).count() == 2


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit Chrome/140 Safari/537 Edg/140", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 14.5; rv:140.0) Gecko Firefox/140.0", "Firefox on Mac"),
        ("curl/8", "curl/8"),
        ("", "something without a name"),
    ],
)
def test_a_browser_is_told_in_words(agent: str, words: str) -> None:
    assert in_words(agent) == words
