"""Exports: a whole list as one long answer, a batch of rows at a time in memory (S3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from django.db import close_old_connections, connection
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Router

from fencing.api.access import admit
from fencing.api.calls import Export
from fencing.api.document import tell_export
from fencing.api.endpoints import register
from fencing.api.problems import problem
from fencing.protocol.errors import Refusal
from fencing.protocol.exports import csv_text, ndjson_line
from fencing.queries.pages import Filters
from fencing.queries.side_log import export_rows, row_body

TYPES: Final = {"csv": "text/csv; charset=utf-8; header=present", "ndjson": "application/x-ndjson"}
SIDE_LOG_COLUMNS: Final = (
    "id", "at", "kind", "reason", "counted_as", "run", "step", "epoch", "path", "attempt", "seq", "lane", "tool",
    "resources", "by", "person", "digest", "detail", "body_sha256", "body_length", "acknowledged_by",
    "acknowledged_at", "acknowledged_reason",
)  # fmt: skip

Row = dict[str, Any]


def stream(name: str, form: str, columns: tuple[str, ...], batches: Iterable[list[Row]]) -> StreamingHttpResponse:
    """Answer with a file: `form` is "csv" or "ndjson". In CSV what lies in an object has a column of its own."""
    lines = _csv(columns, batches) if form == "csv" else _ndjson(batches)
    response = StreamingHttpResponse(lines, content_type=TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def side_log_file(filters: Filters, form: str, now: datetime) -> StreamingHttpResponse:
    """Answer with the rows of the side log that fit, as they were when the export began."""
    batches = ([row_body(row) for row in rows] for rows in export_rows(filters))
    return stream(f"side-log-{now:%Y%m%dT%H%M%SZ}", form, SIDE_LOG_COLUMNS, batches)


def export(router: Router, path: str, call: Export[Any]) -> None:
    """Register a GET whose answer is a file."""

    def view(request: HttpRequest, **names: str) -> HttpResponseBase:
        caller = admit(request, call.roles, names)
        if isinstance(caller, Refusal):
            return problem(caller)
        asked = call.form.read(request.GET.dict())
        return problem(asked) if isinstance(asked, Refusal) else call.answer(asked)

    register(router, "GET", path, view, call, call.answer, tell_export(call.form, TYPES))


def _csv(columns: tuple[str, ...], batches: Iterable[list[Row]]) -> Iterator[str]:
    yield csv_text([columns])
    for rows in _read(batches):
        yield csv_text([flat.get(column) for column in columns] for flat in map(_flat, rows))


def _ndjson(batches: Iterable[list[Row]]) -> Iterator[str]:
    for rows in _read(batches):
        yield "".join(map(ndjson_line, rows))


def _read(batches: Iterable[list[Row]]) -> Iterator[list[Row]]:
    """Read in the thread that sends, and leave it no connection (a test's own stays)."""
    try:
        yield from batches
    finally:
        if not connection.in_atomic_block:
            close_old_connections()


def _flat(row: Row) -> Row:
    """Give a row with what lies in an object beside it, each under a name of both."""
    flat = dict(row)
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}_{key}": each for key, each in value.items()}
    return flat
