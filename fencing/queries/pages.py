"""Keyset pages: newest first, stable while rows arrive, as cheap at the end as at the start (H6)."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from django.db.models import Model, Q, QuerySet

from fencing.protocol.errors import Code, Refusal

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
MAX_CURSOR: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

M = TypeVar("M", bound=Model)
Filters = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last row of a page: its moment (None where rows are ordered by number alone) and its id."""

    at: datetime | None
    id: uuid.UUID | int

    def encode(self) -> str:
        """Write it so that it can stand in an address."""
        moment = "" if self.at is None else str((self.at - _EPOCH) // _MICROSECOND)
        last = self.id.hex if isinstance(self.id, uuid.UUID) else f"n{self.id}"
        return base64.urlsafe_b64encode(f"{moment}.{last}".encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor | Refusal:
        """Read a cursor that `encode` wrote; anything else is `invalid_value`."""
        try:
            if len(text) > MAX_CURSOR or not text.isascii():
                raise ValueError  # noqa: TRY301 - one way out for every kind of nonsense
            padded = text + "=" * (-len(text) % 4)
            moment, _, last = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").partition(".")
            at = _EPOCH + int(moment) * _MICROSECOND if moment else None
            return cls(at=at, id=_number(last[1:]) if last.startswith("n") else uuid.UUID(last))
        except (ValueError, OverflowError, binascii.Error):
            detail = "The cursor is none that this list gave: take `next` of the page before, as it stands."
            return Refusal(code=Code.INVALID_VALUE, detail=detail, extras={"parameter": "cursor"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted."""

    limit: int = DEFAULT_LIMIT
    cursor: Cursor | None = None

    def of(self, rows: QuerySet[M], *, at: str | None = "opened_at") -> tuple[list[M], str | None]:
        """Read the page of a queryset that is ordered by `at` and id, newest first, and the cursor of the next one.

        `at` is None for tables whose ids alone tell the order.
        """
        order = ["-pk"] if at is None else [f"-{at}", "-pk"]
        found = list(rows.filter(self._after(at)).order_by(*order)[: self.limit + 1])
        return self.cut(found, at=at)

    def cut(self, found: Sequence[M], *, at: str | None) -> tuple[list[M], str | None]:
        """Split what was read, one row more than the page holds, into the page and the cursor of the next one."""
        kept = list(found[: self.limit])
        if len(found) <= self.limit:
            return kept, None
        last = kept[-1]
        return kept, Cursor(at=None if at is None else getattr(last, at), id=last.pk).encode()

    def fits(self, *, at: str | None, number: bool = False) -> Refusal | None:
        """Refuse a cursor of another list, whose ids are of another kind."""
        if self.cursor is None:
            return None
        is_ours = (self.cursor.at is None) is (at is None) and isinstance(self.cursor.id, int) is number
        return (
            None
            if is_ours
            else Refusal(
                code=Code.INVALID_VALUE, detail="The cursor belongs to another list.", extras={"parameter": "cursor"}
            )
        )

    def _after(self, at: str | None) -> Q:
        if self.cursor is None:
            return Q()
        if at is None:
            return Q(pk__lt=self.cursor.id)
        # `at <= x` is what the index can seek to; the rest only drops the rows of that very moment.
        earlier = Q(**{f"{at}__lt": self.cursor.at}) | Q(pk__lt=self.cursor.id)
        return Q(**{f"{at}__lte": self.cursor.at}) & earlier


ALL_AT_ONCE: Final = Page(limit=MAX_LIMIT)
"""As much of a list of work as one answer may hold."""


def _number(digits: str) -> int:
    value = int(digits)
    if not 0 <= value < 2**63:
        raise ValueError
    return value


def keep(filters: Filters, columns: Mapping[str, str]) -> dict[str, Any]:
    """Translate the filters that were given into lookups; `columns` maps each member to its own."""
    return {columns[name]: value for name, value in filters.items() if name in columns}
