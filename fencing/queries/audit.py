"""The audit, as the API and the pages show and search it (U1). Every read is bounded, and costs who writes nothing.

Runs and subjects have an index. Whoever looks for an actor, a verb or a time walks the seals, which tell what is in
them, and reads the rows of those that fit; rows without a seal are few. A part of the list is looked for in so many
rows at most: where that does not fill it, it ends early, says how far it looked, and its cursor goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q
from psycopg.types.range import TimestamptzRange

from fencing.models import AuditEvent, Seal
from fencing.protocol.errors import Refusal
from fencing.protocol.objects import rfc3339
from fencing.queries.pages import Cursor, Filters, Page
from fencing.queries.touching import runs_touching

Object = dict[str, Any]

LOOKED_AT: Final = 20_000
WINDOW: Final = 5_000
SEALS: Final = 16
ALL_SEALS: Final = 100
TOP: Final = 2**63 - 1
FACETS: Final = ("actor", "role", "verb", "kind")
SIFTS: Final[Mapping[str, str]] = {
    **{name: f"l.{name} = %s" for name in (*FACETS, "run", "subject")},
    "since": "l.at >= %s",
    "until": "l.at <= %s",
}
# One index entry after the other, newest first, of each value that leads.
LED: Final = """
SELECT l.* FROM unnest(%s::text[]) AS lead(value), LATERAL (
    SELECT * FROM fencing_auditevent a WHERE {lead} AND a.id < %s ORDER BY a.id DESC LIMIT %s) AS l
WHERE {sift} ORDER BY l.id DESC LIMIT %s
"""
REACHED: Final = """
SELECT max(reached.id) FROM unnest(%s::text[]) AS lead(value), LATERAL (
    SELECT a.id FROM fencing_auditevent a WHERE {lead} AND a.id < %s ORDER BY a.id DESC OFFSET %s LIMIT 1) AS reached
