"""Lanes and attempts for people: the gate and why, what was rejected, handed out again and spent, cell by cell."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db import connection

from fencing.models import (
    Attempt,
    AttemptEpoch,
    Fragment,
    GateReading,
    Grade,
    GradeFinding,
    Lane,
    LaneEvent,
    LaneThresholds,
    Permit,
    SideLogRow,
    Spend,
)
from fencing.models.facts import read_clock
from fencing.models.grade_facts import LaneFacts, read_lanes
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Page

MOST_EVENTS: Final = 30
MOST_EPOCHS: Final = 20
COLUMNS: Final = 40
MOST_DOTS: Final = 400
MOST_LOGGED: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What model calls used: `kind` is live, wasted or zombie. `unpriced` calls had a model without a price."""

    kind: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: Decimal | None
    currency: str | None
    unpriced: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLine:
    """A lane with what its gate says now. `again` counts leases that were given for a fragment that had one before."""

    lane: Lane
    facts: LaneFacts
    again: int
    zombie: tuple[Money, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePage:
    """Everything about one lane; `versions` are those of its thresholds, the one that counts first."""

    now: datetime
    line: LaneLine
    versions: tuple[LaneThresholds, ...]
    spend: tuple[Money, ...]
    events: tuple[LaneEvent, ...]
    readings: tuple[GateReading, ...]
    findings: tuple[GradeFinding, ...]
    side_log: tuple[SideLogRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLine:
    """An attempt in the list of its lane."""

    attempt: Attempt
    received: int
    grade: Grade | None


@dataclass(slots=True, kw_only=True)
class Cell:
    """One epoch and seq: what was accepted there, how often it was handed out, and what else was sent for it."""

    epoch: int
    seq: int
    fragment: uuid.UUID | None = None
    score: float | None = None
    leases: int = 0
    is_out: bool = False
    conflicts: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPage:
    """Everything about one attempt; `cells` are those of the columns from `first` on."""

    now: datetime
    attempt: Attempt
    grade: Grade | None
    findings: tuple[GradeFinding, ...]
    epochs: tuple[AttemptEpoch, ...]
    missing: tuple[int, ...]
    dropped: int
    first: int
    cells: dict[tuple[int, int], Cell]
    dots: tuple[tuple[datetime, int, int], ...]
    spend: tuple[Money, ...]
    side_log: tuple[SideLogRow, ...]
    regrades: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentPage:
    """One place of an attempt: its fragment, the permits and spend for it, and what was refused of it."""

    now: datetime
    attempt: Attempt
    epoch: int
    seq: int
    fragment: Fragment | None
    permits: tuple[tuple[Permit, Spend | None], ...]
    side_log: tuple[SideLogRow, ...]


def list_lane_lines(page: Page) -> tuple[list[LaneLine], str | None] | Refusal:
    """One page of lanes, newest first, each with its gate; as many statements for one as for all."""
    if (refusal := page.fits(at="made_at")) is not None:
        return refusal
    found, following = page.of(Lane.objects.select_related("owner"), at="made_at")
    return _lines(found), following


def read_lane_page(name: str) -> LanePage | None:
    """Everything about one lane; None where there is none."""
    lane = Lane.objects.select_related("owner").filter(name=name).first()
    if lane is None:
        return None
    (line,) = _lines([lane])
    log = SideLogRow.objects.select_related("by", "person").filter(lane=name).order_by("-recorded_at", "-id")
    versions = lane.versions.select_related("person", "by").filter(version__lte=lane.thresholds_version)
    return LanePage(
        now=read_clock(),
        line=line,
        versions=tuple(versions.order_by("-version")[:MOST_EVENTS]),
        spend=_money("attempt.lane_id = ANY (%s)", [[lane.id]], by_epoch=False),
        events=tuple(lane.events.select_related("person").order_by("-number")[:MOST_EVENTS]),
        readings=tuple(lane.readings.select_related("by").order_by("-read_at", "-id")[:MOST_EVENTS]),
        findings=tuple(lane.findings.select_related("attempt").order_by("-found_at")[:MOST_EVENTS]),
        side_log=tuple(log[:MOST_LOGGED]),
    )


def read_lane_line(name: str) -> LaneLine | None:
    """A lane with what its gate says now; None where there is none."""
    return next(iter(_lines(list(Lane.objects.select_related("owner").filter(name=name)))), None)


def list_attempt_lines(lane: uuid.UUID, page: Page) -> tuple[list[AttemptLine], str | None] | Refusal:
    """One page of a lane's attempts, newest first."""
    if (refusal := page.fits(at="made_at")) is not None:
        return refusal
    found, following = page.of(Attempt.objects.filter(lane_id=lane), at="made_at")
    ids = [row.id for row in found]
    grades = {row.attempt_id: row for row in Grade.objects.filter(attempt__in=ids).defer("fragments")}
    counts = dict(_rows(_RECEIVED, [ids]))
    lines = [AttemptLine(attempt=row, received=counts.get(row.id, 0), grade=grades.get(row.id)) for row in found]
    return lines, following


def read_attempt_page(name: str, first: int) -> AttemptPage | None:
    """Everything about one attempt, with the cells of `COLUMNS` seqs from `first` on; None where there is none."""
    attempt = Attempt.objects.select_related("lane", "regrade_of", "by").filter(name=name).first()
    if attempt is None:
        return None
    first = max(0, min(first, (attempt.expected - 1) // COLUMNS * COLUMNS))
    epochs = tuple(attempt.epochs.select_related("by").order_by("-number")[:MOST_EPOCHS])
    log = SideLogRow.objects.select_related("by", "person").filter(attempt=name).order_by("-recorded_at", "-id")
    now = read_clock()
    return AttemptPage(
        now=now,
        attempt=attempt,
        grade=Grade.objects.filter(attempt=attempt).defer("fragments").first(),
        findings=tuple(attempt.findings.order_by("found_at")),
        epochs=epochs,
        missing=tuple(seq for (seq,) in _rows(_MISSING, [attempt.expected, attempt.id, attempt.epoch])),
        dropped=sum(dropped for (dropped,) in attempt.epochs.values_list("dropped")),
        first=first,
        cells=_cells(attempt, [each.number for each in epochs], first, now),
        dots=tuple(
            attempt.fragments.order_by("-received_at", "-id").values_list("received_at", "epoch", "seq")[:MOST_DOTS]
        ),
        spend=_money("attempt.id = ANY (%s)", [[attempt.id]], by_epoch=True),
        side_log=tuple(log[:MOST_LOGGED]),
        regrades=tuple(attempt.regrades.order_by("made_at").values_list("name", flat=True)[:MOST_EVENTS]),
    )


def read_fragment_page(name: str, epoch: int, seq: int) -> FragmentPage | None:
    """What there is at one place of an attempt; None for an attempt or a place that never was."""
    attempt = Attempt.objects.select_related("lane").filter(name=name).first()
    if attempt is None or not 0 <= seq < attempt.expected or not 1 <= epoch <= attempt.epoch:
        return None
    place = {"attempt": attempt, "epoch": epoch, "seq": seq}
    log = SideLogRow.objects.select_related("by", "person").filter(attempt=name, epoch=epoch, seq=seq)
    permits = list(Permit.objects.select_related("by").filter(**place).order_by("issued_at")[:MOST_EVENTS])
    spends = {row.permit_id: row for row in Spend.objects.filter(permit__in=permits)}
    return FragmentPage(
        now=read_clock(),
        attempt=attempt,
        epoch=epoch,
        seq=seq,
        fragment=Fragment.objects.select_related("by").filter(**place).first(),
        permits=tuple((each, spends.get(each.id)) for each in permits),
        side_log=tuple(log.order_by("-recorded_at", "-id")[:MOST_LOGGED]),
    )


_RECEIVED: Final = """
SELECT a.id, (SELECT count(*) FROM fencing_fragment AS f WHERE f.attempt_id = a.id AND f.epoch = a.epoch)
FROM fencing_attempt AS a WHERE a.id = ANY (%s)
"""
_MISSING: Final = """
SELECT seq FROM generate_series(0, %s - 1) AS seq WHERE NOT EXISTS (
  SELECT FROM fencing_fragment WHERE attempt_id = %s AND epoch = %s AND seq = seq.seq) ORDER BY seq
"""
_AGAIN: Final = """
SELECT a.lane_id, sum(given.times - 1)::bigint FROM fencing_attempt AS a CROSS JOIN LATERAL (
  SELECT count(*) AS times FROM fencing_fragmentlease AS l WHERE l.attempt_id = a.id GROUP BY l.epoch, l.seq
) AS given WHERE a.lane_id = ANY (%s) GROUP BY 1
"""
_LEASES: Final = """
SELECT epoch, seq, count(*), max(lease_until) > %s FROM fencing_fragmentlease
WHERE attempt_id = %s AND epoch = ANY (%s) AND seq >= %s AND seq < %s GROUP BY 1, 2
"""
_REFUSED: Final = """
SELECT epoch, seq, count(*) FILTER (WHERE reason = 'conflicting_duplicate'),
  count(*) FILTER (WHERE reason = 'stale_epoch')
FROM fencing_sidelogrow WHERE attempt = %s AND kind = 'fragment' AND epoch = ANY (%s) AND seq >= %s AND seq < %s
GROUP BY 1, 2
"""
_MONEY: Final = """
SELECT {epoch}, attempt.lane_id, told.kind, spend.currency, count(*), sum(spend.tokens_in)::bigint,
  sum(spend.tokens_out)::bigint, sum(spend.cost), count(*) FILTER (WHERE spend.cost IS NULL)
FROM fencing_spend AS spend JOIN fencing_attempt AS attempt ON attempt.id = spend.attempt_id
CROSS JOIN LATERAL (SELECT CASE WHEN spend.is_zombie THEN 'zombie' WHEN EXISTS (
    SELECT FROM fencing_fragment AS f WHERE f.attempt_id = spend.attempt_id AND f.epoch = spend.epoch
      AND f.seq = spend.seq AND (f.permit_id IS NULL OR f.permit_id = spend.permit_id)) THEN 'live'
    ELSE 'wasted' END AS kind) AS told
WHERE {where} GROUP BY 1, 2, 3, 4 ORDER BY 1 DESC NULLS LAST, 3, 4
"""


def _lines(lanes: list[Lane]) -> list[LaneLine]:
    ids = [lane.id for lane in lanes]
    facts = read_lanes([lane.name for lane in lanes])
    again = dict(_rows(_AGAIN, [ids]))
    zombies: dict[Any, list[Money]] = {}
    for lane_id, money in _spent("attempt.lane_id = ANY (%s) AND spend.is_zombie", [ids], by_epoch=False):
        zombies.setdefault(lane_id, []).append(money)
    return [
        LaneLine(
            lane=lane,
            facts=facts[lane.name],
            again=again.get(lane.id, 0),
            zombie=tuple(zombies.get(lane.id, ())),
        )
        for lane in lanes
    ]


def _cells(attempt: Attempt, epochs: list[int], first: int, now: datetime) -> dict[tuple[int, int], Cell]:
    last = min(first + COLUMNS, attempt.expected)
    cells = {(epoch, seq): Cell(epoch=epoch, seq=seq) for epoch in epochs for seq in range(first, last)}
    rows = attempt.fragments.filter(epoch__in=epochs, seq__gte=first, seq__lt=last)
    for fragment, epoch, seq, score in rows.values_list("id", "epoch", "seq", "score"):
        cells[epoch, seq].fragment, cells[epoch, seq].score = fragment, score
    for epoch, seq, times, is_out in _rows(_LEASES, [now, attempt.id, epochs, first, last]):
        cells[epoch, seq].leases, cells[epoch, seq].is_out = times, is_out
    for epoch, seq, conflicts, stale in _rows(_REFUSED, [attempt.name, epochs, first, last]):
        cells[epoch, seq].conflicts, cells[epoch, seq].stale = conflicts, stale
    return cells


def _money(where: str, values: list[Any], *, by_epoch: bool) -> tuple[Money, ...]:
    return tuple(money for _, money in _spent(where, values, by_epoch=by_epoch))


def _spent(where: str, values: list[Any], *, by_epoch: bool) -> list[tuple[Any, Money]]:
    statement = _MONEY.format(where=where, epoch="spend.epoch" if by_epoch else "NULL::bigint")
    return [
        (
            lane_id,
            Money(
                epoch=epoch,
                kind=kind,
                currency=currency,
                calls=calls,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                cost=cost,
                unpriced=unpriced,
            ),
        )
        for epoch, lane_id, kind, currency, calls, tokens_in, tokens_out, cost, unpriced in _rows(statement, values)
    ]


def _rows(statement: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
