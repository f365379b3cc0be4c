"""Rows of a ledger that somebody exported: CSV with a header, a JSON array, or a JSON object a line.

A row has the members of `POST /gateway/effects`; in CSV they are columns, `action` holds JSON, and an empty cell is an
absent member. A row that cannot be read is a fault of that row alone. What makes the rest of a file unreadable (an
array that breaks off, a quotation that never ends) is `BrokenFile`: nobody then knows what else it would have told.

Files may be far larger than memory: of each only a piece is held, and every row tells where the next one begins.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

from fencing.protocol import strict_json
from fencing.protocol.errors import Code, Refusal

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

MAX_LINE: Final = 1024 * 1024
"""Bytes that one row may have; in CSV one line of it."""
MEMBERS: Final = frozenset({"tool", "action", "digest", "idempotency_key", "external_id", "occurred_at"})

_MARK: Final = b"\xef\xbb\xbf"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NO_ARRAY: Final = "A JSON file holds an array of rows, or an object with `items`."
_TOO_LARGE: Final = Refusal(code=Code.TOO_LARGE, detail="A row has at most a megabyte.")
# Finds where a value ends, and makes nothing of its numbers.
_scanner: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
# An action with its prose stands in one cell; the reader's own limit is an eighth of that.
csv.field_size_limit(MAX_LINE)


class Format(StrEnum):
    """How a file is written."""

    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"


class BrokenFile(Exception):
    """From here on the file cannot be read; the message says why, in a sentence."""


Rows: TypeAlias = "Iterator[tuple[Json | Refusal, int]]"


def format_of(name: str) -> Format | None:
    """Tell a file's format by its name; None for any other."""
    ending = name.lower().rpartition(".")[2]
    return {"csv": Format.CSV, "json": Format.JSON, "ndjson": Format.NDJSON, "jsonl": Format.NDJSON}.get(ending)


def rows_of(file: BinaryIO, written: Format, start: int = 0) -> Rows:
    """Read the rows of a file, each with the byte at which the next one begins; `start` is such a byte, or 0.

    Raises:
        BrokenFile: the rest of the file cannot be read.
    """
    file.seek(len(_MARK) if file.read(len(_MARK)) == _MARK else 0)
    match written:
        case Format.NDJSON:
            yield from _of_lines(file, start)
        case Format.JSON:
            yield from _of_array(file, start)
        case Format.CSV:
            yield from _of_table(file, start)


def _parsed(raw: bytes) -> Json | Refusal:
    return _TOO_LARGE if len(raw) > MAX_LINE else strict_json.parse(raw)


def _of_lines(file: BinaryIO, start: int) -> Rows:
    at = max(start, file.tell())
    file.seek(at)
    while line := file.readline(MAX_LINE + 1):
        at += len(line)
        row = _parsed(line) if line.strip() else None
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE + 1)  # what is left of a line that is too long
            at += len(line)
        if row is not None:
            yield row, at


class _Text:
    """A window on a text: always a whole row of it, as long as no row is larger than rows may be."""

    def __init__(self, file: BinaryIO, at: int) -> None:
        file.seek(at)
        self._file = file
        self._text = ""
        self._place = 0
        self._torn = b""
        self._is_over = False
        self.at = at
        """The byte in the file at which the window begins."""

    def fill(self) -> None:
        """Read on where less than one row is left."""
        while not self._is_over and len(self._text) - self._place <= MAX_LINE:
            fresh = self._file.read(4 * MAX_LINE)
            self._is_over = not fresh
            piece = self._torn + fresh
            # A character whose bytes are torn apart by the end of the piece waits for the next one.
            whole = _last_boundary(piece) if fresh else len(piece)
            self._torn = piece[whole:]
            self._text = self._text[self._place :] + piece[:whole].decode("utf-8", "surrogateescape")
            self._place = 0

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """Take what fits a pattern here; None where nothing does."""
        self.fill()
        found = pattern.match(self._text, self._place)
        if found is None:
            return None
        self._move(found.end())
        return found.group()

    def value(self) -> bytes:
        """Take one JSON value, as it is written."""
        self.take(_SPACE)
        self.fill()
        try:
            _, end = _scanner.raw_decode(self._text, self._place)
        except (ValueError, RecursionError):
            raise BrokenFile(f"Byte {self.at:,} begins what is no JSON, or is larger than a megabyte.") from None
        return self._move(end)

    def _move(self, end: int) -> bytes:
        taken = self._text[self._place : end].encode("utf-8", "surrogateescape")
        self._place = end
        self.at += len(taken)
        return taken


