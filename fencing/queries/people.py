"""People, as their pages show them: groups, whether they can sign in, and how. Never a secret."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from fencing.models import AuditEvent, Credential
from fencing.models.facts import read_clock
from fencing.protocol.groups import Group
from fencing.queries.keys import KeyEvent

RECOVERY: Final = Authenticator.Type.RECOVERY_CODES


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonLine:
    """One person of the list."""

    name: str
    groups: tuple[Group, ...]
    is_active: bool
    has_password: bool
    has_account: bool
    second_factors: tuple[str, ...]
    last_login: datetime | None
    joined: datetime

    @property
    def state(self) -> str:
        """Tell as what they are shown: active, waiting (they cannot sign in yet), deactivated."""
        if not self.is_active:
            return "deactivated"
        return "active" if self.has_password or self.has_account else "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPage:
    """One person with what an administrator needs to know of them."""

    line: PersonLine
    sessions: int
    keys: tuple[str, ...]
    account: str
    wrong_guesses: int


def list_people() -> list[PersonLine]:
    """Everybody, who is active first, then by name. There are as many as an operator made by hand."""
    return _lines(User.objects.order_by("-is_active", "username"))


def read_person(name: str) -> PersonPage | None:
    """One person; None where there is none of that name."""
    person = User.objects.filter(username=name).first()
    if person is None:
        return None
    now = read_clock()
    live = Credential.objects.filter(person_id=person.pk, revoked_at=None, expires_at__gt=now)
    length: timedelta = settings.AXES_COOLOFF_TIME
    guesses = AccessAttempt.objects.filter(username=name, attempt_time__gt=now - length)
    account = SocialAccount.objects.filter(user_id=person.pk).values_list("uid", flat=True).first()
    return PersonPage(
        line=_lines(User.objects.filter(pk=person.pk))[0],
        sessions=UserSession.objects.filter(user_id=person.pk).count(),
        keys=tuple(live.order_by("created_at").values_list("name", flat=True)),
        account=account or "",
        wrong_guesses=sum(guesses.values_list("failures_since_start", flat=True)),
    )


def read_person_events(name: str) -> list[KeyEvent]:
    """What happened to a person's account, newest first."""
    rows = AuditEvent.objects.filter(kind="person", subject=name).order_by("-id")[:100]
    return [
        KeyEvent(at=row.at, actor=row.actor, verb=row.verb, before=row.before, after=row.after, reason=row.reason)
        for row in rows
    ]


def _lines(people: QuerySet[User]) -> list[PersonLine]:
    found = list(people.prefetch_related("groups"))
    ids = [person.pk for person in found]
    factors: dict[Any, list[str]] = {}
    for owner, kind in Authenticator.objects.filter(user_id__in=ids).values_list("user_id", "type"):
        if kind != RECOVERY:
            factors.setdefault(owner, []).append(kind)
    linked = set(SocialAccount.objects.filter(user_id__in=ids).values_list("user_id", flat=True))
    return [_line(person, factors.get(person.pk, []), is_linked=person.pk in linked) for person in found]


def _line(person: User, factors: list[str], *, is_linked: bool) -> PersonLine:
    names = {group.name for group in person.groups.all()}
    return PersonLine(
        name=person.get_username(),
        groups=tuple(group for group in Group if person.is_superuser or group in names),
        is_active=person.is_active,
        has_password=person.has_usable_password(),
        has_account=is_linked,
        second_factors=tuple(sorted(factors)),
        last_login=person.last_login,
        joined=person.date_joined,
    )
