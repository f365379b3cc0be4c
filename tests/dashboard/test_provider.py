"""Signing in with an OpenID provider: a real one, in a process of its own, which can go wrong in every way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.internal.statekit import STATES_SESSION_KEY
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from dashboard.access import Group
from dashboard.door import provider as door
from fencing.environment import read_environment
from fencing.models import AuditEvent
from fencing.protocol.callers import Caller, Role
from fencing.services.people import link_account
from tests.oidc import LocalProvider
from tests.oidc_provider import CLIENT
from tests.people import code_of, confirm, give_authenticator

MakePerson = Callable[..., User]
ADMIN = Caller(credential_id=None, name="ada", person="ada", role=Role.ADMINISTRATOR)
DEEP = "/gallery?show=json&x=%2F"


@pytest.fixture(scope="module")
def process() -> Iterator[LocalProvider]:
    """One provider for the tests of this file."""
    with LocalProvider.start() as running:
        yield running


@pytest.fixture
def acme(process: LocalProvider, settings: Settings) -> LocalProvider:
    """The provider, set up and answering as it should."""
    settings.FENCE_PROVIDER = process.settings()
    process.is_told()
    return process


@pytest.fixture
def lena(person: MakePerson, acme: LocalProvider) -> User:
    """A person whose account at the provider is linked."""
    user = person(Group.ADMINISTRATOR)
    link_account("lena", door.provider_id(), "sub-of-lena", ADMIN)
    return user


def begin(client: Client, path: str = "/sign-in/provider", **given: str) -> str:
    """Press the button, and give the provider's address that the page goes on to."""
    answer = client.post(path, given)
    assert answer.status_code == 200, answer
    html = answer.content.decode()
    (there,) = re.findall(r'content="0;url=([^"]+)"', html)
    return unescape(there)


def come_back(client: Client, acme: LocalProvider, there: str) -> Any:
    """Say "it is me" at the provider, and follow its link back."""
    return client.get(acme.answer_to(there))


def is_in(client: Client) -> bool:
    return client.get("/more").status_code == 200


def test_a_linked_person_comes_in_and_goes_on_where_they_wanted(
    client: Client, lena: User, acme: LocalProvider
) -> None:
    assert "Go on with Acme" in client.get(f"/sign-in?next={DEEP}").content.decode()
    there = begin(client, next=DEEP)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(there).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["nonce"]) > 20
    assert asked["redirect_uri"] == "http://testserver/sign-in/provider/back"
    assert come_back(client, acme, there)["Location"] == DEEP
    assert is_in(client)
    assert AuditEvent.objects.get(verb="sign_in").after == {"by": ["socialaccount"]}


def test_the_provider_is_no_second_factor_and_the_link_survives_both(
    client: Client, lena: User, acme: LocalProvider
) -> None:
    secret = give_authenticator(lena)
    answer = come_back(client, acme, begin(client, next=DEEP))
    assert answer["Location"] == "/sign-in/code"
    assert not is_in(client)
    assert client.post("/sign-in/code", {"code": code_of(secret)})["Location"] == DEEP


def test_the_word_of_the_provider_is_no_confirmation(client: Client, lena: User, acme: LocalProvider) -> None:
    come_back(client, acme, begin(client))
    assert client.get("/you/code/add")["Location"].startswith("/confirm")


def test_an_account_that_nobody_has_is_told_its_number(client: Client, person: MakePerson, acme: LocalProvider) -> None:
    person(Group.VIEWER)
    answer = come_back(client, acme, begin(client))
    assert answer.status_code == 403
    assert "sub-of-lena" in answer.content.decode()
    assert not is_in(client)
    assert not SocialAccount.objects.exists()
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    "control",
    [
        {"claims": {"nonce": "of another sign-in"}},
        {"claims": {"nonce": None}},
        {"claims": {"aud": "another client"}},
        {"claims": {"aud": [CLIENT, "another client"]}},
        {"claims": {"azp": "another client"}},
        {"claims": {"iss": "http://127.0.0.1:1"}},
        {"claims": {"exp": int(time.time()) - 3600}},
        {"claims": {"exp": None}},
        {"claims": {"iat": int(time.time()) + 3600}},
        {"claims": {"sub": None}},
        {"claims": {"sub": 7}},
        {"key": "other"},
        {"alg": "none"},
        {"alg": "HS256"},
    ],
    ids=str,
)
def test_an_answer_that_is_not_for_this_sign_in_opens_nothing(
    client: Client, lena: User, acme: LocalProvider, control: dict[str, Any]
) -> None:
    acme.is_told(**control)
    answer = come_back(client, acme, begin(client))
    assert answer.status_code == 403
    assert "You are not signed in" in answer.content.decode()
    assert not is_in(client)


