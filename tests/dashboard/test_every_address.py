"""Every address, made from the list of addresses, against everybody: no page is added without saying whom it is for.

What a view declares (`open_to`) is what the middleware asks; this file holds that each declares something, that what is
declared is what happens, and that nothing that changes anything is open to everybody by oversight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.access import ANY_GROUP, ANYBODY, SIGNED_IN, Group, Opening, openings_of
from fencing.models import AuditEvent, Credential, SideLogRow

MakePerson = Callable[..., User]
IN_NO_GROUP: Final = "in none of the groups that may see these pages"
NOT_IN: Final = re.compile(r"This is for the group .*; you are not in it\.")

# Pages that strangers may open: the door, and what leads through it.
DOOR: Final = {
    "account_login",
    "mfa_authenticate",
    "mfa_login_webauthn",
    "sign_in_again",
    "openid_connect_login",
    "openid_connect_callback",
    "dashboard:set_password",
    "dashboard:open_password_link",
}
# Pages for everybody who is signed in, in a group or not: oneself, and leaving.
OWN: Final = {
    "account_logout",
    "mfa_index",
    "mfa_activate_totp",
    "mfa_deactivate_totp",
    "mfa_add_webauthn",
    "mfa_edit_webauthn",
    "mfa_remove_webauthn",
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
    "link_account",
    "unlink_account",
    "dashboard:confirm",
    "dashboard:more",
    "dashboard:you",
    "dashboard:my_targets",
    "dashboard:add_my_target",
    "dashboard:set_my_quiet_hours",
    "dashboard:try_my_target",
    "dashboard:end_my_target",
    "dashboard:change_password",
    "dashboard:sign_out_elsewhere",
}
# What people of groups do on the word of their session: reading and looking, saying what they saw or found out, and
# asking both paths anew. Everything else asks who they are, within five minutes (G7).
ON_THE_SESSIONS_WORD: Final = {
    "dashboard:replay_step",
    "dashboard:replay_steps",
    "dashboard:give_verdict",
    "dashboard:review_grant",
    "dashboard:open_notice",
    "dashboard:effect_happened",
    "dashboard:effect_did_not_happen",
    "dashboard:read_back_effect",
    "dashboard:read_back_compensation",
    "dashboard:adopt_effect",
    "dashboard:take_incident",
    "dashboard:note_incident",
    "dashboard:resolve_incident",
    "dashboard:upload_ledger",
    "dashboard:pull_ledger",
    "dashboard:acknowledge_rows",
    "dashboard:review_tool",
    "dashboard:review_new_tool",
    "dashboard:read_tools",
    "dashboard:verify_audit",
}
# What changes something, is open to any group, and asks for the right itself: a key by its owner or an administrator.
ASKS_ITSELF: Final = {"dashboard:rotate_key", "dashboard:end_key", "dashboard:revoke_key", "dashboard:open_notice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of the site with names filled in."""

    name: str
    path: str
    view: Any

    def __str__(self) -> str:
        return self.name


@dataclass(kw_only=True)
class Visitor:
    """Somebody who opens one address after the other, and signs in again where one of them signed them out."""

    client: Client
    person: User
    is_in: bool = False

    def asks(self, method: str, address: Address) -> Any:
        """Send one request."""
        if not self.is_in:
            self.client.force_login(self.person)
        answer = getattr(self.client, method)(address.path)
        self.is_in = address.name != "account_logout"
        return answer


def addresses() -> list[Address]:
    """Walk the list of addresses; the API's are held in `tests/api/test_every_call.py`."""
    return [each for each in _walk(get_resolver(), "", "") if not each.path.startswith(("/api/", "/healthz", "/readyz"))
            and each.path not in ("/metrics", "/.well-known/jwks.json")]  # fmt: skip


def _walk(resolver: URLResolver, prefix: str, namespace: str) -> Iterator[Address]:
    for each in resolver.url_patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            inner = f"{each.namespace}:" if each.namespace and "api" not in (each.namespace or "") else ""
            yield from _walk(each, route, namespace + inner)
        elif isinstance(each, URLPattern):
            yield Address(name=f"{namespace}{each.name}", path="/" + _filled(route), view=each.callback)


def _filled(route: str) -> str:
    given = {"int": "1", "uuid": "0193d6c5-0000-7000-8000-000000000000", "str": "x-1", "slug": "x-1", "path": "x-1"}
    return re.sub(r"<(?:(\w+):)?\w+>", lambda found: given[found[1] or "str"], route)


ADDRESSES: Final = addresses()


def openings(address: Address) -> frozenset[Opening]:
    found = openings_of(address.view)
    assert found is not None, f"{address.name} declares nothing"
    return found


