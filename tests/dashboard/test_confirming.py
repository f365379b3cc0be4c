"""Recent confirmation (G7): a grave act asks who it is, keeps what was typed, and replays nothing by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import Client, RequestFactory
from pytest_django import Settings

from dashboard import confirming, conflicts
from dashboard.access import Group, confirmed_recently, is_confirmed
from dashboard.confirming import CONFIRMED, KEPT, note_confirmation
from dashboard.presenters.acts import Change
from fencing.environment import Mode
from fencing.models import Credential
from tests.people import PASSWORD, code_of, confirm, give_authenticator, knock, recovery_codes_of

MakePerson = Callable[..., User]
SignedIn = Callable[..., Client]
KEY = {"role": "planner", "name": "billing", "group": "money", "life": "", "rate": "2000"}


def age(client: Client, seconds: float) -> None:
    """Let the last confirmation of a session have been so many seconds earlier."""
    session = client.session
    told = session[CONFIRMED]
    session[CONFIRMED] = {**told, "at": told["at"] - seconds, "second": told["second"] and told["second"] - seconds}
    session.save()


def way_of(answer: Any) -> str:
    return str(parse_qs(urlsplit(answer["Location"]).query)["next"][0])


@pytest.fixture
def ada(signed_in: SignedIn) -> Client:
    """An administrator, signed in an hour ago."""
    return signed_in(Group.ADMINISTRATOR)


def test_an_act_is_kept_until_the_person_confirmed_and_pressed_again(ada: Client) -> None:
    asked = ada.post("/new-key/issue", KEY, headers={"Referer": "http://testserver/new-key?role=planner"})
    assert asked.status_code == 303
    assert not Credential.objects.exists()
    page = ada.get(asked["Location"]).content.decode()
    assert "Confirm that it is you, to make a key" in page
    assert ada.post("/confirm", {"password": "wrong", "next": way_of(asked)}).status_code == 422
    back = ada.post("/confirm", {"password": PASSWORD, "next": way_of(asked)})
    assert back["Location"] == way_of(asked)
    assert not Credential.objects.exists()
    shown = ada.get(back["Location"]).content.decode()
    assert 'value="billing"' in shown
    assert 'value="money"' in shown
    assert not Credential.objects.exists()
    assert ada.post("/new-key/issue", KEY).status_code == 200
    assert Credential.objects.get().name == "billing"


def test_what_is_kept_is_there_after_a_reload_and_gone_after_a_while(ada: Client) -> None:
    way = way_of(ada.post("/new-key/issue", KEY))
    confirm(ada)
    assert all(ada.get(way).status_code == 200 for _ in range(2))
    session = ada.session
    session[KEPT] = {name: {**one, "at": one["at"] - confirming.KEPT_FOR_S} for name, one in session[KEPT].items()}
    session.save()
    answer = ada.get(way)
    assert answer.status_code == 410
    assert "Nothing was sent" in answer.content.decode()


def test_what_is_kept_belongs_to_its_session_and_its_address(ada: Client, signed_in: SignedIn) -> None:
    way = way_of(ada.post("/new-key/issue", KEY))
    token = way.rpartition("=")[2]
    assert ada.get(f"/new-person/make?kept={token}").status_code == 410
    other = Client()
    other.force_login(User.objects.get(username="lena"))
    assert other.get(way).status_code == 410


def test_the_newest_forms_are_kept_and_neither_passwords_nor_tokens(ada: Client) -> None:
    ways = [way_of(ada.post("/new-key/issue", {**KEY, "name": f"k{n}", "password": "secret"})) for n in range(5)]
    statuses = [ada.get(way).status_code for way in ways]
    assert statuses == [410, 410, 200, 200, 200]
    assert "secret" not in str(dict(ada.session))
    assert "csrfmiddlewaretoken" not in str(dict(ada.session))


def test_a_form_that_is_too_large_is_not_kept_and_says_so(ada: Client) -> None:
    answer = ada.post("/new-key/issue", {**KEY, "tools": "x" * 300_000}, headers={"Referer": "http://testserver/more"})
    assert way_of(answer) == "/more"
    assert "too large to be kept" in ada.get(answer["Location"]).content.decode()
    assert KEPT not in ada.session


def test_a_live_part_is_sent_to_the_page_that_asks(ada: Client) -> None:
    answer = ada.post("/new-key/issue", KEY, headers={"HX-Request": "true"})
    assert answer.status_code == 204
    assert answer["HX-Redirect"].startswith("/confirm?next=")


def test_a_confirmation_holds_five_minutes_by_the_clock_of_the_database(ada: Client) -> None:
    confirm(ada)
    age(ada, 299)
    assert ada.post("/new-key/issue", KEY).status_code == 200
    age(ada, 2)
    assert ada.post("/new-key/issue", {**KEY, "name": "b"}).status_code == 303


def test_a_confirmation_from_the_future_is_none(ada: Client) -> None:
    confirm(ada)
    age(ada, -10)
    assert ada.post("/new-key/issue", KEY).status_code == 303


def test_a_sign_in_is_a_confirmation(client: Client, person: MakePerson) -> None:
    person(Group.ADMINISTRATOR)
    knock(client)
    assert client.post("/new-key/issue", KEY).status_code == 200


def test_a_confirmation_of_somebody_else_is_none(ada: Client, rf: RequestFactory, person: MakePerson) -> None:
    request = rf.post("/")
    request.session = ada.session
    request.user = User.objects.get(username="lena")
    note_confirmation(request.session, request.user, by_second_factor=True)
    assert is_confirmed(request)
    request.user = person(Group.ADMINISTRATOR, name="omar")
    assert not is_confirmed(request)


@pytest.mark.parametrize("way", ["password", "code", "recovery"])
def test_one_confirms_by_each_way_that_one_has(client: Client, person: MakePerson, way: str) -> None:
    user = person(Group.ONCALL)
    secret = give_authenticator(user)
    client.force_login(user)
    given = {
        "password": {"password": PASSWORD},
        "code": {"code": code_of(secret)},
        "recovery": {"code": recovery_codes_of(user)[0]},
    }[way]
    assert client.post("/confirm", {**given, "next": "/more"})["Location"] == "/more"
    assert client.session[CONFIRMED]["second"] == (None if way == "password" else client.session[CONFIRMED]["at"])


def test_a_password_does_not_take_a_second_factor_back(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    give_authenticator(user)
    client.force_login(user)
    confirm(client, by_second_factor=True)
    client.post("/confirm", {"password": PASSWORD})
    assert client.session[CONFIRMED]["second"] is not None


def test_a_password_is_no_second_factor_and_takes_over_none_of_somebody_else(ada: Client, person: MakePerson) -> None:
    session, first, second = ada.session, User.objects.get(username="lena"), person(Group.REVIEWER, name="omar")
    note_confirmation(session, first, by_second_factor=True)
    note_confirmation(session, second, by_second_factor=False)
    assert session[CONFIRMED]["second"] is None


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil"])
def test_a_confirmation_leads_to_this_site_alone(ada: Client, elsewhere: str) -> None:
    assert ada.post("/confirm", {"password": PASSWORD, "next": elsewhere})["Location"] == "/"
    assert elsewhere not in ada.get("/confirm", {"next": elsewhere}).content.decode()


def test_a_link_cannot_make_the_page_say_what_it_likes(ada: Client) -> None:
    page = ada.get("/confirm?next=/more&to=send+all+the+money&says=send").content.decode()
    assert "Confirm that it is you<" in page
    assert "money" not in page


def test_a_personal_key_takes_a_second_factor_where_there_is_one(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    client.force_login(user)
    confirm(client)
    given = {"role": "oncall", "life": "3600"}
    assert client.post("/new-key/personal", given).status_code == 200
    secret = give_authenticator(user)
    asked = client.post("/new-key/personal", given)
    assert asked.status_code == 303
    page = client.get(asked["Location"]).content.decode()
    assert "Confirm with the code" in page
    assert "your password" not in page
    client.post("/confirm", {"password": PASSWORD, "next": way_of(asked)})
    assert client.post("/new-key/personal", given).status_code == 303
    client.post("/confirm", {"code": code_of(secret), "next": way_of(asked)})
    assert client.post("/new-key/personal", given).status_code == 200


def test_in_production_a_password_makes_no_personal_key(client: Client, person: MakePerson, settings: Settings) -> None:
    settings.FENCE_MODE = Mode.PRODUCTION
    client.force_login(person(Group.ONCALL))
    confirm(client)
    asked = client.post("/new-key/personal", {"role": "oncall", "life": "3600"})
    assert asked.status_code == 303
    page = client.get(asked["Location"]).content.decode()
    assert "This takes a second factor, and you have none." in page
    assert not Credential.objects.exists()


def test_a_view_never_runs_by_get(rf: RequestFactory, ada: Client) -> None:
    ran: list[str] = []

    @confirmed_recently("do it")
    def view(request: HttpRequest) -> HttpResponse:
        ran.append(request.method or "")
        return HttpResponse()

    request = rf.post("/act", {"a": "1"})
    request.session, request.user = ada.session, User.objects.get(username="lena")
    answer = view(request)
    token = way_of(answer).rpartition("=")[2]
    for method in (rf.get, rf.head):
        again = method("/act", {"kept": token})
        again.session, again.user = request.session, request.user
        assert view(again).status_code == 200
    assert ran == []


def test_the_general_page_lists_what_was_typed_and_posts_it_to_the_same_address(
    rf: RequestFactory, ada: Client
) -> None:
    @confirmed_recently("undo it")
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    request = rf.post(
        "/act", {"reason": "<script>x</script>", "ids": ["1", "2"]}, HTTP_REFERER="http://testserver/x?y=1"
    )
    request.session, request.user = ada.session, User.objects.get(username="lena")
    token = way_of(view(request)).rpartition("=")[2]
    again = rf.get("/act", {"kept": token})
    again.session, again.user = request.session, request.user
    html = view(again).content.decode()  # type: ignore[attr-defined]
    assert re.findall(r'name="ids" value="(\d)"', html) == ["1", "2"]
    assert "<script>x" not in html
    assert 'action="/act"' in html
    assert 'href="/x?y=1"' in html
    assert "Send it: undo it" in html


def test_a_file_is_not_kept(rf: RequestFactory, ada: Client) -> None:
    @confirmed_recently("send it")
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    request = rf.post("/act", {"log": SimpleUploadedFile("log", b"x")})
    request.session, request.user = ada.session, User.objects.get(username="lena")
    setattr(request, "_messages", type("Messages", (), {"add": lambda *_: None})())  # noqa: B010 - nobody declares it
    assert way_of(view(request)) == "/"


def test_facts_that_a_form_showed_come_back_and_are_laid_beside_the_new(rf: RequestFactory) -> None:
    seen = {"state": "live", "ends": "never", "uses": "1"}
    request = rf.post("/", {"facts": conflicts.sealed_facts(seen)})
    assert conflicts.facts_seen(request) == seen
    now = {"state": "revoked", "ends": "never", "by": "omar"}
    assert conflicts.changes_between(seen, now) == (
        Change(what="state", seen="live", now="revoked"),
        Change(what="by", seen="not there", now="omar"),
        Change(what="uses", seen="1", now="not there"),
    )


@pytest.mark.parametrize("junk", ["", "x", "a:b:c", "{}"])
def test_facts_that_were_not_written_here_are_none(rf: RequestFactory, junk: str) -> None:
    assert conflicts.facts_seen(rf.post("/", {"facts": junk})) == {}


def test_a_kept_form_is_read_only(ada: Client, rf: RequestFactory) -> None:
    way = way_of(ada.post("/new-key/issue", KEY))
    request = rf.get(way)
    request.session = ada.session
    kept = confirming.kept_form(request, "/new-key/issue", way.rpartition("=")[2])
    assert kept is not None
    assert isinstance(kept.typed, QueryDict)
    with pytest.raises(AttributeError, match="immutable"):
        kept.typed["name"] = "x"
