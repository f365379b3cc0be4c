"""The door in a real browser: passkeys of a virtual authenticator, codes, a real provider, confirmations, locks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from playwright.sync_api import Browser, Page, ViewportSize, expect
from pytest_django import Settings

from dashboard.door import provider as providers
from fencing.models import Credential
from fencing.protocol.callers import Caller, Role
from fencing.services.people import link_account
from tests.browser.conftest import PASSWORD
from tests.browser.signing_in import Door
from tests.browser.watching import Watch, check_axe, check_fits, shoot
from tests.factories import fresh
from tests.oidc import LocalProvider
from tests.people import code_of, give_authenticator

PHONE: ViewportSize = {"width": 375, "height": 812}
DEEP = "/gallery?show=json&tool=refund#json"
ADMIN = Caller(credential_id=None, name="maya", person="maya", role=Role.ADMINISTRATOR)
Somebody = Callable[..., User]


@pytest.fixture
def somebody(db: None) -> Somebody:
    """Make a person who is gone after the test."""

    def make(*groups: str) -> User:
        user = User.objects.create_user(fresh("person"), password=PASSWORD)
        user.groups.set(Group.objects.filter(name__in=groups))
        return user

    return make


@pytest.fixture
def named(browser: Browser, base_url: str, db: None) -> Iterator[tuple[Page, Watch]]:
    """A window on the pages under a name: browsers make passkeys for names, never for numbers."""
    here = base_url.replace("127.0.0.1", "localhost")
    watch = Watch(host=here.removeprefix("http://"))
    window = browser.new_context(base_url=here, timezone_id="Europe/Berlin", locale="en-GB")
    window.set_default_timeout(20_000)
    watch.over(window)
    page = window.new_page()
    session = window.new_cdp_session(page)
    session.send("WebAuthn.enable")
    device: dict[str, Any] = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    session.send("WebAuthn.addVirtualAuthenticator", {"options": device})
    yield page, watch
    watch.check()
    window.close()


def leave(page: Page) -> None:
    """Be a stranger again, on no page at all."""
    page.goto("about:blank")
    page.context.clear_cookies()


def enter(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_a_passkey_opens_the_door_alone_and_confirms(named: tuple[Page, Watch], somebody: Somebody) -> None:
    page, _ = named
    user = somebody("on-call")
    page.goto("/you")
    enter(page, user.username)
    page.get_by_role("link", name="Add a passkey").click()
    check_axe(page)
    page.get_by_label("What you call it").fill("the phone")
    page.get_by_label("It may open the door alone").check()
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    expect(page.locator(".codes code")).to_have_count(10)
    check_axe(page)
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("opens the door alone")).to_be_visible()
    check_axe(page)
    check_fits(page)
    page.get_by_role("button", name=re.compile("Sign out person")).click()
    page.goto(DEEP)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url(DEEP)
    page.goto("/confirm?next=/more")
    check_axe(page)
    page.get_by_role("button", name="Confirm with your passkey").click()
    expect(page).to_have_url("/more")
    page.goto("/you")
    page.get_by_role("link", name="Remove the passkey the phone").click()
    page.get_by_role("button", name="Remove this passkey").click()
    expect(page.get_by_text("Your password alone opens the door.")).to_be_visible()
    assert not Authenticator.objects.filter(user=user).exists()


def test_a_passkey_is_a_second_factor_beside_the_password(named: tuple[Page, Watch], somebody: Somebody) -> None:
    page, _ = named
    user = somebody("on-call")
    page.goto("/you/passkeys/add")
    enter(page, user.username)
    page.get_by_role("button", name="Add a passkey").click()
    page.get_by_role("link", name="I have kept them").click()
    page.get_by_role("button", name=re.compile("Sign out person")).click()
    page.goto(DEEP)
    enter(page, user.username)
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    check_axe(page)
    check_fits(page)
    page.get_by_role("button", name="Use your passkey").click()
    expect(page).to_have_url(DEEP)


def test_under_a_number_there_are_no_passkeys_and_the_page_says_why(door: Door) -> None:
    page = door.open("omar", "/you/passkeys/add")
    expect(page.get_by_text("Not at this address.")).to_be_visible()
    expect(page.get_by_text("as localhost")).to_be_visible()
    page.context.clear_cookies()
    page.goto("/sign-in")
    expect(page.get_by_role("button", name="Use a passkey")).to_have_count(0)


def test_an_authenticator_on_a_phone_from_the_square_to_the_next_sign_in(
    page: Page, watch: Watch, somebody: Somebody
) -> None:
    watch.allowed.append("422")
    user = somebody("on-call")
    page.set_viewport_size(PHONE)
    page.goto("/you/code/add")
    enter(page, user.username)
    square = page.get_by_role("img", name="Square for the camera")
    expect(square).to_be_visible()
    assert page.evaluate("() => getComputedStyle(document.querySelector('.squares')).fill") == "rgb(0, 0, 0)"
    check_axe(page)
    check_fits(page)
    shoot(page, "add-authenticator")
    secret = page.locator(".secret code").inner_text().replace(" ", "")
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Add the authenticator").click()
    page.get_by_role("link", name="I have kept them").click()
    shoot(page, "you")
    page.get_by_role("button", name=re.compile("Sign out person")).click()
    page.goto(DEEP)
    enter(page, user.username)
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("That code is wrong")).to_be_visible()
    check_axe(page)
    page.get_by_label("Code").fill(code_of(secret, ahead=1))
    page.keyboard.press("Enter")
    expect(page).to_have_url(DEEP)


def test_what_was_typed_is_there_after_the_confirmation_and_sent_by_the_person(door: Door) -> None:
    page = door.open("nils", "/new-key?role=gateway", is_confirmed=False)
    expect(page.get_by_text("You are asked to confirm")).to_be_visible()
    page.get_by_label("Name").fill("bank")
    page.get_by_label("Tools").fill("refund")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_role("heading", name="Confirm that it is you, to make a key")).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "confirm")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm with your password").click()
    expect(page.get_by_label("Name")).to_have_value("bank")
    expect(page.get_by_label("Tools")).to_have_value("refund")
    assert not Credential.objects.exists()
    page.reload()
    expect(page.get_by_label("Tools")).to_have_value("refund")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("shown now and never again")).to_be_visible()
    assert Credential.objects.get().tools == ["refund"]


def test_the_provider_knows_who_it_is_and_the_link_survives(
    page: Page, watch: Watch, somebody: Somebody, settings: Settings
) -> None:
    user = somebody("viewer")
    with LocalProvider.start() as acme:
        settings.FENCE_PROVIDER = acme.settings()
        link_account(user.username, providers.provider_id(), "sub-of-lena", ADMIN)
        watch.allowed += ["asked another host: " + acme.issuer, acme.issuer]
        page.goto(DEEP)
        shoot(page, "sign-in-provider")
        leave(page)
        page.goto(DEEP)
        page.get_by_role("button", name="Go on with Acme").click()
        page.get_by_role("link", name="It is me").click()
        expect(page).to_have_url(DEEP)
        secret = give_authenticator(user)
        leave(page)
        page.goto(DEEP)
        page.get_by_role("button", name="Go on with Acme").click()
        page.get_by_role("link", name="It is me").click()
        page.get_by_label("Code").fill(code_of(secret))
        page.keyboard.press("Enter")
        expect(page).to_have_url(DEEP)
        leave(page)
        watch.allowed += ["503", "403"]
        page.goto(DEEP)
        page.get_by_role("button", name="Go on with Acme").click()
        page.get_by_role("link", name="It is not").click()
        expect(page.get_by_role("heading", name="Acme did not let you in")).to_be_visible()
        check_axe(page)
        acme.is_told(status=500)
        page.get_by_role("button", name="Try Acme again").click()
        expect(page.get_by_role("heading", name="Acme does not answer")).to_be_visible()
        check_axe(page)
        check_fits(page)
        shoot(page, "provider-down")
        page.get_by_role("link", name="Use name and password").click()
        enter(page, user.username)
        expect(page.get_by_role("heading", name="Second factor")).to_be_visible()


def test_a_shut_door_says_until_when(page: Page, watch: Watch) -> None:
    watch.allowed += ["422", "429"]
    for _ in range(6):
        page.goto("/sign-in")
        enter(page, "nobody", "wrong")
        expect(page.locator(".error, h1:has-text('shut')").first).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile(r"The door is shut until \d\d:\d\d:\d\d UTC"))).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "locked")


def test_a_session_that_ended_lets_one_go_on_where_one_was(door: Door, settings: Settings) -> None:
    page = door.open("vera", "/gallery?show=live")
    settings.FENCE_SESSION_MAX_S = 0
    page.goto("/gallery?show=json")
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    settings.FENCE_SESSION_MAX_S = 3600
    enter(page, "vera")
    expect(page).to_have_url("/gallery?show=json")


def test_a_form_that_came_after_the_end_of_the_session_is_there_again(door: Door, settings: Settings) -> None:
    page = door.open("nils", "/new-key?role=planner")
    page.get_by_label("Name").fill("billing")
    settings.FENCE_SESSION_MAX_S = 0
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    settings.FENCE_SESSION_MAX_S = 3600
    enter(page, "nils")
    expect(page).to_have_url("/new-key?role=planner")
    expect(page.get_by_label("Name")).to_have_value("billing")