def _last_boundary(piece: bytes) -> int:
    """Where the last character of a piece that may be torn begins."""
    place = len(piece) - 1
    while place > max(0, len(piece) - 4) and piece[place] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte within a character
        place -= 1
    return place


_OPENS_ARRAY: Final = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*")
_OPENS_OBJECT: Final = re.compile(r"[ \t\r\n]*\{[ \t\r\n]*")
_NAMES_ITEMS: Final = re.compile(r'[ \t\r\n]*"items"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*')
_COLON: Final = re.compile(r"[ \t\r\n]*:[ \t\r\n]*")
_COMMA: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_ENDS_ARRAY: Final = re.compile(r"[ \t\r\n]*\][ \t\r\n]*")
_ENDS_OBJECT: Final = re.compile(r"[ \t\r\n]*\}[ \t\r\n]*")
_ANYTHING: Final = re.compile(r"(?s).")


def _of_array(file: BinaryIO, start: int) -> Rows:
    text = _Text(file, file.tell())
    is_bare = text.take(_OPENS_ARRAY) is not None
    if not is_bare:
        _find_items(text)
    if start > text.at:
        # Another row was the last one that was read: what follows it is a comma, or the end of the array.
        text = _Text(file, start)
        goes_on = text.take(_ENDS_ARRAY) is None
        if goes_on:
            _expect(text, _COMMA)
    else:
        goes_on = text.take(_ENDS_ARRAY) is None
    while goes_on:
        row = _parsed(text.value())
        yield row, text.at
        goes_on = text.take(_ENDS_ARRAY) is None
        if goes_on:
            _expect(text, _COMMA)
    if not is_bare:
        while text.take(_COMMA) is not None:
            _pass_member(text)
        _expect(text, _ENDS_OBJECT)
    if text.take(_ANYTHING) is not None:
        raise BrokenFile("Something follows the end of the JSON.")


def _find_items(text: _Text) -> None:
    """Pass the members before `items`, which is what an object is read for."""
    if text.take(_OPENS_OBJECT) is None:
        raise BrokenFile(_NO_ARRAY)
    while text.take(_NAMES_ITEMS) is None:
        _pass_member(text)
        if text.take(_COMMA) is None:
            raise BrokenFile(_NO_ARRAY)


def _pass_member(text: _Text) -> None:
    text.value()
    _expect(text, _COLON)
    text.value()


def _expect(text: _Text, pattern: re.Pattern[str]) -> None:
    if text.take(pattern) is None:
        raise BrokenFile(f"The JSON breaks off, or is none, at byte {text.at:,}.")


class _Lines:
    """Lines of a table with their ends, and the byte at which the next one begins."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.at = file.tell()

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise BrokenFile(f"The line at byte {self.at:,} is longer than a megabyte.")
            self.at += len(line)
            yield line.decode("utf-8", "surrogateescape")

    def go(self, at: int) -> None:
        """Go on elsewhere."""
        self._file.seek(at)
        self.at = at


def _of_table(file: BinaryIO, start: int) -> Rows:
    lines = _Lines(file)
    table = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(table, [])]
        if not set(header) <= MEMBERS or len(set(header)) < len(header) or "external_id" not in header:
            named = ", ".join(sorted(MEMBERS))
            raise BrokenFile(f"The first line names columns, each once, among: {named}.")
        if start > lines.at:
            lines.go(start)
        for cells in table:
            if cells:
                yield _of_cells(header, cells), lines.at
    except csv.Error as fault:
        raise BrokenFile(f"The lines that end at byte {lines.at:,} are no CSV: {fault}.") from None


def _of_cells(header: list[str], cells: list[str]) -> Json | Refusal:
    if len(cells) != len(header):
        return Refusal(code=Code.INVALID_VALUE, detail=f"A row has {len(cells)} cells under {len(header)} columns.")
    row: dict[str, Json] = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        return Refusal(code=Code.BAD_UNICODE, detail="A row holds bytes that are no UTF-8.")
    if "action" in row:
        action = _parsed(str(row["action"]).encode())
        if isinstance(action, Refusal):
            return action
        row["action"] = action
    return row