"""
KINDS: Final = """
WITH RECURSIVE found AS (
    (SELECT kind FROM fencing_auditevent ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT (SELECT a.kind FROM fencing_auditevent a WHERE a.kind > found.kind ORDER BY a.kind LIMIT 1)
    FROM found WHERE found.kind IS NOT NULL)
SELECT kind FROM found WHERE kind IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A part of the audit. `reached` is the number down to which it looked, where it ended before it was full."""

    rows: tuple[AuditEvent, ...]
    following: str | None
    reached: int | None = None


@dataclass(frozen=True, slots=True)
class _Windows:
    """Rows in bounded stretches of numbers, newest first: above `after`, up to `last`."""

    after: int
    last: int


def list_audit(filters: Filters, page: Page) -> tuple[list[Object], str | None] | Refusal:
    """One page of the audit, newest first, by sequence; shorter than asked where it looked at enough rows."""
    if (refusal := page.fits(at=None, number=True)) is not None:
        return refusal
    found = search_audit(filters, page)
    return [event_body(event) for event in found.rows], found.following


def search_audit(filters: Filters, page: Page) -> Found:
    """Find rows, newest first. `filters` are columns, `since` and `until`, and a `resource`."""
    below = int(page.cursor.id) if page.cursor is not None and isinstance(page.cursor.id, int) else TOP
    filters = {name: value for name, value in filters.items() if name in SIFTS or name == "resource"}
    if not filters:
        rows = list(AuditEvent.objects.filter(pk__lt=below).order_by("-pk")[: page.limit + 1])
        return _cut(rows, page.limit)
    if "resource" in filters:
        return _led("a.run = lead.value", runs_touching(str(filters["resource"])), filters, below, page.limit)
    if "run" in filters:
        return _led("a.run = lead.value", [str(filters["run"])], filters, below, page.limit)
    if "subject" in filters:
        kinds = [str(filters["kind"])] if "kind" in filters else _kinds()
        lead = "a.kind = lead.value AND a.subject = %s"
        return _led(lead, kinds, filters, below, page.limit, [filters["subject"]])
    return _walked(filters, below, page.limit)


def event_body(event: AuditEvent) -> Object:
    """One transition or act (U1)."""
    return {
        "sequence": event.pk,
        "at": rfc3339(event.at),
        "actor": event.actor,
        "role": event.role,
        "verb": event.verb,
        "kind": event.kind,
        "subject": event.subject,
        "run": event.run,
        "before": event.before,
        "after": event.after,
        "reason": event.reason,
        "source": event.source,
        "request": event.request,
    }


def _led(
    lead: str, values: Sequence[str], filters: Filters, below: int, limit: int, given: Sequence[Any] = ()
) -> Found:
    """Follow an index: of each value that leads the newest rows, sifted by the other filters."""
    sifts = [name for name in SIFTS if name in filters]
    sift = " AND ".join(SIFTS[name] for name in sifts) or "true"
    statement = LED.format(lead=lead, sift=sift)
    most = max(LOOKED_AT // max(len(values), 1), limit + 1)
    parameters: list[Any] = [list(values), *given, below, most, *(filters[name] for name in sifts), limit + 1]
    rows = list(AuditEvent.objects.raw(statement, parameters))
    if len(rows) > limit:
        return _cut(rows, limit)
    # Where one index has more than was looked at, it goes on below the highest place that was reached.
    with connection.cursor() as cursor:
        cursor.execute(REACHED.format(lead=lead), [list(values), *given, below, most - 1])
        ((reached,),) = cursor.fetchall()
    if reached is None:
        return Found(rows=tuple(rows), following=None)
    return _ended([row for row in rows if row.pk >= reached], reached)


def _walked(filters: Filters, below: int, limit: int) -> Found:
    """Walk down stretches of numbers that may hold what is wanted, until the part is full or enough was looked at."""
    sift = Q(**{name: filters[name] for name in FACETS if name in filters})
    if "since" in filters:
        sift &= Q(at__gte=filters["since"])
    if "until" in filters:
        sift &= Q(at__lte=filters["until"])
    rows: list[AuditEvent] = []
    looked, reached = 0, below
    for window in _windows(filters, below):
        if looked >= LOOKED_AT:
            return _ended(rows, reached)
        stretch = AuditEvent.objects.filter(sift, pk__gt=window.after, pk__lte=window.last, pk__lt=below)
        rows += stretch.order_by("-pk")[: limit + 1 - len(rows)]
        if len(rows) > limit:
            return _cut(rows, limit)
        looked, reached = looked + window.last - window.after, window.after + 1
    return Found(rows=tuple(rows), following=None)


def _windows(filters: Filters, below: int) -> Iterator[_Windows]:
    """Rows without a seal first, then the seals that tell of all that is wanted."""
    newest = Seal.objects.order_by("-number").values_list("last", flat=True).first() or 0
    top = min(below - 1, AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0)
    while top > newest:
        after = max(newest, top - WINDOW)
        yield _Windows(after, top)
        top = after
    wanted = [f"{name}:{filters[name]}" for name in FACETS if name in filters]
    seals = Seal.objects.filter(after__lt=below - 1)
    if wanted:
        seals = seals.filter(facets__contains=wanted)
    since, until = (at if isinstance(at := filters.get(bound), datetime) else None for bound in ("since", "until"))
    if since and until and since > until:
        return
    if since or until:
        seals = seals.filter(moments__overlap=TimestamptzRange(since, until, "[]"))
    number = TOP
    while batch := list(
        seals.filter(number__lt=number).order_by("-number").values_list("number", "after", "last")[:SEALS]
    ):
        for number, after, last in batch:  # noqa: B007 - the last one is where the next batch begins
            yield _Windows(after, min(last, below - 1))


def _cut(rows: Sequence[AuditEvent], limit: int) -> Found:
    kept = tuple(rows[:limit])
    following = Cursor(at=None, id=kept[-1].pk).encode() if len(rows) > limit else None
    return Found(rows=kept, following=following)


def _ended(rows: Sequence[AuditEvent], reached: int) -> Found:
    return Found(rows=tuple(rows), following=Cursor(at=None, id=reached).encode(), reached=reached)


def _kinds() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(KINDS)
        return [kind for (kind,) in cursor.fetchall()]