def test_an_answer_for_several_clients_is_good_where_it_names_us(
    client: Client, lena: User, acme: LocalProvider
) -> None:
    acme.is_told(claims={"aud": [CLIENT, "another"], "azp": CLIENT})
    assert come_back(client, acme, begin(client)).status_code == 302


def test_an_answer_is_good_once_and_in_the_browser_that_asked(client: Client, lena: User, acme: LocalProvider) -> None:
    way = acme.answer_to(begin(client))
    other = Client()
    assert other.get(way).status_code == 403
    assert not is_in(other)
    assert client.get(way).status_code == 302
    assert Client().get(way).status_code == 403
    assert client.get("/sign-in/provider/back").status_code == 403


def test_a_code_without_its_verifier_is_not_taken_back(client: Client, lena: User, acme: LocalProvider) -> None:
    way = acme.answer_to(begin(client))
    session = client.session
    for state, *_ in session[STATES_SESSION_KEY].values():
        state["pkce_code_verifier"] = "another one"
    session.save()
    assert client.get(way).status_code == 403
    assert not is_in(client)


def test_who_says_no_at_the_provider_is_back_at_the_door(client: Client, lena: User, acme: LocalProvider) -> None:
    answer = client.get(acme.answer_to(begin(client), link="It is not"))
    assert answer.status_code == 403
    assert "Acme did not let you in" in answer.content.decode()
    assert "Use name and password" in answer.content.decode()


@pytest.mark.parametrize(
    "control",
    [{"status": 500}, {"status": 200, "body": "<html>"}, {"status": 200, "body": "[]"}, {"issuer": "https://other"}],
    ids=str,
)
def test_a_provider_that_is_down_or_another_is_a_page_with_the_other_way_in(
    client: Client, lena: User, acme: LocalProvider, control: dict[str, Any]
) -> None:
    acme.is_told(**control)
    answer = client.post("/sign-in/provider", {"next": DEEP})
    assert answer.status_code == 503
    html = answer.content.decode()
    assert "Acme does not answer" in html
    assert 'href="/sign-in?next=%2Fgallery%3Fshow%3Djson%26x%3D%252F"' in html
    assert "Try Acme again" in html


def test_a_provider_that_goes_away_in_between_is_a_page_too(client: Client, lena: User, acme: LocalProvider) -> None:
    way = acme.answer_to(begin(client))
    acme.is_told(status=502)
    assert client.get(way).status_code == 503
    acme.is_told()
    assert come_back(client, acme, begin(client)).status_code == 302


def test_a_provider_that_is_not_there_is_a_page(client: Client, lena: User, settings: Settings) -> None:
    settings.FENCE_PROVIDER = LocalProvider(issuer="http://127.0.0.1:9", process=None).settings()  # type: ignore[arg-type]
    assert client.post("/sign-in/provider").status_code == 503


def test_without_a_provider_there_is_no_such_way(client: Client, person: MakePerson, settings: Settings) -> None:
    settings.FENCE_PROVIDER = None
    client.force_login(person(Group.VIEWER))
    confirm(client)
    for path in ("/sign-in/provider", "/you/account/link"):
        assert client.post(path).status_code == 404
    assert client.get("/sign-in/provider/back?state=x&code=y").status_code == 404
    assert "Go on with" not in Client().get("/sign-in").content.decode()


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example"])
def test_the_way_back_leads_to_this_site_alone(client: Client, lena: User, acme: LocalProvider, elsewhere: str) -> None:
    assert come_back(client, acme, begin(client, next=elsewhere))["Location"] == "/"


def test_an_answer_beside_somebody_signed_in_changes_who_it_is_wholly(
    client: Client, lena: User, person: MakePerson, acme: LocalProvider
) -> None:
    client.force_login(person(Group.VIEWER, name="omar"))
    confirm(client)
    come_back(client, acme, begin(client))
    assert client.session["_auth_user_id"] == str(lena.pk)
    assert "fence_confirmed" not in client.session


def test_somebody_shut_out_stays_out(client: Client, lena: User, acme: LocalProvider) -> None:
    lena.is_active = False
    lena.save()
    answer = come_back(client, acme, begin(client))
    assert answer["Location"] == "/sign-in"
    assert not is_in(client)


