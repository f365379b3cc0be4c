"""People: making them, their groups, ending and restoring them, and getting back in. Each act is audited (U1).

What a person does with their own password and second factor happens at the door (`dashboard.door`) and is noted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.db import connection, transaction
from django.db.models import Q

from fencing.models import Credential
from fencing.models.fields import ClockTimestamp
from fencing.protocol import usernames
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.groups import GROUP_OF_ROLE, Group
from fencing.protocol.objects import rfc3339
from fencing.services.writes import Writes

KIND: Final = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePerson:
    """What an administrator asks for."""

    name: str
    groups: frozenset[Group]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroups:
    """The groups that somebody shall be in, having seen those that they are in."""

    name: str
    groups: frozenset[Group]
    seen: frozenset[Group]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an act on a person did. `token` opens the page where they set their password, once, for a day."""

    name: str
    token: str = ""
    sessions: int = 0
    keys: tuple[str, ...] = ()


def make_person(request: MakePerson, caller: Caller) -> Done | Refusal:
    """Make a person without a password; the token lets them set one. Names are plain, and none looks like another."""
    with _alone():
        others = User.objects.values_list("username", flat=True)
        unfit = usernames.why_unfit(request.name, others)
        if unfit:
            return Refusal(code=Code.INVALID_VALUE, detail=unfit, pointer="/name")
        person = User(username=request.name)
        person.set_unusable_password()
        person.save()
        person.groups.set(_rows(request.groups))
        _note(caller, "make_person", person, after={"groups": _told(request.groups)}, reason=request.reason)
        return Done(name=person.username, token=default_token_generator.make_token(person))


def change_groups(request: ChangeGroups, caller: Caller) -> Done | Refusal:
    """Put a person into exactly these groups. Keys that stood for a group that they leave end at once."""

    def act(person: User) -> Done | Refusal:
        now = groups_in(person)
        if now == request.groups:
            return Done(name=person.username)
        if now != request.seen:
            return Refusal(code=Code.CHANGED, detail=f"The groups of {person.username} changed since you looked.")
        refusal = _if_last(person, stays=Group.ADMINISTRATOR in request.groups)
        if refusal is not None:
            return refusal
        person.is_superuser = False
        person.save(update_fields=["is_superuser"])
        person.groups.set(_rows(request.groups))
        ended = _end_keys(person, caller, kept=request.groups)
        told = {"before": {"groups": _told(now)}, "after": {"groups": _told(request.groups)}}
        _note(caller, "change_groups", person, reason=request.reason, **told)
        return Done(name=person.username, keys=ended)

    return _on(request.name, act)


def deactivate(name: str, reason: str, caller: Caller) -> Done | Refusal:
    """Shut a person out: their sessions and personal keys end. What they did stays under their name."""

    def act(person: User) -> Done | Refusal:
        if not person.is_active:
            return Done(name=person.username)
        refusal = _if_last(person, stays=False)
        if refusal is not None:
            return refusal
        person.is_active = False
        person.save(update_fields=["is_active"])
        done = _end_all(person, caller)
        _note(caller, "deactivate_person", person, after=_ended(done), reason=reason)
        return done

    return _on(name, act)


def activate(name: str, reason: str, caller: Caller) -> Done | Refusal:
    """Let a person in again, with the groups and second factor that they had, and none of their old sessions."""

    def act(person: User) -> Done | Refusal:
        if not person.is_active:
            person.is_active = True
            person.save(update_fields=["is_active"])
            _end_all(person, caller)
            _note(caller, "activate_person", person, reason=reason)
        return Done(name=person.username)

    return _on(name, act)


def reset_password(name: str, reason: str, caller: Caller) -> Done | Refusal:
    """Take a person's password away and give a token to set another. Sessions, personal keys and old tokens end."""

    def act(person: User) -> Done | Refusal:
        if not person.is_active:
            return Refusal(code=Code.INVALID_VALUE, detail=f"{name} is deactivated: activate them first.")
        person.set_unusable_password()
        person.save(update_fields=["password"])
        done = _end_all(person, caller)
        _note(caller, "reset_password", person, after=_ended(done), reason=reason)
        token = default_token_generator.make_token(person)
        return Done(name=person.username, token=token, sessions=done.sessions, keys=done.keys)

    return _on(name, act)


def reset_second_factor(name: str, reason: str, caller: Caller) -> Done | Refusal:
    """Remove every second factor of a person who lost theirs. Sessions and personal keys end; they set up a new one."""

    def act(person: User) -> Done | Refusal:
        factors = Authenticator.objects.filter(user_id=person.pk)
        before = sorted(factors.values_list("type", flat=True))
        factors.delete()
        done = _end_all(person, caller)
        told = {"before": {"second_factors": before}, "after": _ended(done)}
        _note(caller, "reset_second_factor", person, reason=reason, **told)
        return done

    return _on(name, act)


def end_sessions(name: str, reason: str, caller: Caller, *, but: str = "") -> Done | Refusal:
    """Sign a person out everywhere, but for the session with the key `but`."""

    def act(person: User) -> Done | Refusal:
        ended = _end_sessions(person, but=but)
        if ended:
            _note(caller, "end_sessions", person, after={"sessions": ended}, reason=reason)
        return Done(name=person.username, sessions=ended)

    return _on(name, act)


