"""Rows of a ledger that somebody exported: CSV with a header, a JSON array, or a JSON object a line.

A row has the members of `POST /gateway/effects`; in CSV they are columns, `action` holds JSON, and an empty cell is an
absent member. A row that cannot be read is a fault of that row alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from fencing.protocol import strict_json
from fencing.protocol.errors import Code, Refusal

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

MAX_LINE: Final = 1024 * 1024
MEMBERS: Final = frozenset({"tool", "action", "digest", "idempotency_key", "external_id", "occurred_at"})


class Format(StrEnum):
    """How a file is written."""

    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"


def format_of(name: str) -> Format | None:
    """Tell a file's format by its name; None for any other."""
    ending = name.lower().rpartition(".")[2]
    return {"csv": Format.CSV, "json": Format.JSON, "ndjson": Format.NDJSON, "jsonl": Format.NDJSON}.get(ending)


def rows_of(lines: Iterable[str], written: Format) -> Iterator[Json | Refusal]:
    """Read the rows of a file, one after the other, from its lines with their ends.

    Only a JSON array is read as a whole. Never raises for what is in the file.
    """
    match written:
        case Format.NDJSON:
            yield from (_parsed(line) for line in lines if line.strip())
        case Format.JSON:
            yield from _of_array("".join(lines))
        case Format.CSV:
            yield from _of_table(lines)


def _parsed(text: str) -> Json | Refusal:
    if len(text) > MAX_LINE:
        return Refusal(code=Code.TOO_LARGE, detail="A row has at most a megabyte.")
    return strict_json.parse(text.encode("utf-8", "surrogatepass"))


def _of_array(text: str) -> Iterator[Json | Refusal]:
    value = strict_json.parse(text.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        value = value["items"]
    if isinstance(value, list):
        yield from value
    else:
        detail = "A JSON file holds an array of rows, or an object with `items`."
        yield value if isinstance(value, Refusal) else Refusal(code=Code.INVALID_VALUE, detail=detail)


def _of_table(lines: Iterable[str]) -> Iterator[Json | Refusal]:
    table = csv.reader(lines, strict=True)
    try:
        header = [name.strip().lstrip("\ufeff") for name in next(table, [])]
        if not set(header) <= MEMBERS or len(set(header)) < len(header) or "external_id" not in header:
            named = ", ".join(sorted(MEMBERS))
            yield Refusal(code=Code.INVALID_VALUE, detail=f"The first line names columns, each once, among: {named}.")
            return
        for cells in table:
            if cells:
                yield _of_cells(header, cells)
    except csv.Error as fault:
        yield Refusal(code=Code.INVALID_VALUE, detail=f"Line {table.line_num} is no CSV: {fault}.")


def _of_cells(header: list[str], cells: list[str]) -> Json | Refusal:
    if len(cells) != len(header):
        return Refusal(code=Code.INVALID_VALUE, detail=f"A row has {len(cells)} cells under {len(header)} columns.")
    row: dict[str, Json] = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
    if "action" in row:
        action = _parsed(str(row["action"]))
        if isinstance(action, Refusal):
            return action
        row["action"] = action
    return row