def why_shut(answer: Any) -> str:
    """Tell how the door of a page was shut to somebody, if it was: by its own rule, and not for another reason."""
    if answer.status_code == 302 and answer["Location"].partition("?")[0] == "/sign-in":
        return "sign in"
    if answer.status_code == 403:
        html = answer.content.decode()
        if IN_NO_GROUP in html:
            return "no group"
        return "not in it" if NOT_IN.search(html) else ""
    return ""


def test_there_are_addresses_of_each_part_of_the_site() -> None:
    names = {each.name for each in ADDRESSES}
    assert {"dashboard:overview", "dashboard:people", "dashboard:issue_key", "account_login", "mfa_index"} <= names
    assert len(names) == len(ADDRESSES)


@pytest.mark.parametrize("address", ADDRESSES, ids=str)
def test_each_address_declares_whom_it_is_open_to(address: Address) -> None:
    found = openings(address)
    assert found
    assert (ANYBODY in found) is (address.name in DOOR)
    assert (SIGNED_IN in found) is (address.name in OWN)
    assert (getattr(address.view, "login_required", True) is False) is (address.name in DOOR)


def test_a_stranger_comes_to_the_door_alone(db: None, client: Client) -> None:
    for address in ADDRESSES:
        for method in ("get", "post"):
            answer = getattr(client, method)(address.path)
            if address.name in DOOR:
                assert answer.status_code != 403, address.name
            else:
                assert why_shut(answer) == "sign in", address.name


def test_somebody_in_no_group_comes_to_themself_alone(client: Client, person: MakePerson) -> None:
    visitor = Visitor(client=client, person=person())
    for address in ADDRESSES:
        is_open = bool(openings(address) & {ANYBODY, SIGNED_IN})
        for method in ("get", "post"):
            answer = visitor.asks(method, address)
            assert (why_shut(answer) == "no group") is not is_open, address.name


@pytest.mark.parametrize("group", list(Group))
def test_each_group_comes_where_it_may_and_nowhere_else(client: Client, person: MakePerson, group: Group) -> None:
    visitor = Visitor(client=client, person=person(group))
    for address in ADDRESSES:
        found = openings(address)
        is_open = bool(found & {ANYBODY, SIGNED_IN, ANY_GROUP, group})
        # What is open to any group is the same page for each; one of them opens them all.
        is_shown = group is Group.VIEWER or not found & {ANYBODY, SIGNED_IN, ANY_GROUP}
        for method in ("get", "post") if is_shown else ("post",):
            answer = visitor.asks(method, address)
            told = f"{group} {method} {address.name}: {answer.status_code}"
            assert (why_shut(answer) == "not in it") is not is_open, told
            assert answer.status_code < 500, told


def test_what_changes_something_is_open_to_no_viewer(client: Client, person: MakePerson) -> None:
    """Whatever takes a POST and is not a person's own refuses somebody who may only look."""
    visitor = Visitor(client=client, person=person(Group.VIEWER))
    for address in ADDRESSES:
        if address.name not in DOOR | OWN | ASKS_ITSELF:
            answer = visitor.asks("post", address)
            assert answer.status_code in (403, 405), f"{address.name}: {answer.status_code}"


def test_what_changes_something_asks_for_a_recent_confirmation(client: Client, person: MakePerson) -> None:
    visitor = Visitor(client=client, person=person(*Group))
    unasked = set()
    for address in ADDRESSES:
        if address.name not in DOOR | OWN:
            answer = visitor.asks("post", address)
            is_asked = answer.status_code == 303 and answer["Location"].startswith("/confirm?")
            unasked |= set() if is_asked or answer.status_code == 405 else {address.name}
    assert unasked == ON_THE_SESSIONS_WORD


@pytest.mark.parametrize("address", [each for each in ADDRESSES if each.name in ASKS_ITSELF], ids=str)
def test_what_asks_for_the_right_itself_refuses_a_viewer(client: Client, person: MakePerson, address: Address) -> None:
    client.force_login(person(Group.VIEWER))
    assert client.post(address.path).status_code in (303, 404)


def test_no_form_is_taken_without_its_token(person: MakePerson) -> None:
    visitor = Visitor(client=Client(enforce_csrf_checks=True), person=person(*Group))
    for address in ADDRESSES:
        answer = visitor.asks("post", address)
        assert answer.status_code == 403, address.name
        assert "Nothing was done" in answer.content.decode()


def test_a_scanner_that_opens_every_page_does_nothing_in_anybodys_name(client: Client, person: MakePerson) -> None:
    visitor = Visitor(client=client, person=person(*Group))
    for address in ADDRESSES:
        assert visitor.asks("get", address).status_code < 500, address.name
    for model in (AuditEvent, Credential, SideLogRow):
        assert not model.objects.exists()
    assert User.objects.count() == 1
    assert client.get("/more").status_code == 200


def test_a_view_that_declares_nothing_would_be_found() -> None:
    """The check above can fail."""

    def view(request: object) -> None:
        del request

    with pytest.raises(AssertionError, match="declares nothing"):
        openings(Address(name="new", path="/new", view=view))
