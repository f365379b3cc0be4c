"""Readings of tools' ledgers, for pages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from django.db import connection

from fencing.models import Ledger
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Page


def list_ledgers(page: Page) -> tuple[list[Ledger], str | None] | Refusal:
    """One page of readings, newest first."""
    if (refusal := page.fits(at="asked_at")) is not None:
        return refusal
    return page.of(Ledger.objects.select_related("person"), at="asked_at")


# By running counts, by incidents and by undoings: never by the rows of ledgers, of which there may be millions.
_COUNTED: Final = """
SELECT name, count FROM fence_counts(NULL) WHERE name LIKE 'effect:%' OR name LIKE 'intent:succeeded:%'
"""
_MISSING: Final = """
SELECT i.tool, count(*) FROM fencing_incident n JOIN fencing_intent i ON i.id = n.intent_id
WHERE n.kind = 'missing' GROUP BY 1
"""
_UNDONE: Final = """
SELECT tool, count(*) FILTER (WHERE state = 'done'), count(*) FROM fencing_compensation
WHERE state <> 'withdrawn' GROUP BY 1
"""


@dataclass(slots=True, kw_only=True)
class Totals:
    """What became of the effects of one tool, by the fence's records and by the tool's own ledger (I3, L8).

    `wanted` effects succeeded; `missing` are those of them that a complete ledger lacks. `rows` are all that ledgers
    ever showed: `happened` as committed, `doubled`, `extra` (landed escapes), and undoings of another tool's effects.
    Of `owed` undoings of its own effects, `undone` are done.
    """

    tool: str
    wanted: int = 0
    rows: int = 0
    happened: int = 0
    missing: int = 0
    doubled: int = 0
    extra: int = 0
    undone: int = 0
    owed: int = 0

    @property
    def wrong(self) -> int:
        """How much of it should not be as it is."""
        return self.missing + self.doubled + self.extra


_FIELDS: Final = {"intent": "happened", "doubled": "doubled", "escape": "extra"}


def totals() -> list[Totals]:
    """The totals of every tool of which anything is known: those with something wrong first, then by name."""
    found: defaultdict[str, Totals] = defaultdict(lambda: Totals(tool=""))
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED)
        for name, count in cursor.fetchall():
            kind, word, tool = name.split(":", 2)
            of = found[tool]
            if kind == "intent":
                of.wanted += count
                continue
            of.rows += count
            if word in _FIELDS:
                setattr(of, _FIELDS[word], getattr(of, _FIELDS[word]) + count)
        cursor.execute(_MISSING)
        for tool, count in cursor.fetchall():
            found[tool].missing = count
        cursor.execute(_UNDONE)
        for tool, undone, owed in cursor.fetchall():
            found[tool].undone, found[tool].owed = undone, owed
    for tool, of in found.items():
        of.tool = tool
    told = [of for of in found.values() if of.wanted or of.rows or of.owed or of.missing]
    return sorted(told, key=lambda of: (of.wrong == 0, of.tool))
