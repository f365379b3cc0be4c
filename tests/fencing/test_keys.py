"""What is done with keys: rotated with overlap, bound otherwise, ended, revoked, made by people for themselves (H1)."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F

from fencing.models import AuditEvent, Credential
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.groups import Group
from fencing.queries.keys import list_keys, read_key, read_key_events
from fencing.queries.pages import Page
from fencing.services import keys, people
from fencing.services.credentials import IssuedKey, IssueKey, authenticate, issue
from fencing.services.keys import ChangedKey, ChangeScope, EndKey, RotateKey
from fencing.services.people import ChangeGroups
from tests.factories import fresh, make_credential

ADMIN = Caller(credential_id=None, name="ada", person="ada", role=Role.ADMINISTRATOR, address="192.0.2.1")


def a_key(role: Role = Role.PLANNER, **bound: object) -> IssuedKey:
    made = issue(IssueKey(role=role, name=fresh(role), **bound), ADMIN)  # type: ignore[arg-type]
    assert isinstance(made, IssuedKey)
    return made


def opens(key: str) -> bool:
    return isinstance(authenticate(f"Bearer {key}"), Caller)


def a_person(*groups: Group) -> Caller:
    user = User.objects.create(username=fresh("person"))
    user.groups.set(GroupRow.objects.get_or_create(name=group)[0] for group in groups)
    return Caller(credential_id=None, name=user.username, person=user.username, person_id=user.pk, role=Role.PERSON)


def rotated(name: str, overlap_s: int = 3600, caller: Caller = ADMIN) -> IssuedKey:
    made = keys.rotate(RotateKey(name=name, overlap_s=overlap_s, reason="the yearly one"), caller)
    assert isinstance(made, IssuedKey), made
    return made


def refused(result: object) -> Refusal:
    assert isinstance(result, Refusal), result
    return result


def shift(name: str, by: timedelta) -> None:
    """Let a key end so much earlier."""
    Credential.objects.filter(name=name).update(expires_at=F("expires_at") - by)


def test_both_secrets_are_good_until_the_overlap_ends(db: None) -> None:
    old = a_key()
    new = rotated(old.name)
    assert new.name == f"{old.name}@2"
    assert opens(old.key)
    assert opens(new.key)
    shift(old.name, timedelta(seconds=3601))
    assert not opens(old.key)
    assert opens(new.key)


def test_without_an_overlap_the_old_secret_ends_at_once(db: None) -> None:
    old = a_key()
    new = rotated(old.name, overlap_s=0)
    assert (opens(old.key), opens(new.key)) == (False, True)


def test_a_successor_has_the_same_bindings_and_its_own_last_use(db: None) -> None:
    old = a_key(Role.GATEWAY, tools=("refund", "mail"), rate_per_s=7)
    new = rotated(old.name)
    first, second = (authenticate(f"Bearer {each.key}") for each in (old, new))
    assert isinstance(first, Caller)
    assert isinstance(second, Caller)
    assert (first.tools, first.rate_per_s, first.role) == (second.tools, second.rate_per_s, second.role)
    assert first.credential_id != second.credential_id
    lines = [read_key(each.name) for each in (old, new)]
    assert all(line is not None and line.last_used_at is not None for line in lines)


def test_planners_keep_their_runs_over_a_rotation(db: None) -> None:
    old = a_key()
    new = rotated(rotated(old.name).name)
    callers = [authenticate(f"Bearer {each.key}") for each in (old, new)]
    assert {caller.group for caller in callers if isinstance(caller, Caller)} == {old.name}
    assert new.name == f"{old.name}@3"


def test_a_key_is_rotated_once_and_who_comes_second_is_told(db: None) -> None:
    old = a_key()
    new = rotated(old.name)
    refusal = refused(keys.rotate(RotateKey(name=old.name, overlap_s=0), ADMIN))
    assert refusal.code is Code.CHANGED
    assert new.name in refusal.detail
    assert opens(old.key)


def test_a_taken_name_is_passed_over(db: None) -> None:
    old = a_key()
    issue(IssueKey(role=Role.GATE, name=f"{old.name}@2"), ADMIN)
    assert rotated(old.name).name == f"{old.name}@3"


def test_an_old_key_does_not_outlive_its_own_end(db: None) -> None:
    old = a_key(expires_in_s=60)
    rotated(old.name, overlap_s=3600)
    line = read_key(old.name)
    assert line is not None
    assert line.expires_at is not None
    assert line.expires_at - read_clock() < timedelta(seconds=61)


@pytest.mark.parametrize("overlap_s", [-1, 31 * 86_400])
def test_an_overlap_has_bounds(db: None, overlap_s: int) -> None:
    old = a_key()
    assert refused(keys.rotate(RotateKey(name=old.name, overlap_s=overlap_s), ADMIN)).code is Code.INVALID_VALUE


def test_no_secret_is_anywhere_in_the_audit(db: None) -> None:
    old = a_key()
    new = rotated(old.name)
    told = str(list(AuditEvent.objects.values()))
    assert old.key not in told
    assert new.key not in told
    assert old.key[-20:] not in str(list(Credential.objects.values()))


def test_a_key_is_bound_otherwise_from_its_next_call_on(db: None) -> None:
    key = a_key(Role.GATEWAY)
    change = ChangeScope(name=key.name, scope=("refund",), seen=None, reason="it needs no more")
    assert isinstance(keys.change_scope(change, ADMIN), ChangedKey)
    caller = authenticate(f"Bearer {key.key}")
    assert isinstance(caller, Caller)
    assert caller.tools == frozenset({"refund"})
    event = AuditEvent.objects.get(verb="change_key")
    assert (event.before, event.after, event.reason) == ({"tools": None}, {"tools": ["refund"]}, "it needs no more")
    assert isinstance(keys.change_scope(change, ADMIN), ChangedKey)
    assert AuditEvent.objects.filter(verb="change_key").count() == 1


def test_who_saw_something_else_changes_nothing(db: None) -> None:
    key = a_key(Role.GATEWAY, tools=("mail",))
    change = ChangeScope(name=key.name, scope=("refund",), seen=None)
    assert refused(keys.change_scope(change, ADMIN)).code is Code.CHANGED
    line = read_key(key.name)
    assert line is not None
    assert line.tools == ("mail",)


@pytest.mark.parametrize(
    ("role", "bound", "scope", "code"),
    [
        (Role.PLANNER, {}, None, Code.INVALID_VALUE),
        (Role.PLANNER, {}, "two words", Code.INVALID_IDENTIFIER),
        (Role.GATEWAY, {}, ("re fund",), Code.INVALID_IDENTIFIER),
        (Role.AUDITOR, {}, ("x",), Code.INVALID_VALUE),
        (Role.PATH, {"path": "replica"}, "production", Code.INVALID_VALUE),
    ],
)
def test_a_binding_that_does_not_fit_is_refused(
    db: None, role: Role, bound: dict[str, object], scope: keys.Scope, code: Code
) -> None:
    key = a_key(role, **bound)
    seen = keys.scope_of(Credential.objects.get(name=key.name))
    assert refused(keys.change_scope(ChangeScope(name=key.name, scope=scope, seen=seen), ADMIN)).code is code


def test_an_end_is_set_and_never_put_off(db: None) -> None:
    key = a_key()
    assert isinstance(keys.end(EndKey(name=key.name, in_s=3600), ADMIN), ChangedKey)
    assert "never put off" in refused(keys.end(EndKey(name=key.name, in_s=7200), ADMIN)).detail
    assert isinstance(keys.end(EndKey(name=key.name, in_s=60), ADMIN), ChangedKey)
    assert AuditEvent.objects.filter(verb="end_key", subject=key.name).count() == 2
    assert opens(key.key)
    shift(key.name, timedelta(seconds=61))
    assert not opens(key.key)


@pytest.mark.parametrize("how", ["revoked", "ended"])
def test_nothing_is_done_with_a_key_that_is_over(db: None, how: str) -> None:
    key = a_key(expires_in_s=60)
    if how == "revoked":
        keys.revoke(key.name, ADMIN)
    else:
        shift(key.name, timedelta(seconds=61))
    assert not opens(key.key)
    for act in (
        keys.rotate(RotateKey(name=key.name, overlap_s=60), ADMIN),
        keys.end(EndKey(name=key.name, in_s=60), ADMIN),
        keys.change_scope(ChangeScope(name=key.name, scope="other", seen=key.name), ADMIN),
    ):
        assert refused(act).code is Code.CHANGED
    assert Credential.objects.filter(name__startswith=key.name).count() == 1


def test_people_make_keys_of_their_own_groups_for_twelve_hours_at_most(db: None) -> None:
    lena = a_person(Group.ONCALL)
    made = keys.issue_personal(Role.ONCALL, 3600, lena)
    assert isinstance(made, IssuedKey)
    caller = authenticate(f"Bearer {made.key}")
    assert isinstance(caller, Caller)
    assert (caller.role, caller.person, caller.person_id) == (Role.ONCALL, lena.person, lena.person_id)
    assert refused(keys.issue_personal(Role.REVIEWER, 3600, lena)).code is Code.FORBIDDEN_ROLE
    assert refused(keys.issue_personal(Role.PLANNER, 3600, lena)).code is Code.FORBIDDEN_ROLE
    for life in (0, 12 * 3600 + 1):
        assert refused(keys.issue_personal(Role.ONCALL, life, lena)).code is Code.INVALID_VALUE
    event = AuditEvent.objects.get(verb="issue_key", subject=made.name)
    assert (event.actor, event.role) == (lena.person, "person")


def test_a_rotated_personal_key_does_not_live_longer(db: None) -> None:
    lena = a_person(Group.ONCALL)
    made = keys.issue_personal(Role.ONCALL, 3600, lena)
    assert isinstance(made, IssuedKey)
    new = rotated(made.name, 60, lena)
    assert new.expires_at == made.expires_at


def test_a_person_acts_on_their_own_keys_alone(db: None) -> None:
    lena, omar = a_person(Group.ONCALL), a_person(Group.ONCALL, Group.REVIEWER)
    made = keys.issue_personal(Role.ONCALL, 3600, lena)
    machine = a_key()
    assert isinstance(made, IssuedKey)
    for name in (made.name, machine.name):
        assert refused(keys.revoke(name, omar)).code is Code.NOT_FOUND
        assert refused(keys.end(EndKey(name=name, in_s=60), omar)).code is Code.NOT_FOUND
        assert refused(keys.rotate(RotateKey(name=name, overlap_s=0), omar)).code is Code.NOT_FOUND
    assert not isinstance(keys.revoke(made.name, lena), Refusal)
    assert not opens(made.key)
    assert opens(machine.key)


def test_keys_end_with_the_group_that_they_stand_for(db: None) -> None:
    lena = a_person(Group.ONCALL, Group.REVIEWER)
    made = [keys.issue_personal(role, 3600, lena) for role in (Role.ONCALL, Role.REVIEWER)]
    change = ChangeGroups(
        name=str(lena.person),
        groups=frozenset({Group.REVIEWER}),
        seen=frozenset({Group.ONCALL, Group.REVIEWER}),
    )
    people.change_groups(change, ADMIN)
    assert [opens(each.key) for each in made if isinstance(each, IssuedKey)] == [False, True]


def test_the_database_lets_no_personal_key_live_longer_and_no_secret_change(db: None) -> None:
    with pytest.raises(IntegrityError, match="credential_person_life"), transaction.atomic():
        make_credential(role="oncall", expires_at=read_clock() + timedelta(hours=13))
    with pytest.raises(IntegrityError, match="credential_person_life"), transaction.atomic():
        make_credential(role="reviewer", expires_at=None)
    row = make_credential()
    with pytest.raises(IntegrityError, match="fixed"), transaction.atomic():
        Credential.objects.filter(pk=row.pk).update(key_hash=b"x" * 32)


def test_the_role_of_the_web_processes_may_not_touch_a_secret(connect_as: object) -> None:
    app = connect_as("fence_app")  # type: ignore[operator]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute("UPDATE fencing_credential SET key_hash = '\\x00'")


def test_keys_are_listed_by_what_they_are_and_told_with_what_was_done(db: None) -> None:
    stem = fresh("listed")
    for number, role in enumerate((Role.PLANNER, Role.GATE, Role.PLANNER)):
        issue(IssueKey(role=role, name=f"{stem}-{number}"), ADMIN)
    keys.revoke(f"{stem}-2", ADMIN, "not needed")
    rotated(f"{stem}-0", 0)

    def found(**filters: str) -> set[str]:
        listed = list_keys({"name": stem, **filters}, Page())
        assert not isinstance(listed, Refusal)
        return {line.name.removeprefix(stem) for line in listed[0]}

    assert found() == {"-0", "-0@2", "-1", "-2"}
    assert found(state="live") == {"-0@2", "-1"}
    assert found(state="revoked") == {"-2"}
    assert found(state="ended") == {"-0"}
    assert found(role="gate") == {"-1"}
    assert [event.verb for event in read_key_events(f"{stem}-2")] == ["revoke_key", "issue_key"]
    assert read_key_events(f"{stem}-2")[0].reason == "not needed"
    line = read_key(f"{stem}-0")
    assert line is not None
    assert (line.rotated_to, line.state) == (f"{stem}-0@2", "ended")
