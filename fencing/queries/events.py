"""The feed that planners follow: decisions in the order of their commits, each with the whole step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson
from django.db import connection

from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.queries.straight import body_of_view

ROWS: Final = "SELECT transaction, number, at::text, what, run, step::text FROM fence_feed(%s, %s, %s, %s)"
CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def list_events(after: str | None, caller: Caller, *, limit: int = 500, wait: bool = False) -> Result:
    """The events after a cursor, oldest first; `next` is the cursor to go on from, the given one where nothing came.

    Numbers are handed out before commit, so a row with a smaller one may appear later. Rows are therefore read in the
    order of (transaction, number), and only those whose transaction is older than any that is still open: no later row
    can come to stand before them (design 10).
    """
    start = _read_cursor(after)
    if isinstance(start, Refusal):
        return start
    transaction, number = start
    items = []
    for row in _rows(caller.group, transaction, number, limit):
        its_transaction, its_number, at, what, run, step = row
        items.append(
            {
                "cursor": f"{its_transaction}-{its_number}",
                "at": rfc3339(at),
                "what": what,
                "step": body_of_view(run, orjson.loads(step)),
            }
        )
    pending = (f"events:{caller.group}",) if wait and not items else ()
    body = {"items": items, "next": items[-1]["cursor"] if items else f"{transaction}-{number}"}
    return Answer(status=OK, body=body, pending=pending)


def _rows(group: str, transaction: int, number: int, limit: int) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(ROWS, [group, transaction, number, limit])
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read_cursor(text: str | None) -> tuple[int, int] | Refusal:
    if not text:
        return (0, 0)
    matched = CURSOR.fullmatch(text)
    if matched is not None:
        return (int(matched[1]), int(matched[2]))
    detail = "The cursor is none that this list gave: take `next` of the page before, as it stands."
    return Refusal(code=Code.INVALID_VALUE, detail=detail, extras={"parameter": "after"})
