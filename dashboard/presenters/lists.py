"""Lists that page by keyset: what stands above and below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """Where a list goes on. There is no number of pages: that would count all of history."""

    shown: int
    what: str
    first_url: str
    next_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value that a filter can have."""

    value: str
    label: str
    is_chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One filter of a bar: a choice where there are `choices`, else a text that is typed."""

    name: str
    label: str
    value: str = ""
    choices: tuple[Choice, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterBar:
    """The filters of a list; `clear_url` shows all again."""

    filters: tuple[Filter, ...]
    clear_url: str

    @property
    def is_active(self) -> bool:
        """Tell whether anything is filtered."""
        return any(one.value for one in self.filters)


def pager(*, shown: int, what: str, path: str, query: Mapping[str, str], next_cursor: str | None) -> Pager:
    """Prepare the foot of a list. `query` holds the filters; the cursor is added and taken out here."""
    kept = {name: value for name, value in query.items() if name not in ("cursor", "part") and value}
    is_first = not query.get("cursor")
    return Pager(
        shown=shown,
        what=what,
        first_url="" if is_first else _url(path, kept),
        next_url=_url(path, {**kept, "cursor": next_cursor}) if next_cursor else "",
    )


def choices(values: Sequence[tuple[str, str]], chosen: str, everything: str = "all") -> tuple[Choice, ...]:
    """Prepare the values of a filter, with one that filters nothing first."""
    return tuple(
        Choice(value=value, label=label, is_chosen=value == chosen) for value, label in [("", everything), *values]
    )


def _url(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
