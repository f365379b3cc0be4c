"""Notices, as the pages show them: those of a person, all of them, one with everybody who was told. Bounded reads."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time

from fencing.models import Notice, QuietHours, Sighting, Target, Telling
from fencing.protocol.errors import Refusal
from fencing.protocol.explain import Sentence
from fencing.protocol.notices import Kind, sentence_of
from fencing.queries.pages import Filters, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A notice in a list."""

    id: uuid.UUID
    kind: Kind
    sentence: Sentence
    page: str
    asked_by: str
    raised_at: datetime
    told_at: datetime | None
    seen_at: datetime | None
    over_at: datetime | None
    due_at: datetime | None
    told_level: int

    @property
    def state(self) -> str:
        """Where it is: over, seen by somebody who was asked, told, or about to be."""
        if self.over_at is not None:
            return "over"
        if self.seen_at is not None:
            return "seen"
        return "told" if self.told_level else "gathering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One person told of a notice at one place: how far that came."""

    person: str
    place: str
    service: str
    level: int
    state: str
    tries: int
    at: datetime
    sent_at: datetime | None
    due_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A notice with everybody who was told of it, who has seen it, and what it gathers."""

    line: Line
    told: tuple[Told, ...]
    seen: tuple[tuple[str, datetime], ...]
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A target of somebody, without its address."""

    id: uuid.UUID
    person: str
    name: str
    service: str
    is_reference: bool
    kinds: tuple[Kind, ...]
    failures: int
    paused_until: datetime | None
    sent_at: datetime | None
    failed_at: datetime | None
    error: str

    @property
    def state(self) -> str:
        """How it is: fine, failing, or never tried."""
        if self.failures:
            return "failing"
        return "works" if self.sent_at is not None else "untried"


MOST_TOLD = 500
MOST_ITEMS = 100


def list_mine(person_id: int, filters: Filters, page: Page) -> tuple[list[Line], str | None] | Refusal:
    """The notices that a person was told of, newest first."""
    if (refusal := page.fits(at=None)) is not None:
        return refusal
    rows = Telling.objects.filter(person_id=person_id, target__isnull=True).select_related("notice")
    if "kind" in filters:
        rows = rows.filter(notice__kind=filters["kind"])
    if filters.get("open"):
        rows = rows.filter(notice__over_at__isnull=True, notice__seen_at__isnull=True)
    found, following = page.of(rows, at=None)
    return [_line(row.notice) for row in found], following


def list_all(filters: Filters, page: Page) -> tuple[list[Line], str | None] | Refusal:
    """Every notice, newest first."""
    if (refusal := page.fits(at="raised_at")) is not None:
        return refusal
    rows = Notice.objects.all()
    if "kind" in filters:
        rows = rows.filter(kind=filters["kind"])
    if filters.get("open"):
        rows = rows.filter(over_at__isnull=True, seen_at__isnull=True)
    found, following = page.of(rows, at="raised_at")
    return [_line(row) for row in found], following


def read_notice(notice_id: uuid.UUID) -> Detail | None:
    """One notice; None where there is none."""
    row = Notice.objects.filter(pk=notice_id).first()
    if row is None:
        return None
    tellings = Telling.objects.filter(notice=row).select_related("person", "target").order_by("level", "id")
    sightings = Sighting.objects.filter(notice=row).select_related("person").order_by("seen_at")
    items = row.items.order_by("id").values_list("subject", "page")[:MOST_ITEMS]
    return Detail(
        line=_line(row),
        told=tuple(_told(each) for each in tellings[:MOST_TOLD]),
        seen=tuple((each.person.get_username(), each.seen_at) for each in sightings[:MOST_TOLD]),
        items=tuple(items),
    )


def unseen(person_id: int) -> tuple[int, datetime | None]:
    """How many open notices a person was told of that nobody has seen yet, and since when the oldest is."""
    rows = Telling.objects.filter(
        person_id=person_id, target__isnull=True, notice__over_at__isnull=True, notice__seen_at__isnull=True
    )
    moments = list(rows.order_by("made_at").values_list("made_at", flat=True)[:MOST_TOLD])
    return len(moments), moments[0] if moments else None


def places_of(person_id: int) -> list[Place]:
    """A person's targets."""
    rows = Target.objects.filter(person_id=person_id, ended_at__isnull=True)
    return _places(rows.select_related("person").order_by("name"))


def all_places() -> list[Place]:
    """Everybody's targets, those that fail first."""
    rows = Target.objects.filter(ended_at__isnull=True).select_related("person")
    return _places(rows.order_by("-failures", "person__username", "name")[:MOST_TOLD])


def quiet_hours(person_id: int) -> tuple[str, time | None, time | None]:
    """A person's zone, and when their quiet hours begin and end."""
    row = QuietHours.objects.filter(person_id=person_id).first()
    return ("UTC", None, None) if row is None else (row.zone, row.begin, row.end)


def waiting_tellings() -> tuple[int, int]:
    """How many messages wait to be sent, and how many of those have failed before."""
    rows = Telling.objects.filter(due_at__isnull=False)
    return rows.count(), rows.filter(tries__gt=0).count()


def _places(rows: Iterable[Target]) -> list[Place]:
    return [
        Place(
            id=row.pk,
            person=row.person.get_username(),
            name=row.name,
            service=row.service,
            is_reference=row.is_reference,
            kinds=tuple(Kind(kind) for kind in row.kinds),
            failures=row.failures,
            paused_until=row.paused_until,
            sent_at=row.sent_at,
            failed_at=row.failed_at,
            error=row.error,
        )
        for row in rows
    ]


def _line(row: Notice) -> Line:
    facts = {str(name): str(value) for name, value in row.facts.items()}
    return Line(
        id=row.pk,
        kind=Kind(row.kind),
        sentence=sentence_of(Kind(row.kind), facts, row.count),
        page=row.page,
        asked_by=row.asked_by,
        raised_at=row.raised_at,
        told_at=row.told_at,
        seen_at=row.seen_at,
        over_at=row.over_at,
        due_at=row.due_at,
        told_level=row.told_level,
    )


def _told(row: Telling) -> Told:
    return Told(
        person=row.person.get_username(),
        place="" if row.target is None else row.target.name,
        service="" if row.target is None else row.target.service,
        level=row.level,
        state=row.state,
        tries=row.tries,
        at=row.made_at,
        sent_at=row.sent_at,
        due_at=row.due_at,
        error=row.error,
    )
