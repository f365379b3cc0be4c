"""The pages of keys: shown once, rotated, bound otherwise, ended and revoked; each by whom it belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.access import Group
from dashboard.presenters import keys as presenter
from fencing.environment import Mode
from fencing.models import AuditEvent, Credential
from fencing.protocol.callers import Caller, Role
from fencing.queries.keys import read_key
from fencing.services.credentials import COMMAND_LINE, IssuedKey, IssueKey, authenticate, issue
from tests.people import confirm

MakePerson = Callable[..., User]
NEW = {"role": "gateway", "name": "bank", "tools": "refund, mail", "life": "86400", "rate": "50"}


@pytest.fixture
def ada(client: Client, person: MakePerson) -> Client:
    """An administrator who has just confirmed."""
    client.force_login(person(Group.ADMINISTRATOR, name="ada"))
    confirm(client)
    return client


def key_in(html: str) -> str:
    (found,) = re.findall(r"<code>(fk_\w+_[\w-]{43})</code>", html)
    return str(found)


def caller_of(key: str) -> Caller:
    found = authenticate(f"Bearer {key}")
    assert isinstance(found, Caller)
    return found


def test_a_key_is_made_and_shown_once(ada: Client) -> None:
    answer = ada.post("/new-key/issue", NEW)
    assert "no-store" in answer["Cache-Control"]
    key = key_in(answer.content.decode())
    caller = caller_of(key)
    assert (caller.role, caller.tools, caller.rate_per_s) == (Role.GATEWAY, frozenset({"mail", "refund"}), 50)
    for path in ("/keys", "/keys/bank"):
        assert key not in ada.get(path).content.decode()
    assert key not in str(dict(ada.session))
    event = AuditEvent.objects.get(verb="issue_key")
    assert (event.actor, event.role) == ("ada (browser)", "administrator")
    again = ada.post("/new-key/issue", NEW)
    assert again.status_code == 422
    assert "names are never used again" in again.content.decode()
    assert 'value="refund, mail"' in again.content.decode()


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"name": ""}, "required"),
        ({"name": "two words"}, "not an identifier"),
        ({"tools": "re/fund"}, "not an identifier"),
        ({"rate": "0"}, "greater than or equal to 1"),
        ({"life": "1"}, "not one of the available choices"),
    ],
)
def test_what_does_not_fit_is_told_at_its_field_and_nothing_is_lost(
    ada: Client, given: dict[str, str], fault: str
) -> None:
    answer = ada.post("/new-key/issue", {**NEW, **given})
    assert answer.status_code == 422
    html = answer.content.decode()
    assert fault in html
    assert 'aria-invalid="true"' in html
    assert not Credential.objects.exists()


@pytest.mark.parametrize("role", ["oncall", "system", "administrator", "king", ""])
def test_no_machine_gets_a_persons_role(ada: Client, role: str) -> None:
    assert ada.post("/new-key/issue", {**NEW, "role": role}).status_code == 404
    assert "What may it do?" in ada.get(f"/new-key?role={role}").content.decode()


@pytest.mark.parametrize("role", ["planner", "path", "gateway", "scorer", "publisher", "gate", "auditor"])
def test_the_form_asks_for_what_binds_a_role_and_nothing_else(ada: Client, role: str) -> None:
    html = ada.get(f"/new-key?role={role}").content.decode()
    asked = set(re.findall(r'name="(path|group|tools|lanes)"', html))
    bound = {"path": {"path"}, "planner": {"group"}, "gateway": {"tools"}, "scorer": {"lanes"}}
    assert asked == bound.get(role, set())


def bank(**more: object) -> IssuedKey:
    made = issue(IssueKey(role=Role.GATEWAY, name="bank", tools=("refund",), **more), COMMAND_LINE)  # type: ignore[arg-type]
    assert isinstance(made, IssuedKey)
    return made


def test_a_rotated_key_shows_its_successor_once_and_until_when_both_are_good(ada: Client) -> None:
    old = bank()
    html = ada.post("/keys/bank/rotate", {"overlap": "3600", "reason": "the yearly one"}).content.decode()
    new = key_in(html)
    assert caller_of(new).name == "bank@2"
    assert caller_of(old.key).name == "bank"
    assert "is good until" in html
    page = ada.get("/keys/bank").content.decode()
    assert "On its way out" in page
    assert "It was rotated already, into bank@2." in page
    assert "the yearly one" in page
    second = ada.post("/keys/bank/rotate", {"overlap": "0"})
    assert second.status_code == 409
    assert "was rotated already" in second.content.decode()
    assert "It changed while you looked" not in second.content.decode() or "bank@2" in second.content.decode()


def test_a_key_is_bound_otherwise_by_an_administrator_alone(ada: Client, person: MakePerson) -> None:
    key = bank().key
    assert ada.post("/keys/bank/scope", {"scope": "refund, mail", "seen": "refund"})["Location"] == "/keys/bank"
    assert caller_of(key).tools == frozenset({"refund", "mail"})
    answer = ada.post("/keys/bank/scope", {"scope": "mail", "seen": "refund"})
    assert answer.status_code == 409
    assert 'value="mail"' in answer.content.decode()
    ada.post("/keys/bank/scope", {"scope": "", "seen": "mail, refund"})
    assert caller_of(key).tools is None


def test_a_conflict_lays_what_was_seen_beside_what_is_now(ada: Client) -> None:
    bank()
    page = ada.get("/keys/bank").content.decode()
    (facts,) = set(re.findall(r'name="facts" value="([^"]+)"', page))
    ada.post("/keys/bank/scope", {"scope": "mail", "seen": "refund"})
    html = ada.post("/keys/bank/scope", {"scope": "other", "seen": "refund", "facts": facts}).content.decode()
    assert "It changed while you looked" in html
    assert re.search(r"<th scope=\"row\">tools</th><td[^>]*>.*refund.*</td><td[^>]*>.*mail.*</td>", html)
    assert 'name="seen" value="mail"' in html


def test_an_act_on_a_key_that_was_revoked_meanwhile_says_so_on_a_page_of_its_own(ada: Client) -> None:
    bank()
    (facts,) = set(re.findall(r'name="facts" value="([^"]+)"', ada.get("/keys/bank").content.decode()))
    ada.post("/keys/bank/revoke", {"reason": "it leaked"})
    for act, typed in (
        ("rotate", {"overlap": "3600"}),
        ("scope", {"scope": "", "seen": "refund"}),
        ("end", {"ends": "3600"}),
    ):
        answer = ada.post(f"/keys/bank/{act}", {**typed, "reason": "the yearly one", "facts": facts})
        html = answer.content.decode()
        assert answer.status_code == 409, act
        assert "nothing can be done with it any more" in html
        assert re.search(r"<th scope=\"row\">state</th><td[^>]*>.*live.*</td><td[^>]*>.*revoked.*</td>", html)
        assert "the yearly one" in html
        assert 'href="/keys/bank"' in html
    assert Credential.objects.count() == 1


def test_a_key_ends_by_itself_and_at_once(ada: Client) -> None:
    key = bank().key
    ada.post("/keys/bank/end", {"ends": "3600"})
    assert Credential.objects.get().expires_at is not None
    later = ada.post("/keys/bank/end", {"ends": "86400"})
    assert later.status_code == 422
    assert "never put off" in later.content.decode()
    assert ada.post("/keys/bank/revoke", {"reason": "it leaked"})["Location"] == "/keys/bank"
    assert not isinstance(authenticate(f"Bearer {key}"), Caller)
    page = ada.get("/keys/bank").content.decode()
    assert "opens nothing since" in page
    assert "data-act" not in page.partition("What was done with it")[0].partition("<main")[2]
    assert ada.post("/keys/bank/revoke")["Location"] == "/keys/bank"
    assert AuditEvent.objects.get(verb="revoke_key").reason == "it leaked"


def test_machines_keys_are_for_administrators(client: Client, person: MakePerson) -> None:
    bank()
    client.force_login(person(Group.ONCALL, Group.REVIEWER, Group.VIEWER, Group.AUDITOR))
    confirm(client)
    assert "bank" not in client.get("/keys").content.decode()
    answers = [client.get("/keys/bank"), client.get("/new-key"), client.post("/new-key/issue", NEW)]
    answers += [client.post(f"/keys/bank/{act}", {}) for act in ("rotate", "end", "revoke", "scope")]
    assert [answer.status_code for answer in answers] == [403] * 7
    assert Credential.objects.get().revoked_at is None


def test_people_make_and_end_keys_of_their_own(client: Client, person: MakePerson) -> None:
    client.force_login(person(Group.ONCALL))
    confirm(client)
    key = key_in(client.post("/new-key/personal", {"role": "oncall", "life": "3600"}).content.decode())
    caller = caller_of(key)
    assert (caller.person, caller.role) == ("lena", Role.ONCALL)
    assert caller.name in client.get("/keys").content.decode()
    assert client.post("/new-key/personal", {"role": "reviewer", "life": "3600"}).status_code == 422
    assert client.post("/new-key/personal", {"role": "oncall", "life": "86400"}).status_code == 422
    client.post(f"/keys/{caller.name}/revoke")
    assert not isinstance(authenticate(f"Bearer {key}"), Caller)


def test_a_key_is_its_owners(client: Client, person: MakePerson) -> None:
    person(Group.ONCALL)
    made = issue(IssueKey(role=Role.ONCALL, name="lenas", user="lena"), COMMAND_LINE)
    assert isinstance(made, IssuedKey)
    client.force_login(person(Group.ONCALL, name="omar"))
    confirm(client)
    assert client.get("/keys/lenas").status_code == 403
    assert client.post("/keys/lenas/revoke").status_code == 403
    assert isinstance(authenticate(f"Bearer {made.key}"), Caller)


def test_who_is_in_neither_group_reads_why_there_is_no_key_for_them(client: Client, person: MakePerson) -> None:
    client.force_login(person(Group.VIEWER))
    assert "you are in neither" in client.get("/keys").content.decode()


def test_in_production_an_administrator_without_a_second_factor_makes_nothing(
    client: Client, person: MakePerson, settings: Settings
) -> None:
    settings.FENCE_MODE = Mode.PRODUCTION
    client.force_login(person(Group.ADMINISTRATOR))
    confirm(client)
    page = client.get("/new-key?role=gate").content.decode()
    assert "In production this takes a second factor" in page
    assert "Make it, and show it once" not in page
    assert client.post("/new-key/issue", NEW).status_code == 403
    assert not Credential.objects.exists()
    confirm(client, by_second_factor=True)
    assert client.post("/new-key/issue", NEW).status_code == 200


def test_keys_are_found_by_what_they_are(ada: Client) -> None:
    for number in range(60):
        issue(IssueKey(role=Role.GATE, name=f"gate-{number:02}"), COMMAND_LINE)
    bank()
    first = ada.get("/keys").content.decode()
    assert first.count("/keys/gate-") == 49
    assert "Older" in first
    found = ada.get("/keys?role=gateway").content.decode()
    assert "/keys/bank" in found
    assert "/keys/gate-" not in found
    assert "No key is like that" in ada.get("/keys?name=nothing").content.decode()


def test_the_list_asks_as_often_for_sixty_keys_as_for_one(
    ada: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(60):
        issue(IssueKey(role=Role.GATE, name=f"gate-{number:02}"), COMMAND_LINE)
    with django_assert_max_num_queries(7):
        ada.get("/keys")


@pytest.mark.parametrize("path", ["/keys/nothing", "/keys/no%20key"])
def test_a_key_that_is_not_there_is_a_404(ada: Client, path: str) -> None:
    assert ada.get(path).status_code == 404
    assert ada.post(f"{path}/revoke").status_code == 404


def test_the_sentence_of_a_key_says_what_it_is_good_for(db: None) -> None:
    bank(expires_in_s=3600)
    line = read_key("bank")
    assert line is not None
    assert presenter.sentence(line).startswith("Live: it is good as gateway until 20")
    issue(IssueKey(role=Role.GATE, name="gate"), COMMAND_LINE)
    gate = read_key("gate")
    assert gate is not None
    assert presenter.sentence(gate) == "Live: it is good as gate without an end."
