"""The door and its administrators beside each other, on real connections: guesses, last rights, links, rotations."""

from __future__ import annotations

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client, RequestFactory

from dashboard.door.guessing import LIMITS, Kind, LockedOut, guess
from fencing.models import AuditEvent, Credential
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.groups import Group
from fencing.services import keys, people
from fencing.services.credentials import IssuedKey, IssueKey, issue
from fencing.services.keys import RotateKey
from fencing.services.people import Done, MakePerson
from tests.factories import fresh
from tests.fencing.beside import Crowd
from tests.people import code_of, give_authenticator, knock

ADMIN = Caller(credential_id=None, name="ada", person="ada", role=Role.ADMINISTRATOR)


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


def a_person(*groups: Group) -> str:
    name = fresh("person")
    assert isinstance(people.make_person(MakePerson(name=name, groups=frozenset(groups)), ADMIN), Done)
    return name


def test_guesses_that_come_at_once_do_not_all_pass_before_the_first_is_counted(db: None, rf: RequestFactory) -> None:
    name, checked = fresh("person"), []

    def one() -> bool:
        request: HttpRequest = rf.post("/sign-in")
        try:
            guess(request, name, lambda: checked.append(1))
        except LockedOut:
            return False
        return True

    with Crowd(8) as crowd:
        passed = crowd.at_once(*[one] * 8)
    assert (passed.count(True), len(checked)) == (LIMITS[Kind.NAME_HERE],) * 2
    assert AccessAttempt.objects.get(username=name).failures_since_start == LIMITS[Kind.NAME_HERE]


def test_one_code_opens_the_door_once_also_when_it_comes_twice_at_once(db: None) -> None:
    name = a_person(Group.VIEWER)
    user = User.objects.get(username=name)
    user.set_password("correct horse battery")
    user.save()
    code = code_of(give_authenticator(user))
    doors = [Client(), Client()]
    for door in doors:
        knock(door, name)
    with Crowd(2) as crowd:
        statuses = crowd.at_once(
            *[lambda door=door: door.post("/sign-in/code", {"code": code}).status_code for door in doors]
        )
    assert sorted(statuses) == [302, 422]


def test_two_administrators_do_not_remove_each_other(db: None) -> None:
    for _ in range(5):
        pair = [a_person(Group.ADMINISTRATOR) for _ in range(2)]
        others = list(User.objects.exclude(username__in=pair).filter(groups__name=Group.ADMINISTRATOR, is_active=True))
        for other in others:
            people.deactivate(other.username, "before", ADMIN)
        with Crowd(2) as crowd:
            ends = crowd.at_once(*[lambda name=name: people.deactivate(name, "race", ADMIN) for name in pair])
        assert sorted(isinstance(end, Refusal) for end in ends) == [False, True]
        assert people.administrators() == 1


def test_a_key_that_is_rotated_twice_at_once_has_one_successor(db: None) -> None:
    made = issue(IssueKey(role=Role.PLANNER, name=fresh("billing")), ADMIN)
    assert isinstance(made, IssuedKey)
    with Crowd(3) as crowd:
        ends = crowd.at_once(*[lambda: keys.rotate(RotateKey(name=made.name, overlap_s=60), ADMIN)] * 3)
    assert sum(isinstance(end, IssuedKey) for end in ends) == 1
    assert Credential.objects.filter(name__startswith=made.name).count() == 2
    assert AuditEvent.objects.filter(verb="rotate_key").count() == 1


def test_a_link_that_is_used_twice_at_once_sets_one_password(db: None) -> None:
    done = people.make_person(MakePerson(name=fresh("person"), groups=frozenset()), ADMIN)
    assert isinstance(done, Done)
    words = ["the first long password", "the second long password"]
    doors = [Client(), Client()]
    for door in doors:
        door.get(f"/set-password/{done.name}/{done.token}")

    def set_it(door: Client, word: str) -> str:
        return door.post("/set-password", {"new_password": word, "again": word}).get("Location", "")

    with Crowd(2) as crowd:
        ways = crowd.at_once(*[lambda pair=pair: set_it(*pair) for pair in zip(doors, words, strict=True)])
    # Who was beaten at the last moment is led to the page that says so, who came a little later has it at once.
    first = ways.index("/sign-in")
    assert ways[1 - first] in ("/set-password", "")
    assert doors[1 - first].get("/set-password").status_code == 410
    assert User.objects.get(username=done.name).check_password(words[first])
    assert AuditEvent.objects.filter(verb="set_password").count() == 1


def test_two_people_of_one_name_are_not_made(db: None) -> None:
    name = fresh("person")
    with Crowd(3) as crowd:
        ends = crowd.at_once(*[lambda: people.make_person(MakePerson(name=name, groups=frozenset()), ADMIN)] * 3)
    assert sum(isinstance(end, Done) for end in ends) == 1
