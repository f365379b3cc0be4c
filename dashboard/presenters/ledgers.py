"""Readings of tools' ledgers in words and figures: how far one is, what it found, and what all of them come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dashboard.presenters.marks import Hue
from dashboard.presenters.numbers import Ratio, plural, ratio, seconds
from fencing.models import Ledger
from fencing.queries.ledgers import Totals

# From here on, what a reading took tells what the rest of it takes.
TELLING: Final = 0.01
TELLING_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of a reading over what it is a part of."""

    n: int | None
    of: int | None
    what: str
    alarm: str


def ledger_sentence(row: Ledger, now: datetime) -> tuple[str, str]:
    """Say how far the reading of a ledger is, and whether it found what should not be."""
    if row.state == "failed":
        return f"It could not be read to its end: {row.says}", "refused"
    if row.finished_at is None:
        return f"Being matched: {row.rows:,} rows so far{_how_far(row, now)}.", "waiting"
    wrong = row.escapes + row.doubled
    if wrong:
        return f"{wrong:,} of {row.rows:,} rows show effects that should not be there.", "danger"
    if row.missing:
        return f"{row.missing:,} effects that succeeded are not in it.", "waiting"
    return f"Everything fits: {row.rows:,} rows were matched.", "good"


def ledger_share(row: Ledger) -> float | None:
    """How much of an uploaded file was matched, from 0 to 1; None where nobody knows how much there is."""
    if row.source != Ledger.Source.UPLOAD or row.size == 0:
        return None
    return min(1.0, int(row.cursor or 0) / row.size)


def _how_far(row: Ledger, now: datetime) -> str:
    share, taken = ledger_share(row), (now - row.asked_at).total_seconds()
    if share is None:
        return ""
    told = f", {share:.0%} of the file".replace("%", " %")
    if share < TELLING or taken < TELLING_S:
        return told
    return f"{told}; about {seconds(max(1, round(taken / share - taken)))} to go"


def ledger_figures(row: Ledger) -> list[Figure]:
    """The numbers of a reading, each over what it is a part of; what was not asked is no data."""
    told = row.rows or None
    declared = row.wanted or None if row.complete_from is not None else None
    return [
        Figure(n=row.matched, of=told, what="happened as committed", alarm="neutral"),
        Figure(n=row.undone, of=told, what="undoings", alarm="neutral"),
        Figure(n=row.escapes, of=told, what="extra: landed escapes", alarm="danger"),
        Figure(n=row.doubled, of=told, what="doubled", alarm="danger"),
        Figure(n=row.known, of=told, what="known from before", alarm="neutral"),
        Figure(n=row.refused, of=told, what="rows that could not be read", alarm="refused"),
        Figure(n=row.missing, of=declared, what="missing, of those that were wanted then", alarm="waiting"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsLine:
    """One tool: how much was wanted of it, and what became of that, as n/N in the order of the table's columns.

    There are no `cells` where neither a ledger nor a person told anything.
    """

    tool: str
    wanted: int
    cells: tuple[Ratio, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsTold:
    """All tools, after one sentence."""

    told: str
    hue: str
    lines: tuple[TotalsLine, ...]


def totals_of(totals: Sequence[Totals]) -> TotalsTold:
    """Prepare what became of all tools' effects, as far as their own ledgers tell."""
    told, hue = _totals_sentence(totals)
    return TotalsTold(told=told, hue=hue, lines=tuple(map(_line, totals)))


def _line(of: Totals) -> TotalsLine:
    cells = (
        ratio(of.happened, of.rows, "happened, of its ledger's rows"),
        ratio(of.missing, of.wanted if of.rows or of.missing else None, "missing, of those wanted", alarm=Hue.WAITING),
        ratio(of.doubled, of.rows, "doubled, of its ledger's rows", alarm=Hue.DANGER),
        ratio(of.extra, of.rows, "extra, of its ledger's rows", alarm=Hue.DANGER),
        ratio(of.undone, of.owed, "undone, of what was to be"),
    )
    is_told = of.rows or of.missing or of.owed
    return TotalsLine(tool=of.tool, wanted=of.wanted, cells=cells if is_told else ())


def _totals_sentence(totals: Sequence[Totals]) -> tuple[str, str]:
    """Say whether tools did what was committed, and nothing else, as far as their ledgers tell."""
    rows = sum(of.rows for of in totals)
    if not rows and not any(of.missing for of in totals):
        return "What tools did by their own account is not known yet: no ledger was read.", "neutral"
    wrong = {
        "happened without authority": sum(of.extra for of in totals),
        "happened twice": sum(of.doubled for of in totals),
        "succeeded and cannot be found": sum(of.missing for of in totals),
    }
    told = [f"{many:,} {what}" for what, many in wrong.items() if many]
    if not told:
        return f"Everything fits: {plural(rows, 'row')} of tools' own ledgers, and all of it was committed.", "good"
    hue = "danger" if any(of.extra or of.doubled for of in totals) else "waiting"
    return f"Of what tools' own ledgers show, {' and '.join(told)}.", hue
