"""People: made with plain names, put into groups, shut out and let in; never the last administrator's right."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from fencing.models import AuditEvent
from fencing.protocol import usernames
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.groups import Group
from fencing.queries.people import list_people, read_person
from fencing.services import keys, people
from fencing.services.credentials import IssuedKey, authenticate
from fencing.services.people import ChangeGroups, Done, MakePerson
from tests.people import give_authenticator

ADMIN = Caller(credential_id=None, name="ada", person="ada", role=Role.ADMINISTRATOR, address="192.0.2.1")
ALL = frozenset(Group)


def make(name: str, *groups: Group) -> Done:
    done = people.make_person(MakePerson(name=name, groups=frozenset(groups)), ADMIN)
    assert isinstance(done, Done), done
    return done


def groups(name: str) -> frozenset[Group]:
    return people.groups_in(User.objects.get(username=name))


def change(name: str, *wanted: Group) -> Done | Refusal:
    return people.change_groups(ChangeGroups(name=name, groups=frozenset(wanted), seen=groups(name)), ADMIN)


def refused(result: object) -> Refusal:
    assert isinstance(result, Refusal), result
    return result


def test_a_new_person_has_no_password_and_a_token_to_set_one(db: None) -> None:
    done = make("lena", Group.ONCALL, Group.VIEWER)
    user = User.objects.get(username="lena")
    assert not user.has_usable_password()
    assert default_token_generator.check_token(user, done.token)
    assert groups("lena") == {Group.ONCALL, Group.VIEWER}
    event = AuditEvent.objects.get(verb="make_person")
    assert (event.actor, event.subject, event.source) == ("ada", "lena", "192.0.2.1")
    assert event.after == {"groups": ["viewer", "on-call"]}
    assert done.token not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Lena",
        "lena m",
        "l\u0435na",
        "lena\u200b",
        "-lena",
        ".",
        "x" * 65,
        "lena\n",
        "lena\x00",
        "\uff4cena",
        "a/b",
        "a+b",
    ],
)
def test_a_name_is_plain(db: None, name: str) -> None:
    assert refused(people.make_person(MakePerson(name=name, groups=ALL), ADMIN)).pointer == "/name"
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("known", "other"),
    [
        ("omar", "0mar"),
        ("lena", "1ena"),
        ("alice", "a1ice"),
        ("morgan", "rnorgan"),
        ("lena.m", "lena-m"),
        ("lena.m", "lenam"),
        ("wanda", "vvanda"),
        ("dora", "clora"),
        ("lena", "lena"),
    ],
)
def test_no_two_names_look_alike(db: None, known: str, other: str) -> None:
    make(known)
    detail = refused(people.make_person(MakePerson(name=other, groups=ALL), ADMIN)).detail
    assert known in detail


@pytest.mark.parametrize(("one", "other"), [("lena", "lenamaria"), ("omar", "oma"), ("ada", "adam"), ("anna", "hanna")])
def test_different_names_are_different(one: str, other: str) -> None:
    assert usernames.why_unfit(other, [one]) == ""


@pytest.mark.parametrize("name", ["Lena", "l\u0435na", "lena m", ""])
def test_the_database_holds_plain_names_whoever_makes_them(db: None, name: str) -> None:
    with pytest.raises(IntegrityError, match="auth_user_plain_name"), transaction.atomic():
        User.objects.create(username=name)


def test_groups_change_with_before_and_after_and_a_reason(db: None) -> None:
    make("lena", Group.VIEWER)
    wanted = ChangeGroups(
        name="lena", groups=frozenset({Group.ONCALL}), seen=frozenset({Group.VIEWER}), reason="she is on call now"
    )
    assert isinstance(people.change_groups(wanted, ADMIN), Done)
    event = AuditEvent.objects.get(verb="change_groups")
    assert (event.before, event.after) == ({"groups": ["viewer"]}, {"groups": ["on-call"]})
    assert event.reason == "she is on call now"
    assert isinstance(people.change_groups(wanted, ADMIN), Done)
    assert AuditEvent.objects.filter(verb="change_groups").count() == 1


def test_who_saw_other_groups_changes_nothing(db: None) -> None:
    make("lena", Group.VIEWER)
    wanted = ChangeGroups(name="lena", groups=frozenset({Group.REVIEWER}), seen=frozenset({Group.ONCALL}))
    assert refused(people.change_groups(wanted, ADMIN)).code is Code.CHANGED
    assert groups("lena") == {Group.VIEWER}


def test_the_last_administrator_stays_one(db: None) -> None:
    make("ada", Group.ADMINISTRATOR)
    assert "last administrator" in refused(change("ada", Group.VIEWER)).detail
    assert "last administrator" in refused(people.deactivate("ada", "no", ADMIN)).detail
    assert AuditEvent.objects.count() == 1
    make("bea", Group.ADMINISTRATOR)
    assert isinstance(change("ada", Group.VIEWER), Done)
    assert "last administrator" in refused(people.deactivate("bea", "no", ADMIN)).detail


def test_somebody_shut_out_is_no_administrator_that_would_be_left(db: None) -> None:
    make("ada", Group.ADMINISTRATOR)
    make("bea", Group.ADMINISTRATOR)
    people.deactivate("bea", "left", ADMIN)
    assert "last administrator" in refused(people.deactivate("ada", "left", ADMIN)).detail


def test_the_first_administrator_of_all_can_be_one_of_some(db: None) -> None:
    User.objects.create_superuser("root", "", "x")
    make("ada", Group.ADMINISTRATOR)
    assert groups("root") == ALL
    assert isinstance(change("root", Group.ADMINISTRATOR), Done)
    assert groups("root") == {Group.ADMINISTRATOR}
    assert not User.objects.get(username="root").is_superuser


def lena_everywhere() -> tuple[User, IssuedKey]:
    """A person with a password, a second factor, a session and a key."""
    make("lena", Group.ONCALL)
    user = User.objects.get(username="lena")
    user.set_password("correct horse battery")
    user.save()
    give_authenticator(user)
    UserSession.objects.create(user=user, ip="192.0.2.7", session_key="a session", user_agent="x")
    caller = Caller(credential_id=None, name="lena", person="lena", person_id=user.pk, role=Role.PERSON)
    made = keys.issue_personal(Role.ONCALL, 3600, caller)
    assert isinstance(made, IssuedKey)
    return user, made


def test_who_is_shut_out_loses_sessions_and_keys_and_nothing_else(db: None) -> None:
    user, key = lena_everywhere()
    done = people.deactivate("lena", "left the house", ADMIN)
    assert isinstance(done, Done)
    assert (done.sessions, done.keys) == (1, (key.name,))
    user.refresh_from_db()
    assert (user.is_active, user.has_usable_password()) == (False, True)
    assert Authenticator.objects.filter(user=user).count() == 2
    assert AuditEvent.objects.get(verb="deactivate_person").reason == "left the house"
    assert AuditEvent.objects.filter(verb="revoke_key", subject=key.name).count() == 1
    people.deactivate("lena", "again", ADMIN)
    assert AuditEvent.objects.filter(verb="deactivate_person").count() == 1


def test_who_was_shut_out_by_another_hand_comes_back_without_what_was_left_open(db: None) -> None:
    user, key = lena_everywhere()
    User.objects.filter(pk=user.pk).update(is_active=False)  # whoever has a shell can; nothing of theirs ended then
    people.activate("lena", "is back", ADMIN)
    assert not UserSession.objects.filter(user=user).exists()
    assert refused(authenticate(f"Bearer {key.key}")).code is Code.UNAUTHENTICATED


def test_a_lost_second_factor_is_removed_with_all_that_it_opened(db: None) -> None:
    user, key = lena_everywhere()
    done = people.reset_second_factor("lena", "her phone was stolen", ADMIN)
    assert isinstance(done, Done)
    assert (done.sessions, done.keys) == (1, (key.name,))
    assert not Authenticator.objects.filter(user=user).exists()
    assert AuditEvent.objects.get(verb="reset_second_factor").before == {"second_factors": ["recovery_codes", "totp"]}


@pytest.mark.parametrize(
    "act",
    [
        lambda: (people.deactivate("lena", "left", ADMIN), people.activate("lena", "is back", ADMIN)),
        lambda: people.reset_second_factor("lena", "her phone was stolen", ADMIN),
        lambda: people.reset_password("lena", "forgot it", ADMIN),
        lambda: change("lena", Group.REVIEWER),
    ],
    ids=["shut out and let in again", "second factor", "password", "group"],
)
def test_a_key_that_an_act_ended_opens_nothing_ever_again(db: None, act: Callable[[], object]) -> None:
    _, key = lena_everywhere()
    assert isinstance(authenticate(f"Bearer {key.key}"), Caller)
    act()
    assert refused(authenticate(f"Bearer {key.key}")).code is Code.UNAUTHENTICATED


def test_a_reset_password_is_none_until_the_link_is_used(db: None) -> None:
    user, _ = lena_everywhere()
    done = people.reset_password("lena", "forgot it", ADMIN)
    assert isinstance(done, Done)
    user.refresh_from_db()
    assert not user.has_usable_password()
    assert default_token_generator.check_token(user, done.token)
    assert Authenticator.objects.filter(user=user).exists()
    people.deactivate("lena", "x", ADMIN)
    assert "activate them first" in refused(people.reset_password("lena", "x", ADMIN)).detail


def test_an_account_is_linked_to_one_person_and_a_person_to_one_account(db: None) -> None:
    make("lena")
    make("omar")
    assert isinstance(people.link_account("lena", "oidc-1", "sub-1", ADMIN), Done)
    assert "somebody else" in refused(people.link_account("omar", "oidc-1", "sub-1", ADMIN)).detail
    assert "this person" in refused(people.link_account("lena", "oidc-1", "sub-2", ADMIN)).detail
    assert isinstance(people.unlink_account("lena", "", ADMIN), Done)
    assert isinstance(people.link_account("omar", "oidc-1", "sub-1", ADMIN), Done)


def test_guesses_at_a_name_are_forgotten_with_an_audit_row(db: None) -> None:
    make("lena")
    AccessAttempt.objects.create(username="lena", ip_address="192.0.2.7", user_agent="", failures_since_start=9)
    page = read_person("lena")
    assert page is not None
    assert page.wrong_guesses == 9
    people.unlock("lena", "called", ADMIN)
    people.unlock("lena", "called", ADMIN)
    assert AuditEvent.objects.filter(verb="unlock_person").count() == 1


@pytest.mark.parametrize(
    "act",
    [
        people.deactivate,
        people.activate,
        people.reset_password,
        people.reset_second_factor,
        people.end_sessions,
        people.unlock,
    ],
)
def test_nobody_is_found_who_is_not_there(db: None, act: object) -> None:
    assert refused(act("nobody", "x", ADMIN)).code is Code.NOT_FOUND  # type: ignore[operator]
    assert not AuditEvent.objects.exists()


def test_people_are_listed_with_how_they_sign_in(db: None) -> None:
    make("omar", Group.VIEWER)
    lena_everywhere()
    people.deactivate("omar", "x", ADMIN)
    lines = {line.name: line for line in list_people()}
    assert list(lines) == ["lena", "omar"]
    assert (lines["lena"].state, lines["lena"].second_factors) == ("active", ("totp",))
    assert lines["omar"].state == "deactivated"
    make("vera")
    page = read_person("vera")
    assert page is not None
    assert page.line.state == "waiting"


def said(*words: str) -> str:
    out = StringIO()
    call_command("person", *words, stdout=out)
    return out.getvalue()


def test_the_command_makes_people_and_helps_them_in_again(db: None) -> None:
    link = said("make", "lena", "--group", "on-call", "--base-url", "https://fence.test/")
    assert "https://fence.test/set-password/lena/" in link
    assert groups("lena") == {Group.ONCALL}
    assert AuditEvent.objects.get(verb="make_person").actor == "command line"
    assert "reviewer" in said("groups", "lena", "--group", "reviewer", "--reason", "moved")
    assert "/set-password/lena/" in said("link", "lena")
    for act in ("reset-second-factor", "sign-out", "unlock", "deactivate", "activate"):
        assert said(act, "lena").startswith("lena: ")
    assert "lena: waiting; reviewer" in said("list")
    for words in (["make", "Lena"], ["deactivate", "nobody"], ["groups", "nobody"]):
        with pytest.raises(CommandError):
            said(*words)