def unlock(name: str, reason: str, caller: Caller) -> Done | Refusal:
    """Forget the wrong guesses at a person's secrets: the lock on their name opens."""

    def act(person: User) -> Done | Refusal:
        if AccessAttempt.objects.filter(username=person.username).delete()[0]:
            _note(caller, "unlock_person", person, reason=reason)
        return Done(name=person.username)

    return _on(name, act)


def link_account(name: str, provider: str, uid: str, caller: Caller) -> Done | Refusal:
    """Let an account at the OpenID provider open the door for a person; one person an account, one account a person."""

    def act(person: User) -> Done | Refusal:
        known = SocialAccount.objects.filter(Q(uid=uid) | Q(user_id=person.pk), provider=provider).first()
        if known is not None:
            who = "this person has an account there" if known.user_id == person.pk else "it belongs to somebody else"
            return Refusal(code=Code.INVALID_VALUE, detail=f"The account cannot be linked: {who} already.")
        SocialAccount.objects.create(user=person, provider=provider, uid=uid, extra_data={})
        _note(caller, "link_account", person, after={"provider": provider, "account": uid})
        return Done(name=person.username)

    return _on(name, act)


def unlink_account(name: str, reason: str, caller: Caller) -> Done | Refusal:
    """Let no account at the OpenID provider open the door for a person any more."""

    def act(person: User) -> Done | Refusal:
        accounts = list(SocialAccount.objects.filter(user_id=person.pk).values_list("provider", "uid"))
        SocialAccount.objects.filter(user_id=person.pk).delete()
        for provider, uid in accounts:
            _note(caller, "unlink_account", person, before={"provider": provider, "account": uid}, reason=reason)
        return Done(name=person.username)

    return _on(name, act)


def note(verb: str, name: str, caller: Caller, *, before: object = None, after: object = None) -> None:
    """Audit what a person did to their own account, in the caller's transaction."""
    writes = Writes(caller)
    writes.audit(verb, KIND, name, before=before, after=after)
    writes.send()


def note_lock(caller: Caller, name: str, *, kind: str, until: datetime) -> None:
    """Audit that the door was shut for a name after too many wrong guesses."""
    with transaction.atomic():
        note("lock_door", name or "nobody", caller, after={"of": kind, "until": rfc3339(until)})


def groups_in(person: User) -> frozenset[Group]:
    """Give the groups of a person as the tables have them; a superuser is in all."""
    if person.is_superuser:
        return frozenset(Group)
    names = set(person.groups.values_list("name", flat=True))
    return frozenset(group for group in Group if group in names)


def administrators() -> int:
    """Count the people who can administer now."""
    may = Q(is_superuser=True) | Q(groups__name=Group.ADMINISTRATOR)
    return User.objects.filter(may, is_active=True).distinct().count()


class _alone(transaction.Atomic):  # noqa: N801 - read as a word: `with _alone():`
    """A transaction that no other act on people runs beside: two administrators could each remove the other."""

    def __init__(self) -> None:
        super().__init__(using=None, savepoint=True, durable=False)

    def __enter__(self) -> None:
        super().__enter__()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('fence people'))")


def _on(name: str, act: Callable[[User], Done | Refusal]) -> Done | Refusal:
    with _alone():
        person = User.objects.select_for_update().filter(username=name).first()
        if person is None:
            return Refusal(code=Code.NOT_FOUND, detail=f"There is no person named {name}.")
        return act(person)


def _if_last(person: User, *, stays: bool) -> Refusal | None:
    is_administrator = person.is_active and Group.ADMINISTRATOR in groups_in(person)
    if stays or not is_administrator or administrators() > 1:
        return None
    detail = f"{person.username} is the last administrator: make somebody else one first."
    return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/groups")


def _end_all(person: User, caller: Caller) -> Done:
    keys = _end_keys(person, caller, kept=frozenset())
    return Done(name=person.username, sessions=_end_sessions(person), keys=keys)


def _end_sessions(person: User, *, but: str = "") -> int:
    known = list(UserSession.objects.filter(user_id=person.pk).exclude(session_key=but))
    for each in known:
        each.end()
    return len(known)


def _end_keys(person: User, caller: Caller, *, kept: frozenset[Group]) -> tuple[str, ...]:
    stays = [role.value for role in (Role.ONCALL, Role.REVIEWER) if GROUP_OF_ROLE[role] in kept]
    live = Credential.objects.select_for_update().filter(person_id=person.pk, revoked_at=None).exclude(role__in=stays)
    ended = tuple(live.values_list("name", flat=True))
    live.update(revoked_at=ClockTimestamp())
    writes = Writes(caller)
    for name in ended:
        writes.audit("revoke_key", "key", name, before={"person": person.username})
    writes.send()
    return ended


def _ended(done: Done) -> dict[str, object]:
    return {"sessions": done.sessions, "keys": list(done.keys)}


def _rows(groups: Iterable[Group]) -> list[GroupRow]:
    return [GroupRow.objects.get_or_create(name=group.value)[0] for group in sorted(groups)]


def _told(groups: Iterable[Group]) -> list[str]:
    return [group.value for group in Group if group in set(groups)]


def _note(
    caller: Caller, verb: str, person: User, *, before: object = None, after: object = None, reason: str = ""
) -> None:
    writes = Writes(caller)
    writes.audit(verb, KIND, person.username, before=before, after=after, reason=reason)
    writes.send()
