"""Guesses at passwords and codes: a few, then none for a while; never a way to lock everybody out unsaid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.db.models import F
from django.http import HttpRequest
from django.test import Client, RequestFactory
from pytest_django import Settings

from dashboard.access import Group
from dashboard.door import guessing
from dashboard.door.guessing import LIMITS, Kind, LockedOut
from fencing.models import AuditEvent
from tests.people import code_of, confirm, give_authenticator, knock, recovery_codes_of

MakePerson = Callable[..., User]


def later(minutes: int) -> None:
    """Let time pass: what was counted lies further back."""
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=minutes))


def from_(address: str) -> Client:
    return Client(REMOTE_ADDR=address)


def guess_wrong(client: Client, times: int, name: str = "lena") -> None:
    for number in range(times):
        assert knock(client, name, f"wrong {number}").status_code == 422


def test_after_five_wrong_passwords_not_even_the_right_one_is_looked_at(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    guess_wrong(client, 4)
    assert knock(client, password="wrong").status_code == 422
    response = knock(client)
    assert response.status_code == 429
    assert 0 < int(response["Retry-After"]) <= 900
    html = response.content.decode()
    assert "The door is shut until" in html
    assert "A passkey cannot be guessed" in html
    assert client.get("/gallery").status_code == 302


def test_trying_again_does_not_make_a_lock_longer(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    guess_wrong(client, 5)
    later(10)
    assert knock(client).status_code == 429
    later(6)
    assert knock(client).status_code == 302


def test_a_lock_is_told_alike_for_a_name_that_nobody_has(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    other = from_("192.0.2.9")
    guess_wrong(client, 5)
    guess_wrong(other, 5, "nobody")
    pages = [knock(client).content.decode(), knock(other, "nobody").content.decode()]
    assert len({page.partition("<main")[2].partition("shut until")[0] for page in pages}) == 1
    assert all("for this name" in page for page in pages)


def test_a_lock_is_of_one_name_from_one_place(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    person(Group.VIEWER, name="omar")
    guess_wrong(client, 5)
    assert knock(from_("192.0.2.9")).status_code == 302
    assert knock(from_("127.0.0.1"), "omar").status_code == 302


def test_capitals_and_other_forms_do_not_give_more_guesses(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    for name in ("lena", "LENA", " Lena", "\uff4cena", "lEnA"):
        guess_wrong(client, 1, name)
    assert knock(client).status_code == 429


def test_all_forms_count_together(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    secret = give_authenticator(user)
    guess_wrong(client, 2)
    knock(client)
    for _ in range(3):
        assert client.post("/sign-in/code", {"code": "000000"}).status_code == 422
    assert client.post("/sign-in/code", {"code": code_of(secret)}).status_code == 429
    assert client.post("/sign-in/code", {"code": recovery_codes_of(user)[0]}).status_code == 429
    assert len(recovery_codes_of(user)) == 10
    assert knock(client).status_code in (302, 429)
    assert client.get("/gallery").status_code == 302


@pytest.mark.parametrize("field", ["password", "code"])
def test_the_confirmation_counts_too(client: Client, person: MakePerson, field: str) -> None:
    user = person(Group.ONCALL)
    secret = give_authenticator(user)
    client.force_login(user)
    for _ in range(5):
        assert client.post("/confirm", {field: "000000"}).status_code == 422
    assert client.post("/confirm", {"code": code_of(secret)}).status_code == 429
    assert client.post("/confirm", {"password": "correct horse battery"}).status_code == 429


def test_changing_the_password_counts_too(client: Client, person: MakePerson) -> None:
    client.force_login(person(Group.VIEWER))
    given = {"new_password": "a long new password", "again": "a long new password"}
    for _ in range(5):
        assert client.post("/you/password", {"password": "wrong", **given}).status_code == 422
    assert client.post("/you/password", {"password": "correct horse battery", **given}).status_code == 429


def test_a_sign_in_forgets_the_wrong_guesses_of_its_place_alone(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    elsewhere = from_("192.0.2.9")
    guess_wrong(elsewhere, 4)
    guess_wrong(client, 4)
    assert knock(client).status_code == 302
    guess_wrong(Client(), 4)
    guess_wrong(elsewhere, 1)
    assert knock(elsewhere).status_code == 429


def test_a_right_password_alone_forgets_nothing(client: Client, person: MakePerson) -> None:
    give_authenticator(person(Group.ONCALL))
    guess_wrong(client, 4)
    knock(client)
    assert client.post("/sign-in/code", {"code": "000000"}).status_code == 422
    assert client.post("/sign-in/code", {"code": "000001"}).status_code == 429


def test_a_confirmation_forgets_the_wrong_guesses_of_its_place_alone(client: Client, person: MakePerson) -> None:
    client.force_login(person(Group.ONCALL))
    guess_wrong(from_("192.0.2.9"), 4)
    for _ in range(4):
        client.post("/confirm", {"password": "wrong"})
    assert client.post("/confirm", {"password": "correct horse battery"}).status_code == 302
    left = AccessAttempt.objects.get()
    assert (left.ip_address, left.failures_since_start) == ("192.0.2.9", 4)


def test_a_name_is_locked_for_all_after_many_guesses_from_many_places(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    guess_wrong(from_("192.0.2.1"), 1)
    AccessAttempt.objects.update(failures_since_start=LIMITS[Kind.NAME])
    response = knock(client)
    assert response.status_code == 429
    assert "from where you are" not in response.content.decode()


def test_a_place_is_locked_for_every_name_and_says_so(client: Client, person: MakePerson, settings: Settings) -> None:
    person(Group.VIEWER)
    guess_wrong(client, 1, "nobody")
    AccessAttempt.objects.update(failures_since_start=LIMITS[Kind.PLACE])
    html = knock(client).content.decode()
    assert "<strong>everybody</strong>" in html
    assert "127.0.0.1" in html
    assert "FENCE_BEHIND_PROXY=1" in html
    assert knock(from_("192.0.2.9")).status_code == 302
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert "FENCE_BEHIND_PROXY" not in knock(client).content.decode()


def test_a_sign_in_does_not_open_the_place_again_for_others(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    guess_wrong(client, 1, "nobody")
    AccessAttempt.objects.update(failures_since_start=LIMITS[Kind.PLACE] - 1)
    assert knock(client).status_code == 302
    assert knock(Client(), "somebody", "wrong").status_code == 422
    assert knock(Client(), "somebody", "wrong").status_code == 429


def test_behind_a_proxy_each_address_is_a_place_of_its_own(person: MakePerson, settings: Settings) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    person(Group.VIEWER)
    first, second = (Client(headers={"X-Forwarded-For": f"10.0.0.1, 192.0.2.{n}"}) for n in (1, 2))
    guess_wrong(first, 5)
    assert knock(first).status_code == 429
    assert knock(second).status_code == 302


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("not an address", None),
        ("", None),
    ],
)
def test_a_place_is_an_address_or_the_network_that_a_household_has(
    rf: RequestFactory, address: str, place: str | None
) -> None:
    assert guessing.place_of(rf.get("/", REMOTE_ADDR=address)) == place


def test_nothing_that_was_typed_is_kept(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    knock(client, password="my very secret guess", next="/more")
    assert "secret" not in str(list(AccessAttempt.objects.values()))
    assert AccessAttempt.objects.get().post_data == ""


def test_a_lock_stands_in_the_audit_once(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    guess_wrong(client, 5)
    knock(client)
    event = AuditEvent.objects.get(verb="lock_door")
    assert (event.subject, event.actor, event.source) == ("lena", "door", "127.0.0.1")
    assert event.after is not None
    assert event.after["of"] == "name here"


def test_what_guards_a_guess_checks_nothing_while_locked(db: None, rf: RequestFactory) -> None:
    request: HttpRequest = rf.post("/sign-in")
    asked: list[int] = []

    def check() -> None:
        asked.append(1)

    for _ in range(5):
        assert guessing.guess(request, "lena", check) is None
    with pytest.raises(LockedOut) as shut:
        guessing.guess(request, "lena", check)
    assert (len(asked), shut.value.lock.kind) == (5, Kind.NAME_HERE)


def test_whoever_counts_reads_a_name_as_the_door_does(rf: RequestFactory) -> None:
    request = rf.post("/sign-in")
    for typed in ("lena", " LENA ", "\uff2cena", "le\0na"):
        assert guessing.name_of(request, {"username": typed}) == "lena"


def test_a_failure_that_came_while_locked_is_not_counted(db: None, rf: RequestFactory) -> None:
    request = rf.post("/sign-in")
    handler = guessing.Guesses()
    AxesProxyHandler.update_request(request)
    for is_locked in (False, True, True):
        request.axes_locked_out = is_locked  # type: ignore[attr-defined]  # as django-axes tells its handlers
        handler.user_login_failed(None, {"username": "lena"}, request)
    assert AccessAttempt.objects.get().failures_since_start == 1


def test_an_administrator_forgets_the_guesses(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    guess_wrong(client, 5)
    admin = Client()
    admin.force_login(person(Group.ADMINISTRATOR, name="ada"))
    confirm(admin)
    assert admin.post("/people/lena/unlock", {"reason": "she called me"})["Location"] == "/people/lena"
    assert knock(client).status_code == 302
    assert AuditEvent.objects.get(verb="unlock_person").reason == "she called me"
