"""Signing in as people do: name and password, second factor, recovery codes; and what stays inside afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.contrib.messages.storage.fallback import FallbackStorage
from django.test import Client, RequestFactory
from django.urls import NoReverseMatch, reverse
from pytest_django import Settings

from dashboard.access import Group
from dashboard.door.adapters import AccountAdapter
from fencing.environment import Mode
from fencing.models import AuditEvent
from fencing.services import locked_text
from tests.people import PASSWORD, code_of, confirm, give_authenticator, knock, recovery_codes_of

MakePerson = Callable[..., User]
WRONG = "That name and password do not open the door."
DEEP = "/gallery?show=json&x=%2F"


def verbs() -> list[str]:
    """What the audit tells of people, oldest first."""
    return list(AuditEvent.objects.filter(kind="person").order_by("id").values_list("verb", flat=True))


def test_a_second_factor_stands_between_the_password_and_the_link(client: Client, person: MakePerson) -> None:
    secret = give_authenticator(person(Group.ONCALL))
    assert knock(client, next=DEEP)["Location"] == "/sign-in/code"
    assert client.get("/gallery").status_code == 302
    assert "The password of <strong>lena</strong> was right" in client.get("/sign-in/code").content.decode()
    response = client.post("/sign-in/code", {"code": "000000"})
    assert response.status_code == 422
    assert "That code is wrong" in response.content.decode()
    assert client.post("/sign-in/code", {"code": code_of(secret)})["Location"] == DEEP
    assert client.get(DEEP).status_code == 200
    assert AuditEvent.objects.get(verb="sign_in").after == {"by": ["password", "totp"]}


def test_who_acts_without_a_second_factor_is_asked_to_add_one(client: Client, person: MakePerson) -> None:
    asked = "Please add a second factor"
    person(Group.ADMINISTRATOR)
    knock(client)
    assert asked in client.get("/more").content.decode()
    assert asked not in client.get("/more").content.decode()
    person(Group.VIEWER, name="vera")
    vera = Client()
    knock(vera, "vera")
    assert asked not in vera.get("/more").content.decode()
    give_authenticator(User.objects.get(username="lena"))
    again = Client()
    knock(again)
    again.post("/sign-in/code", {"code": recovery_codes_of(User.objects.get(username="lena"))[0]})
    assert asked not in again.get("/more").content.decode()


def test_blanks_in_a_code_do_not_matter(client: Client, person: MakePerson) -> None:
    code = code_of(give_authenticator(person(Group.ONCALL)))
    knock(client)
    assert client.post("/sign-in/code", {"code": f" {code[:3]} {code[3:]} "}).status_code == 302


def test_a_code_opens_the_door_once(client: Client, person: MakePerson) -> None:
    secret = give_authenticator(person(Group.ONCALL))
    code = code_of(secret)
    knock(client)
    assert client.post("/sign-in/code", {"code": code}).status_code == 302
    again = Client()
    knock(again)
    assert again.post("/sign-in/code", {"code": code}).status_code == 422
    assert again.post("/sign-in/code", {"code": code_of(secret, ahead=1)}).status_code == 302


def test_a_recovery_code_opens_the_door_once_and_is_told(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    give_authenticator(user)
    code = recovery_codes_of(user)[3]
    knock(client)
    assert client.post("/sign-in/code", {"code": code}).status_code == 302
    assert verbs() == ["use_recovery_code", "sign_in"]
    again = Client()
    knock(again)
    assert again.post("/sign-in/code", {"code": code}).status_code == 422
    assert len(recovery_codes_of(user)) == 9


def test_who_waits_for_the_second_factor_can_start_again(client: Client, person: MakePerson) -> None:
    give_authenticator(person(Group.ONCALL))
    knock(client)
    assert client.get("/sign-in")["Location"] == "/sign-in/code"
    assert client.get("/sign-in/again").status_code == 405
    client.post("/sign-in/again")
    assert client.get("/sign-in").status_code == 200
    assert client.get("/sign-in/code")["Location"] == "/sign-in"


@pytest.mark.parametrize("typed", ["lena", "LENA", " lena ", "\uff2cena", "le\u0000na"[:2] + "na"])
def test_a_name_is_read_as_it_was_meant(client: Client, person: MakePerson, typed: str) -> None:
    person(Group.VIEWER)
    assert knock(client, typed).status_code == 302


@pytest.mark.parametrize("typed", ["l\u0435na", "lena\u200b", "len\u0430", "lena\u202e"])
def test_a_name_that_only_looks_alike_is_another(client: Client, person: MakePerson, typed: str) -> None:
    person(Group.VIEWER)
    assert knock(client, typed).status_code == 422


def test_a_name_with_what_no_name_has_is_just_wrong(client: Client, db: None) -> None:
    assert knock(client, "\x00" * 20).status_code == 422
    assert knock(client, "x" * 3000).status_code == 422


def _without_secrets(html: str) -> str:
    return re.sub(r'value="[^"]*"', "", html)


def test_the_door_does_not_tell_who_exists(person: MakePerson) -> None:
    person(Group.VIEWER)
    gone = person(Group.VIEWER, name="omar")
    gone.is_active = False
    gone.save()
    answers = [knock(Client(), *who) for who in (("lena", "wrong"), ("nobody", "wrong"), ("omar", PASSWORD))]
    assert {answer.status_code for answer in answers} == {422}
    assert len({_without_secrets(answer.content.decode()) for answer in answers}) == 1
    assert WRONG in answers[0].content.decode()


def test_whoever_was_shut_out_is_told_no_more_than_that_by_any_way_in(
    rf: RequestFactory, client: Client, person: MakePerson
) -> None:
    request = rf.post("/sign-in")
    request.session = client.session
    setattr(request, "_messages", FallbackStorage(request))  # noqa: B010 - nobody declares it
    answer = AccountAdapter().respond_user_inactive(request, person(Group.VIEWER))
    assert answer["Location"] == "/sign-in"
    assert [str(message) for message in get_messages(request)] == [WRONG]


def test_nobody_signs_up(client: Client, rf: RequestFactory, db: None) -> None:
    assert not AccountAdapter().is_open_for_signup(rf.get("/"))
    for name in ("account_signup", "account_signup_by_passkey", "socialaccount_signup"):
        with pytest.raises(NoReverseMatch):
            reverse(name)
    assert client.post("/sign-up", {"username": "eve", "password1": "a long new password"}).status_code in (302, 404)
    assert not User.objects.filter(username="eve").exists()


def test_a_sign_in_gives_the_session_another_number(client: Client, person: MakePerson) -> None:
    person(Group.VIEWER)
    client.get("/set-password/lena/no-token")  # so that there is a session before
    before = client.cookies["sessionid"].value
    knock(client)
    assert client.cookies["sessionid"].value != before
    stranger = Client()
    stranger.cookies["sessionid"] = before
    assert stranger.get("/gallery").status_code == 302


def test_secrets_of_second_factors_are_locked_in_the_database(person: MakePerson, settings: Settings) -> None:
    user = person(Group.ONCALL)
    secret = give_authenticator(user)
    stored = Authenticator.objects.get(user=user, type="totp").data["secret"]
    assert secret not in stored
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key of the installation"
    assert locked_text.unlock(stored) == secret
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(locked_text.Unreadable, match="FENCE_OLD_SECRET_KEYS"):
        locked_text.unlock(stored)


def test_an_authenticator_is_added_with_its_recovery_codes(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    knock(client)
    page = client.get("/you/code/add").content.decode()
    secret = re.search(r'data-copy="([A-Z2-7]+)"', page)[1]  # type: ignore[index]
    assert '<path d="M' in page
    assert client.post("/you/code/add", {"code": "000000"}).status_code in (200, 422)
    assert client.post("/you/code/add", {"code": code_of(secret)})["Location"] == "/you/recovery-codes"
    assert set(re.findall(r"<code>(\d{8})</code>", client.get("/you/recovery-codes").content.decode())) == set(
        recovery_codes_of(user)
    )
    assert verbs() == ["sign_in", "add_second_factor"]
    assert secret not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    "path", ["/you/code/add", "/you/passkeys/add", "/you/recovery-codes", "/you/recovery-codes/new", "/you/code/remove"]
)
def test_second_factors_change_only_after_a_confirmation(client: Client, person: MakePerson, path: str) -> None:
    user = person(Group.ONCALL)
    client.force_login(user)
    if "add" not in path:
        give_authenticator(user)
    answers = [client.get(path), *([client.post(path, {"code": "123456"})] if path != "/you/recovery-codes" else [])]
    for answer in answers:
        assert answer["Location"] == f"/confirm?next={path.replace('/', '%2F')}"
    assert "account_reauthentication_state" not in client.session
    confirm(client)
    assert client.get(path).status_code == 200


def test_a_removed_authenticator_opens_nothing(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    give_authenticator(user)
    client.force_login(user)
    confirm(client)
    assert client.get("/you/code/remove").status_code == 200
    assert Authenticator.objects.filter(user=user).count() == 2
    assert client.post("/you/code/remove")["Location"] == "/you"
    assert not Authenticator.objects.filter(user=user).exists()
    assert verbs() == ["remove_second_factor"]


def test_in_production_the_last_second_factor_of_who_acts_stays(
    client: Client, person: MakePerson, settings: Settings
) -> None:
    settings.FENCE_MODE = Mode.PRODUCTION
    user = person(Group.ONCALL)
    give_authenticator(user)
    client.force_login(user)
    confirm(client, by_second_factor=True)
    assert "keep a second factor" in client.get("/you/code/remove").content.decode()
    client.post("/you/code/remove")
    assert Authenticator.objects.filter(user=user, type="totp").exists()
    assert verbs() == []


def test_new_recovery_codes_end_the_old_ones(client: Client, person: MakePerson) -> None:
    user = person(Group.ONCALL)
    give_authenticator(user)
    old = recovery_codes_of(user)
    client.force_login(user)
    confirm(client)
    client.get("/you/recovery-codes/new")
    assert recovery_codes_of(user) == old
    client.post("/you/recovery-codes/new")
    assert not set(recovery_codes_of(user)) & set(old)
    assert verbs() == ["make_recovery_codes"]


@pytest.mark.parametrize(
    ("path", "most"), [("/sign-in/passkey", 60), ("/set-password/lena/x-y", 30), ("/sign-in/provider/back", 30)]
)
def test_a_flood_of_what_makes_sessions_or_asks_a_provider_is_stopped(
    client: Client, db: None, path: str, most: int
) -> None:
    answers = [Client().get(path, headers={"Accept": "application/json"}) for _ in range(most + 1)]
    assert 429 not in {answer.status_code for answer in answers[:-1]}
    assert answers[-1].status_code == 429
    assert answers[-1]["Retry-After"] == "60"
    assert "Too many at once" in answers[-1].content.decode()
    assert Client(REMOTE_ADDR="192.0.2.9").get(path).status_code != 429


def test_a_passkey_that_nobody_has_is_refused_kindly(client: Client, person: MakePerson) -> None:
    person(Group.ONCALL)
    assert client.get("/sign-in/passkey", headers={"Accept": "application/json"}).json()["request_options"]
    for junk in ("", "{}", "[]", "null", '"x"', '{"id": 1}', "not json"):
        answer = client.post("/sign-in/passkey", {"credential": junk, "next": "/more"})
        assert answer["Location"] == "/sign-in?next=%2Fmore", junk
    assert not UserSession.objects.exists()
