"""Sessions that end, passwords that change, links that set one: who is inside, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard.access import Group
from dashboard.door.forms import NewPasswordForm
from dashboard.door.sessions import TIMES
from fencing.models import AuditEvent
from fencing.protocol.callers import Caller, Role
from fencing.services import people
from tests.people import PASSWORD, confirm, knock

MakePerson = Callable[..., User]
ADMIN = Caller(credential_id=None, name="ada", person="ada", role=Role.ADMINISTRATOR)
NEW = {"new_password": "a long new password", "again": "a long new password"}


def shift(client: Client, *, since: float = 0, used: float = 0) -> None:
    """Let a session have begun, or have been used, so many seconds earlier."""
    session = client.session
    times = session[TIMES]
    session[TIMES] = {**times, "since": times["since"] - since, "used": times["used"] - used}
    session.save()


def is_in(client: Client) -> bool:
    return client.get("/gallery?show=none").status_code == 200


def test_a_session_that_nobody_uses_ends(client: Client, person: MakePerson, settings: Settings) -> None:
    person(Group.VIEWER)
    knock(client)
    assert is_in(client)
    shift(client, used=settings.FENCE_SESSION_IDLE_S - 5)
    assert is_in(client)
    shift(client, used=settings.FENCE_SESSION_IDLE_S)
    answer = client.get("/gallery?show=none")
    assert answer["Location"] == "/sign-in?next=/gallery%3Fshow%3Dnone"
    assert "Your session has ended" in client.get(answer["Location"]).content.decode()


def test_a_session_ends_some_hours_after_sign_in_however_it_is_used(
    client: Client, person: MakePerson, settings: Settings
) -> None:
    person(Group.VIEWER)
    knock(client)
    shift(client, since=settings.FENCE_SESSION_MAX_S - 5)
    assert is_in(client)
    shift(client, since=10)
    assert not is_in(client)


def test_a_page_that_refreshes_itself_keeps_no_session_alive(
    client: Client, person: MakePerson, settings: Settings
) -> None:
    person(Group.VIEWER)
    knock(client)
    is_in(client)

    def refresh() -> int:
        return client.get("/gallery?part=clock", headers={"HX-Request": "true"}).status_code

    shift(client, used=120)
    before = client.session[TIMES]
    assert refresh() == 200
    assert client.session[TIMES] == before
    assert is_in(client)
    assert client.session[TIMES]["used"] > before["used"]
    shift(client, used=settings.FENCE_SESSION_IDLE_S)
    assert refresh() == 401


def test_a_session_from_a_clock_far_ahead_does_not_last_for_ever(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    knock(client)
    shift(client, since=-3600)
    assert not is_in(client)


def test_over_sessions_are_swept_with_the_next_sign_in(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    Session.objects.create(session_key="old", session_data="", expire_date=timezone.now())
    knock(client)
    assert not Session.objects.filter(session_key="old").exists()


def test_a_changed_password_signs_out_everywhere_else(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    other = Client()
    for each in (client, other):
        knock(each)
    assert client.post("/you/password", {"password": PASSWORD, **NEW})["Location"] == "/you"
    assert (is_in(client), is_in(other)) == (True, False)
    assert UserSession.objects.count() == 1
    assert knock(Client(), password=PASSWORD).status_code == 422
    assert knock(Client(), password=NEW["new_password"]).status_code == 302
    told = list(AuditEvent.objects.filter(kind="person").values_list("verb", flat=True))
    assert told.count("change_password") == 1
    assert NEW["new_password"] not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"password": "wrong", **NEW}, "That is not your password."),
        ({"password": PASSWORD, "new_password": "short", "again": "short"}, "too short"),
        ({"password": PASSWORD, "new_password": "qwerty123456", "again": "qwerty123456"}, "too common"),
        ({"password": PASSWORD, "new_password": "a long new password", "again": "another"}, "not the same"),
        ({"password": PASSWORD}, "required"),
    ],
)
def test_a_password_changes_only_into_a_good_one(
    client: Client, person: MakePerson, given: dict[str, str], fault: str
) -> None:
    client.force_login(person(Group.VIEWER))
    answer = client.post("/you/password", given)
    assert answer.status_code == 422
    assert fault in answer.content.decode()
    assert "long new" not in answer.content.decode()
    assert knock(Client()).status_code == 302


def test_one_signs_out_everywhere_else(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    other = Client()
    for each in (client, other):
        knock(each)
    page = client.get("/you").content.decode()
    assert page.count("127.0.0.1") == 2
    assert page.count("this one") == 1
    client.post("/you/sessions/end")
    assert (is_in(client), is_in(other)) == (True, False)
    assert AuditEvent.objects.get(verb="end_sessions").after == {"sessions": 1}


def link_for(name: str) -> tuple[str, User]:
    done = people.reset_password(name, "lost it", ADMIN)
    assert isinstance(done, people.Done)
    return f"/set-password/{name}/{done.token}", User.objects.get(username=name)


def test_a_link_sets_a_password_once(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    url, _ = link_for("lena")
    assert knock(Client()).status_code == 422
    assert client.get(url)["Location"] == "/set-password"
    assert "Set the password of lena" in client.get("/set-password").content.decode()
    assert client.post("/set-password", NEW)["Location"] == "/sign-in"
    assert knock(client, password=NEW["new_password"]).status_code == 302
    again = Client()
    again.get(url)
    assert again.get("/set-password").status_code == 410
    assert again.post("/set-password", NEW).status_code == 410
    assert AuditEvent.objects.filter(verb="set_password").count() == 1


def test_of_two_who_use_a_link_at_once_the_second_finds_it_used(
    client: Client, person: MakePerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    person(Group.VIEWER)
    url, user = link_for("lena")
    client.get(url)
    looks_well = NewPasswordForm.is_valid

    def after_another(form: NewPasswordForm) -> bool:
        user.set_password("the password of the first")
        user.save()
        return looks_well(form)

    monkeypatch.setattr(NewPasswordForm, "is_valid", after_another)
    assert client.post("/set-password", NEW)["Location"] == "/set-password"
    assert client.get("/set-password").status_code == 410
    assert knock(Client(), password=NEW["new_password"]).status_code == 422
    assert not AuditEvent.objects.filter(verb="set_password").exists()


def test_a_scanner_that_opens_a_link_does_not_use_it_up(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    url, user = link_for("lena")
    for _ in range(3):
        scanner = Client()
        scanner.get(url)
        scanner.head(url)
        scanner.get("/set-password")
    user.refresh_from_db()
    assert not user.has_usable_password()
    client.get(url)
    assert client.get("/set-password").status_code == 200


def test_the_token_of_a_link_leaves_the_address(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    url, _ = link_for("lena")
    token = url.rpartition("/")[2]
    answer = client.get(url, follow=True)
    assert token not in answer.content.decode()
    assert answer["Referrer-Policy"] == "same-origin"


def test_a_newer_link_ends_the_one_before_and_a_wrong_one_opens_nothing(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    old, _ = link_for("lena")
    new, _ = link_for("lena")
    for url, status in ((old, 410), (new, 200), ("/set-password/lena/x-y", 410), ("/set-password/nobody/x-y", 410)):
        client.get(url)
        assert client.get("/set-password").status_code == status, url


def test_a_link_of_somebody_shut_out_opens_nothing(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    url, _ = link_for("lena")
    people.deactivate("lena", "left", ADMIN)
    client.get(url)
    assert client.post("/set-password", NEW).status_code == 410


def test_a_link_is_over_after_a_day(client: Client, person: MakePerson, monkeypatch: pytest.MonkeyPatch) -> None:
    person(Group.VIEWER)
    url, _ = link_for("lena")
    real = default_token_generator._num_seconds  # noqa: SLF001 - Django's own place to move the clock

    def in_a_day(moment: datetime) -> int:
        return real(moment) + 24 * 3600 + 1

    monkeypatch.setattr(default_token_generator, "_num_seconds", in_a_day)
    client.get(url)
    assert client.get("/set-password").status_code == 410


def test_a_reset_password_ends_sessions(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    knock(client)
    link_for("lena")
    assert not is_in(client)


def test_who_was_let_in_again_has_none_of_the_old_sessions(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    knock(client)
    people.deactivate("lena", "left", ADMIN)
    assert not is_in(client)
    people.activate("lena", "came back", ADMIN)
    assert not is_in(client)
    assert knock(client).status_code == 302


def test_somebody_who_is_only_confirmed_elsewhere_is_not_confirmed_here(client: Client, person: MakePerson) -> None:
    person(Group.ADMINISTRATOR)
    knock(client)
    other = Client()
    other.force_login(User.objects.get(username="lena"))
    confirm(client)
    assert other.get("/you/code/add")["Location"].startswith("/confirm?")
