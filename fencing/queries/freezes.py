"""Freezes, as the API and the pages show them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q, QuerySet

from fencing.models import Freeze as FreezeRow
from fencing.models.bodies import freeze_body
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.freezes import scope_in_words
from fencing.protocol.objects import Object
from fencing.queries.pages import Filters, Page, keep

COLUMNS: Final = {"run": "run__name", "tool": "tool"}
STATES: Final = {"standing": Q(lifted_at__isnull=True), "lifted": Q(lifted_at__isnull=False)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A freeze as a page shows it. Lines of `stopped` and `already_out` are `{run, step, epoch, intent}`.

    Those of undoings have a `compensation` as well, and no step. `more` counts the lines that are not listed, by the
    list's name.
    """

    id: str
    tool: str | None
    run: str | None
    by: str
    by_id: int
    reason: str
    at: datetime
    stopped: tuple[Object, ...]
    already_out: tuple[Object, ...]
    more: dict[str, int]
    voided: tuple[str, ...]
    lifted_at: datetime | None
    lifted_by: str | None
    lift_reason: str

    @property
    def scope(self) -> str:
        """Say what is frozen."""
        return scope_in_words(self.tool, self.run)


def live_freezes(limit: int = 20) -> tuple[Freeze, ...]:
    """The freezes that stand, the newest first: one query over an index of hardly any rows."""
    return tuple(_line(row) for row in _rows().filter(STATES["standing"]).order_by("-set_at", "-id")[:limit])


def read_freeze(freeze_id: str) -> Freeze | None:
    """One freeze; None where there is none."""
    row = _row(freeze_id)
    return None if row is None else _line(row)


def list_freezes(filters: Filters, page: Page) -> tuple[list[Object], str | None] | Refusal:
    """One page of freezes, newest first; `state` is `standing` or `lifted`."""
    found = _page(filters, page)
    return found if isinstance(found, Refusal) else ([freeze_body(row) for row in found[0]], found[1])


def list_freeze_lines(filters: Filters, page: Page) -> tuple[list[Freeze], str | None] | Refusal:
    """One page of freezes for a page, newest first."""
    found = _page(filters, page)
    return found if isinstance(found, Refusal) else ([_line(row) for row in found[0]], found[1])


def get_freeze(freeze_id: str) -> Result:
    """One freeze, as the API gives it."""
    row = _row(freeze_id)
    if row is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no freeze {freeze_id}.")
    return Answer(status=OK, body=freeze_body(row))


def _page(filters: Filters, page: Page) -> tuple[list[FreezeRow], str | None] | Refusal:
    if (refusal := page.fits(at="set_at")) is not None:
        return refusal
    rows = _rows().filter(STATES.get(str(filters.get("state")), Q()), **keep(filters, COLUMNS))
    return page.of(rows, at="set_at")


def _rows() -> QuerySet[FreezeRow]:
    return FreezeRow.objects.select_related("run", "set_by", "lifted_by")


def _row(freeze_id: str) -> FreezeRow | None:
    try:
        return _rows().filter(pk=uuid.UUID(freeze_id)).first()
    except ValueError:
        return None


def _line(row: FreezeRow) -> Freeze:
    body: dict[str, Any] = freeze_body(row)
    return Freeze(
        id=str(row.id),
        tool=row.tool,
        run=body["scope"]["run"],
        by=body["by"],
        by_id=row.set_by_id,
        reason=row.reason,
        at=row.set_at,
        stopped=tuple(body["stopped"]),
        already_out=tuple(body["already_out"]),
        more=body["more"],
        voided=tuple(body["voided"]),
        lifted_at=row.lifted_at,
        lifted_by=body["lifted"]["by"] if body["lifted"] else None,
        lift_reason=row.lift_reason or "",
    )
