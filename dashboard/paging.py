"""Which part of a list an address asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest

from fencing.protocol.errors import Refusal
from fencing.queries.pages import Cursor, Page

T = TypeVar("T")
Part = tuple[list[T], str | None]


def read_page(request: HttpRequest, read: Callable[[Page], Part[T] | Refusal], limit: int) -> Part[T]:
    """Read the part of a list that the address names; with a cursor that no list gave, the newest part.

    Raises:
        ValueError: the list refuses even its first page, which is a fault of the view.
    """
    text = request.GET.get("cursor", "")
    cursor = Cursor.decode(text) if text else None
    found = read(Page(limit=limit, cursor=None if isinstance(cursor, Refusal) else cursor))
    if isinstance(found, Refusal):
        found = read(Page(limit=limit))
    if isinstance(found, Refusal):
        raise ValueError(found.detail)  # noqa: TRY004 - the types are right, the view is not
    return found