def test_a_claim_that_the_operator_trusts_links_at_the_first_sign_in(
    client: Client, person: MakePerson, acme: LocalProvider, settings: Settings
) -> None:
    person(Group.VIEWER)
    settings.FENCE_PROVIDER = acme.settings(username_claim="preferred_username")
    assert come_back(client, acme, begin(client)).status_code == 302
    assert SocialAccount.objects.get().uid == "sub-of-lena"
    assert AuditEvent.objects.filter(verb="link_account").count() == 1
    # Another account that claims the same name later is somebody else.
    acme.is_told(**{"as": "another sub"})
    other = Client()
    assert come_back(other, acme, begin(other)).status_code == 403


@pytest.mark.parametrize(
    ("claims", "status"), [({"email_verified": True}, 302), ({}, 403), ({"email_verified": "true"}, 403)]
)
def test_an_address_names_a_person_only_where_it_was_verified(
    client: Client, person: MakePerson, acme: LocalProvider, settings: Settings, claims: dict[str, Any], status: int
) -> None:
    person(Group.VIEWER, name="lena@acme.test")
    settings.FENCE_PROVIDER = acme.settings(username_claim="email")
    acme.is_told(claims={"email": "lena@acme.test", **claims})
    assert come_back(client, acme, begin(client)).status_code == status


def test_one_links_ones_own_account_after_a_confirmation(
    client: Client, person: MakePerson, acme: LocalProvider
) -> None:
    client.force_login(person(Group.VIEWER))
    assert client.post("/you/account/link").status_code == 303
    confirm(client)
    answer = come_back(client, acme, begin(client, "/you/account/link"))
    assert answer["Location"] == "/you"
    assert SocialAccount.objects.get().user.get_username() == "lena"
    assert "sub-of-lena" in client.get("/you").content.decode()
    event = AuditEvent.objects.get(verb="link_account")
    assert (event.actor, event.role) == ("lena (browser)", "person")
    client.post("/you/account/unlink")
    assert not SocialAccount.objects.exists()
    assert AuditEvent.objects.filter(verb="unlink_account").count() == 1


def test_an_account_is_one_persons(client: Client, lena: User, person: MakePerson, acme: LocalProvider) -> None:
    client.force_login(person(Group.VIEWER, name="omar"))
    confirm(client)
    come_back(client, acme, begin(client, "/you/account/link"))
    assert "belongs to somebody else" in client.get("/you").content.decode()
    assert SocialAccount.objects.get().user == lena


def test_who_began_to_link_is_who_must_come_back(client: Client, person: MakePerson, acme: LocalProvider) -> None:
    client.force_login(person(Group.VIEWER, name="omar"))
    confirm(client)
    way = acme.answer_to(begin(client, "/you/account/link"))
    session = client.session
    for state, *_ in session[STATES_SESSION_KEY].values():
        state["data"] = {"person": 0}
    session.save()
    assert client.get(way).status_code == 403
    assert not SocialAccount.objects.exists()


def test_who_has_no_password_does_not_unlink_themselves_out(client: Client, lena: User, acme: LocalProvider) -> None:
    lena.set_unusable_password()
    lena.save()
    client.force_login(lena)
    confirm(client)
    client.post("/you/account/unlink")
    assert SocialAccount.objects.exists()


def test_another_issuer_is_another_provider_whose_numbers_mean_others(
    client: Client, lena: User, acme: LocalProvider, settings: Settings
) -> None:
    with LocalProvider.start() as other:
        settings.FENCE_PROVIDER = other.settings()
        assert come_back(client, other, begin(client)).status_code == 403
    assert not is_in(client)


def test_the_environment_names_a_provider() -> None:
    given = {
        "FENCE_OIDC_ISSUER": "https://id.acme.test/realm/",
        "FENCE_OIDC_CLIENT_ID": "fence",
        "FENCE_OIDC_CLIENT_SECRET": "s",
    }
    found = read_environment(given).provider
    assert found is not None
    assert (found.issuer, found.name) == ("https://id.acme.test/realm/", "id.acme.test")
    assert read_environment({}).provider is None
    assert "FENCE_OIDC_CLIENT_ID is missing" in " ".join(read_environment({"FENCE_OIDC_ISSUER": "https://x.y"}).faults)
    faults = read_environment({**given, "FENCE_OIDC_ISSUER": "http://x.y", "FENCE_MODE": "production"}).faults
    assert any("https://" in fault for fault in faults)
