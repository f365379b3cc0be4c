"""Guesses at passwords and codes: counted exactly, refused after a few, and never a way to lock everybody out unsaid.

One count for each of three: a name from one place, a name from anywhere, a place whatever the name. Password, second
factor, recovery code and confirmation count together, so that no form is the weak one. A passkey cannot be guessed, and
opens the door also while a name is locked: whoever guesses at somebody's password does not shut them out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.db import OperationalError, connection, transaction
from django.db.models import F, Max, QuerySet, Sum
from django.db.models.functions import Now
from django.http import HttpRequest

from dashboard.access import stranger
from dashboard.confirming import database_now
from fencing.api.access import address_of
from fencing.protocol.usernames import plain
from fencing.services.people import note_lock

T = TypeVar("T")

NAME_LENGTH: Final = 255
# One place of IPv6 is what one household or host is given, not one of its 2**64 addresses.
IPV6_PLACE: Final = 64
LONGEST_WAIT_MS: Final = 3000


class Kind(StrEnum):
    """What is locked: a name from one place, a name from everywhere, a place for every name."""

    NAME_HERE = "name here"
    NAME = "name"
    PLACE = "place"
    BUSY = "busy"


# A person mistypes; nobody mistypes fifty times; a place where a hundred guesses came from is no person.
LIMITS: Final = {Kind.NAME_HERE: 5, Kind.NAME: 50, Kind.PLACE: 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock that holds: of what, and until when by the database's clock."""

    kind: Kind
    until: datetime
    place: str


class LockedOut(Exception):
    """Guessing is refused for a while."""

    def __init__(self, lock: Lock) -> None:
        super().__init__(f"locked until {lock.until.isoformat()}")
        self.lock = lock


def place_of(request: HttpRequest) -> str | None:
    """Give the place that a request comes from: its address, or the network of an IPv6 address."""
    address = address_of(request)
    if not address:
        return None
    known = ipaddress.ip_address(address)
    if isinstance(known, ipaddress.IPv4Address):
        return address
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network(f"{address}/{IPV6_PLACE}", strict=False).network_address)


def name_of(request: HttpRequest, credentials: Mapping[str, Any] | None) -> str:
    """Give the name that is counted: as the door reads it, whether such a person exists or not."""
    del request
    typed = (credentials or {}).get("username") or ""
    return plain(str(typed)).replace("\0", "")[:NAME_LENGTH]


def lock_on(request: HttpRequest, name: str) -> Lock | None:
    """Tell whether guesses at a name from this place are refused now, and until when."""
    AxesProxyHandler.update_request(request)
    counted = {kind: _count(rows) for kind, rows in _rows(request, name).items()}
    held = [(kind, last) for kind, (failures, last) in counted.items() if last and failures >= LIMITS[kind]]
    if not held:
        return None
    kind, last = max(held, key=lambda each: each[1])
    return Lock(kind=kind, until=last + _cool_off(), place=address_of(request))


def guess(
    request: HttpRequest, name: str, check: Callable[[], T | None], *, is_counted_there: bool = False
) -> T | None:
    """Let one guess at a secret of a name be checked; a wrong one (None) is counted, here unless `check` does it.

    One at a time for each name: guesses that come at once do not all pass before the first is counted.

    Raises:
        LockedOut: there were too many, or too many at once; nothing was checked.
    """
    name = plain(name)
    try:
        with one_at_a_time(name):
            lock = lock_on(request, name)
            found = check() if lock is None else None
            if lock is None and found is None:
                _note_failure(request, name, is_counted=is_counted_there)
    except LockNotTaken:
        lock, found = Lock(kind=Kind.BUSY, until=database_now(), place=address_of(request)), None
    if lock is not None:
        raise LockedOut(lock)
    return found


def forget(request: HttpRequest, name: str) -> None:
    """Forget the wrong guesses at a name from this place: the person has shown who they are.

    Those from elsewhere stay: who guesses there gains nothing by it.
    """
    AccessAttempt.objects.filter(username=plain(name), ip_address=place_of(request)).delete()


def unlock(name: str) -> int:
    """Forget the guesses at a name, everywhere; give from how many places there were any."""
    return int(AccessAttempt.objects.filter(username=plain(name)).delete()[0])


class LockNotTaken(Exception):
    """Too many guesses at one name wait at once."""


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Hold the right to guess at a name, for one transaction.

    Raises:
        LockNotTaken: somebody else holds it for longer than one waits.
    """
    with transaction.atomic():
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {LONGEST_WAIT_MS}")
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"fence guess {name}"])
                cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
        except OperationalError as error:
            raise LockNotTaken from error
        yield


def _note_failure(request: HttpRequest, name: str, *, is_counted: bool) -> None:
    if not is_counted:
        user_login_failed.send(sender=__name__, credentials={"username": name}, request=request)
    lock = lock_on(request, name)
    if lock is not None:
        note_lock(stranger(request), name, kind=lock.kind, until=lock.until)


class Guesses(AxesDatabaseHandler):  # type: ignore[misc]  # ships no types
    """Counts for django-axes: one row a name and place, without what was posted, by the database's clock."""

    def is_locked(self, request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> bool:
        """Tell whether the door is shut for these credentials."""
        return lock_on(request, name_of(request, credentials)) is not None

    def get_failures(self, request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> int:
        """Give the failures of a name from this place."""
        return _count(_rows(request, name_of(request, credentials))[Kind.NAME_HERE])[0]

    def user_login_failed(
        self, sender: object, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: object
    ) -> None:
        """Count a failure; one that came while locked is not counted, or guessing would never end the lock."""
        del sender
        if request is None or getattr(request, "axes_locked_out", False):
            return
        self.clean_expired_user_attempts(request, credentials)
        where = {"username": name_of(request, credentials), "ip_address": place_of(request)}
        with transaction.atomic():
            # A lock on the row alone would let two first failures make two rows where there is no address.
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"fence guesses {where}"])
            known = AccessAttempt.objects.filter(**where, user_agent="")
            if not known.update(failures_since_start=F("failures_since_start") + 1, attempt_time=Now()):
                row = AccessAttempt.objects.create(**where, user_agent="", failures_since_start=1)
                AccessAttempt.objects.filter(pk=row.pk).update(attempt_time=Now())

    def reset_user_attempts(self, request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> int:
        """Forget what a sign-in makes good: the wrong guesses at this name from this place."""
        name = name_of(request, credentials)
        return int(AccessAttempt.objects.filter(username=name, ip_address=place_of(request)).delete()[0])


def _rows(request: HttpRequest, name: str) -> dict[Kind, QuerySet[AccessAttempt]]:
    recent = AccessAttempt.objects.filter(attempt_time__gt=database_now() - _cool_off())
    place = place_of(request)
    return {
        Kind.NAME_HERE: recent.filter(username=name, ip_address=place),
        Kind.NAME: recent.filter(username=name),
        Kind.PLACE: recent.filter(ip_address=place),
    }


def _count(rows: QuerySet[AccessAttempt]) -> tuple[int, datetime | None]:
    told = rows.aggregate(failures=Sum("failures_since_start"), last=Max("attempt_time"))
    return told["failures"] or 0, told["last"]


def _cool_off() -> timedelta:
    length: timedelta = settings.AXES_COOLOFF_TIME
    return length
