"""Rows as lines of a file: CSV that no spreadsheet runs, and NDJSON (S3)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from fencing.protocol.objects import rfc3339

# A cell that begins with one of these is run as a formula by one spreadsheet or another; the last four are the wide
# forms, which some take for the narrow ones.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def harmless(value: object) -> str:
    """Write a value as the text of a cell: a text that a spreadsheet would run is led by an apostrophe.

    Numbers and moments are ours, and stay as they are.
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime):
        return rfc3339(value) or ""
    return harmless(json.dumps(value, ensure_ascii=False))


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV (RFC 4180): cells that need it in quotes, each line ended by CR LF."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([harmless(value) for value in row] for row in rows)
    return text.getvalue()


def ndjson_line(row: dict[str, Any]) -> str:
    """Write a row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_written) + "\n"


def _written(value: object) -> str:
    if isinstance(value, datetime):
        return rfc3339(value) or ""
    return str(value)
