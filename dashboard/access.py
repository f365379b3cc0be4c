"""Who may see the pages, and as whom a person acts: groups are Django's, authority is the engine's.

What an act asks for is decided by its service. Here stands only what is true of every page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from dashboard.confirming import confirmed_recently, is_confirmed
from fencing.api.access import address_of
from fencing.environment import Mode
from fencing.protocol.callers import Caller, Role
from fencing.protocol.groups import ACTING, GROUP_OF_ROLE, Group

__all__ = [
    "ANYBODY",
    "ANY_GROUP",
    "SIGNED_IN",
    "Group",
    "caller_of",
    "check_may_open",
    "confirmed_recently",
    "groups_of",
    "is_confirmed",
    "open_to",
    "reader_of",
    "why_not",
]


class Who(StrEnum):
    """Whom a view is open to, where that is not a group."""

    ANYBODY = "anybody"
    SIGNED_IN = "signed in"
    ANY_GROUP = "any group"


ANYBODY: Final = Who.ANYBODY
SIGNED_IN: Final = Who.SIGNED_IN
ANY_GROUP: Final = Who.ANY_GROUP

# What a person acts through, where others act through a key.
BROWSER: Final = "browser"
SECOND_FACTOR: Final = "_fence_second_factor"
_IN_NO_GROUP: Final = "You are signed in, but in none of the groups that may see these pages. Ask an administrator."
_NO_SECOND_FACTOR: Final = (
    "In production this takes a second factor, and you signed in without one. Set one up under You, or sign in with it."
)

Opening = Group | Who
View = Callable[..., HttpResponseBase]
Person = User | AbstractBaseUser | AnonymousUser


def groups_of(person: Person) -> frozenset[Group]:
    """Give the groups of a person; a superuser is in all of them. Asked once for each request."""
    if not isinstance(person, User) or not person.is_active:
        return frozenset()
    if person.is_superuser:
        return frozenset(Group)
    known: frozenset[Group] | None = getattr(person, "_fence_groups", None)
    if known is None:
        names = set(person.groups.values_list("name", flat=True))
        known = frozenset(group for group in Group if group in names)
        person._fence_groups = known  # type: ignore[attr-defined]  # noqa: SLF001 - lives as long as the request's user
    return known


def open_to(*who: Opening) -> Callable[[View], View]:
    """Declare who may open a view: `open_to(Group.ONCALL)`, `open_to(ANY_GROUP)`. Outermost; the middleware asks.

    Every view declares it: the access test, made from the list of addresses, fails for one that does not.
    """

    def declare(view: View) -> View:
        view.opens_to = frozenset(who)  # type: ignore[attr-defined]
        if ANYBODY in who:
            view.login_required = False  # type: ignore[attr-defined]  # Django's own mark
        return view

    return declare


def openings_of(view: Callable[..., Any]) -> frozenset[Opening] | None:
    """Give what a view declared; None where it declared nothing."""
    known: frozenset[Opening] | None = getattr(view, "opens_to", None)
    return known


def check_may_open(person: Person, openings: frozenset[Opening]) -> None:
    """Raise with the reason where a signed-in person may not open a view.

    Raises:
        PermissionDenied: the view is for a group, and the person is not in it.
    """
    groups = groups_of(person)
    if openings & {ANYBODY, SIGNED_IN}:
        return
    if not groups:
        raise PermissionDenied(_IN_NO_GROUP)
    wanted = openings - {ANY_GROUP}
    if ANY_GROUP not in openings and not groups & wanted:
        raise PermissionDenied(_not_in(wanted))


def note_second_factor(person: Person, *, is_shown: bool) -> None:
    """Note on the person of a request whether its session showed a second factor."""
    setattr(person, SECOND_FACTOR, is_shown)


def why_not(person: Person, role: Role) -> str:
    """Say why a person cannot act in a role; empty where they can. The page shows it beside the disabled button."""
    group = GROUP_OF_ROLE[role]
    if group not in groups_of(person):
        return _not_in({group})
    needs_second = settings.FENCE_MODE is Mode.PRODUCTION and group in ACTING
    return _NO_SECOND_FACTOR if needs_second and not getattr(person, SECOND_FACTOR, False) else ""


def _not_in(groups: Iterable[Opening]) -> str:
    named = " or ".join(group for group in Group if group in set(groups))
    return f"This is for the group {named}; you are not in it."


def caller_of(request: HttpRequest, role: Role) -> Caller:
    """Make the caller that services take: the signed-in person, acting in one role.

    Raises:
        PermissionDenied: the person is not in the group of that role.
    """
    reason = why_not(request.user, role)
    if reason:
        raise PermissionDenied(reason)
    return _caller(request, role)


def reader_of(request: HttpRequest) -> Caller:
    """Make the caller that queries take: the signed-in person as one who may read everything that pages show.

    Raises:
        PermissionDenied: the person is in no group.
    """
    check_may_open(request.user, frozenset({ANY_GROUP}))
    return _caller(request, Role.AUDITOR)


def themself(request: HttpRequest, person: User | None = None) -> Caller:
    """Make the caller of what people do to their own account; `person` where the request does not know them yet."""
    return _caller(request, Role.PERSON, person)


def stranger(request: HttpRequest) -> Caller:
    """Make the caller of what happens at the door before anybody is known."""
    request_id = getattr(request, "request_id", "")
    return Caller(credential_id=None, name="door", role=Role.SYSTEM, address=address_of(request), request_id=request_id)


def _caller(request: HttpRequest, role: Role, person: User | None = None) -> Caller:
    who = person or request.user
    name = who.get_username()
    return Caller(
        credential_id=None,
        name=BROWSER,
        role=role,
        person_id=who.pk,
        person=name,
        address=address_of(request),
        request_id=getattr(request, "request_id", ""),
    )
