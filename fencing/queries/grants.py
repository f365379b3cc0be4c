"""Grants, as the API and the pages show them: one, a page of them, those that wait for somebody, and what is owed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet

from fencing.models import Grant
from fencing.models.bodies import grant_as_pure, grant_bodies
from fencing.models.facts import read_clock
from fencing.protocol import grants
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import Object
from fencing.queries.pages import Filters, Page, keep

COLUMNS = {
    "run": "run__name",
    "step": "step_name",
    "epoch": "epoch",
    "tool": "tool",
    "path": "path",
    "issuer": "issuer__username",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """The review that a grant owes (G6): by when, or None where it owes none; and who gave it, with which words."""

    due_at: datetime | None
    reviewed_at: datetime | None
    reviewer: str | None
    reason: str
    is_overdue: bool

    @property
    def is_owed(self) -> bool:
        """Whether another person still has to look at it."""
        return self.due_at is not None and self.reviewed_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantLine:
    """A grant as a page shows it: the API's object, the facts that `explain` reads, and what it owes."""

    body: Object
    facts: grants.Grant
    issuer_id: int
    issued_at: datetime
    live_at: datetime | None
    review: Debt


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Some grants at a moment of the database's clock, and how many there are of the kind."""

    now: datetime
    count: int
    lines: tuple[GrantLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Debts:
    """Reviews that are owed, the soonest due first, and how many of them are overdue."""

    now: datetime
    count: int
    overdue: int
    lines: tuple[GrantLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A person who gets no further grant until others reviewed these."""

    person: str
    person_id: int
    grants: tuple[str, ...]
    since: datetime


def list_grants(filters: Filters, page: Page, caller: Caller) -> tuple[list[Object], str | None] | Refusal:
    """One page of grants, newest first; `state` as it is by the database's clock now."""
    found = _page(filters, page, _seen_by(caller))
    if isinstance(found, Refusal):
        return found
    rows, following, now = found
    return grant_bodies(rows, now), following


def list_grant_lines(filters: Filters, page: Page) -> tuple[list[GrantLine], str | None] | Refusal:
    """One page of grants for a page, newest first. Beside the API's filters there is `issuer`, a user's name."""
    found = _page(filters, page, _rows())
    if isinstance(found, Refusal):
        return found
    rows, following, now = found
    return list(lines_of(rows, now)), following


def get_grant(name: str, caller: Caller) -> Result:
    """One grant, as the API gives it."""
    grant = _seen_by(caller).filter(name=name).first()
    if grant is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no grant {name}.")
    return Answer(status=OK, body=grant_bodies([grant], read_clock())[0])


def read_grant(name: str) -> GrantLine | None:
    """One grant; None where there is none."""
    row = _rows().filter(name=name).first()
    return None if row is None else lines_of([row], read_clock())[0]


def live_grants(limit: int = 20) -> Shown:
    """The grants that let something through now, the soonest to end first."""
    return _shown("live", limit, order=("expires_at", "id"))


def pending_grants(limit: int = 20) -> Shown:
    """The grants that wait for a second person, the soonest to end first."""
    return _shown("pending", limit, order=("pending_until", "id"))


def debts(limit: int = 100) -> Debts:
    """The reviews that are owed (G6), the soonest due first."""
    now = read_clock()
    owed = _rows().filter(review_due_at__isnull=False, reviewed_at__isnull=True)
    rows = list(owed.order_by("review_due_at", "id")[:limit])
    overdue = owed.filter(review_due_at__lte=now).count()
    return Debts(now=now, count=owed.count(), overdue=overdue, lines=lines_of(rows, now))


def debts_of(person_id: int | None) -> tuple[str, ...]:
    """The grants of an issuer whose review is overdue; while there is one, they issue no further grant (G6)."""
    owed = _overdue(read_clock()).filter(issuer_id=person_id)
    return tuple(owed.order_by("review_due_at").values_list("name", flat=True))


def blocked_people() -> tuple[Blocked, ...]:
    """Everybody who gets no further grant now, and which reviews would change that."""
    found: dict[tuple[str, int], list[tuple[str, datetime]]] = defaultdict(list)
    for row in _overdue(read_clock()).select_related("issuer").order_by("review_due_at", "id"):
        assert row.review_due_at is not None  # noqa: S101 - what is overdue has a time
        found[row.issuer.get_username(), row.issuer_id].append((row.name, row.review_due_at))
    return tuple(
        Blocked(person=person, person_id=key, grants=tuple(name for name, _ in owed), since=owed[0][1])
        for (person, key), owed in found.items()
    )


def lines_of(rows: Sequence[Grant], now: datetime) -> tuple[GrantLine, ...]:
    """The lines of grants; their rows must carry run and issuer (`select_related`)."""
    return tuple(_line(row, body, now) for row, body in zip(rows, grant_bodies(rows, now), strict=True))


def in_state(state: str, now: datetime) -> Q:
    """The states of `protocol.grants.state_of`, as a condition on rows."""
    ended = Q(revoked_at__isnull=False) | Q(voided_at__isnull=False)
    used_up = Q(uses__gte=F("max_uses"))
    past = Q(expired_at__isnull=False) | Q(expires_at__lte=now) | Q(expires_at__isnull=True, pending_until__lte=now)
    # What is not known to be over has a moment at which the sweep looks: an index of hardly any rows.
    open_ = Q(due_at__isnull=False) & ~ended & ~used_up & ~past
    return {
        "revoked": Q(revoked_at__isnull=False),
        "void": Q(revoked_at__isnull=True, voided_at__isnull=False),
        "used_up": ~ended & used_up,
        "expired": ~ended & ~used_up & past,
        "live": open_ & Q(expires_at__isnull=False),
        "pending": open_ & Q(expires_at__isnull=True),
    }.get(state, Q(pk__in=[]))


def _rows() -> QuerySet[Grant]:
    return Grant.objects.select_related("run", "issuer")


def _seen_by(caller: Caller) -> QuerySet[Grant]:
    return _rows().filter(run__owner_group=caller.group) if caller.role is Role.PLANNER else _rows()


def _overdue(now: datetime) -> QuerySet[Grant]:
    return Grant.objects.filter(reviewed_at__isnull=True, review_due_at__lte=now)


def _page(filters: Filters, page: Page, rows: QuerySet[Grant]) -> tuple[list[Grant], str | None, datetime] | Refusal:
    if (refusal := page.fits(at="issued_at")) is not None:
        return refusal
    now = read_clock()
    rows = rows.filter(**keep(filters, COLUMNS))
    if "state" in filters:
        rows = rows.filter(in_state(str(filters["state"]), now))
    found, following = page.of(rows, at="issued_at")
    return found, following, now


def _shown(state: str, limit: int, *, order: tuple[str, ...]) -> Shown:
    now = read_clock()
    rows = _rows().filter(in_state(state, now))
    found = list(rows.order_by(*order)[: limit + 1])
    count = len(found) if len(found) <= limit else rows.count()
    return Shown(now=now, count=count, lines=lines_of(found[:limit], now))


def _line(row: Grant, body: Object, now: datetime) -> GrantLine:
    facts = grant_as_pure(row, approvals=len(body["approvals"]))
    given = body["review"]
    debt = Debt(
        due_at=row.review_due_at,
        reviewed_at=row.reviewed_at,
        reviewer=None if given is None else given["by"],
        reason="" if given is None else given["reason"],
        is_overdue=grants.is_review_overdue(facts, now),
    )
    return GrantLine(
        body=body,
        facts=facts,
        issuer_id=row.issuer_id,
        issued_at=row.issued_at,
        live_at=row.live_at,
        review=debt,
    )
