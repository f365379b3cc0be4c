"""Rows of exported ledgers, in the three forms, and what cannot be read of them."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.errors import Refusal
from fencing.protocol.ledger_files import MAX_LINE, BrokenFile, Format, format_of, rows_of
from tests.length import long_or

ACTION = {"tool": "pay", "args": {"invoice": 9}}
ROW = {"external_id": "x-1", "idempotency_key": "k", "action": ACTION}


LINE = '{"external_id":"x-1","idempotency_key":"k","action":{"tool":"pay","args":{"invoice":9}}}'
TABLE = """\ufeffexternal_id,idempotency_key,action,digest
x-1,k,"{""tool"":""pay"",""args"":{""invoice"":9}}",
"""


def read(text: str | bytes, written: Format, start: int = 0) -> list[Any]:
    """The rows of a file."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return [row for row, _ in rows_of(io.BytesIO(raw), written, start)]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"{LINE}\n\n", Format.NDJSON),
        (f"[{LINE}]", Format.JSON),
        (f"\ufeff [ {LINE} ] \n", Format.JSON),
        (f'{{"items":[{LINE}]}}', Format.JSON),
        (f'{{"total": {{"items": [1]}}, "items" : [{LINE}], "next": null}}', Format.JSON),
        (TABLE, Format.CSV),
    ],
)
def test_each_form_gives_the_same_rows(text: str, written: Format) -> None:
    assert read(text, written) == [ROW]


def test_a_row_that_cannot_be_read_is_a_fault_of_that_row_alone() -> None:
    rows = [
        '{"external_id":"a"}',
        '{"external_id":"b","external_id":"c"}',
        '{"external_id":12345678901234567890}',
        "{}",
    ]
    lines = read("\n".join([*rows, "{nonsense", '{"external_id":"\udc00"}', '{"external_id":"d"}']), Format.NDJSON)
    assert [isinstance(each, Refusal) for each in lines] == [False, True, True, False, True, True, False]
    array = read(f"[{','.join(rows)}]", Format.JSON)
    assert [isinstance(each, Refusal) for each in array] == [False, True, True, False]
    table = read(b"external_id,digest\na,\nb\nc,d\n\xff,e\n", Format.CSV)
    assert [isinstance(each, Refusal) for each in table] == [False, True, False, True]


@pytest.mark.parametrize(
    ("text", "written", "before"),
    [
        ("external_id,amount\na,b\n", Format.CSV, 0),
        ("digest\na\n", Format.CSV, 0),
        ("external_id,external_id\na,b\n", Format.CSV, 0),
        ("", Format.CSV, 0),
        ('external_id\na\n"b\n', Format.CSV, 1),
        ('external_id\na\n"b"c\nd\n', Format.CSV, 1),
        (f"[{LINE},{LINE}", Format.JSON, 2),
        (f"[{LINE} {LINE}]", Format.JSON, 1),
        (f"[{LINE},{{]", Format.JSON, 1),
        (f"[{LINE}] and more", Format.JSON, 1),
        (f'{{"items":[{LINE}]', Format.JSON, 1),
        (f'{{"rows":[{LINE}]}}', Format.JSON, 0),
        ("12", Format.JSON, 0),
        ("", Format.JSON, 0),
        ("[" * 100_000, Format.JSON, 0),
    ],
)
def test_what_makes_the_rest_of_a_file_unreadable_is_told_after_the_rows_before_it(
    text: str, written: Format, before: int
) -> None:
    rows = rows_of(io.BytesIO(text.encode()), written)
    assert len([next(rows) for _ in range(before)]) == before
    with pytest.raises(BrokenFile, match=r"\.$"):
        next(rows)


@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=8),
    written=st.sampled_from(Format),
    stop=st.integers(0, 7),
    mark=st.booleans(),
)
def test_a_file_is_read_on_from_where_any_row_ended(texts: list[str], written: Format, stop: int, mark: bool) -> None:
    rows = [{"external_id": text} if text else {} for text in texts]
    out = io.StringIO(newline="")
    if written is Format.JSON:
        json.dump({"items": rows}, out, ensure_ascii=False, indent=1)
    elif written is Format.NDJSON:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows)
    else:
        table = csv.writer(out)
        table.writerows([["external_id", "digest"], *([text, "d"] for text in texts)])
        rows = [{**row, "digest": "d"} for row in rows]
    raw = b"\xef\xbb\xbf" * mark + out.getvalue().encode()
    whole = list(rows_of(io.BytesIO(raw), written))
    assert [row for row, _ in whole] == rows
    if stop < len(whole):
        assert list(rows_of(io.BytesIO(raw), written, whole[stop][1])) == whole[stop + 1 :]


class Counted(io.BytesIO):
    """A file that counts how much of it is asked for at once."""

    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.most = max(self.most, len(piece))
        return piece

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.most = max(self.most, len(line))
        return line


@pytest.mark.parametrize("written", Format)
def test_no_more_than_a_piece_of_a_file_is_ever_read_at_once(written: Format) -> None:
    many = long_or(60_000, long=3_000_000)
    row = '{"external_id":"é-%07d","action":{"tool":"pay","args":{"note":"' + "ü" * 60 + '"}}}'
    cell = '"é-%07d","{""tool"":""pay"",""args"":{""note"":""' + "ü" * 60 + '""}}"\n'
    lines = {Format.CSV: "external_id,action\n", Format.JSON: "[", Format.NDJSON: ""}[written]
    lines += ((cell if written is Format.CSV else row + ("," if written is Format.JSON else "\n")) * many) % tuple(
        range(many)
    )
    file = Counted((lines[:-1] + "]" if written is Format.JSON else lines).encode())
    last, at = "", 0
    for number, (found, end) in enumerate(rows_of(file, written)):
        assert isinstance(found, dict)
        last, at = str(found["external_id"]), end
        assert int(last[2:]) == number
    assert (int(last[2:]), file.getbuffer().nbytes - at < 2) == (many - 1, True)
    assert file.most <= 4 * MAX_LINE < file.getbuffer().nbytes


def test_a_line_that_never_ends_is_not_held() -> None:
    text = b'{"external_id":"a"}\n' + b"x" * (3 * MAX_LINE) + b'\n{"external_id":"b"}\n'
    file = Counted(text)
    found = [row for row, _ in rows_of(file, Format.NDJSON)]
    assert [isinstance(each, Refusal) for each in found] == [False, True, False]
    assert file.most <= MAX_LINE + 1
    for broken in (b"external_id\n" + b"x" * (2 * MAX_LINE), b'["' + b"x" * (6 * MAX_LINE) + b'"]'):
        with pytest.raises(BrokenFile):
            list(rows_of(io.BytesIO(broken), Format.CSV if broken[:1] == b"e" else Format.JSON))


@given(st.one_of(st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=60)))
def test_nothing_in_a_file_breaks_the_reader(raw: bytes) -> None:
    for written in Format:
        with contextlib.suppress(BrokenFile):
            for row, end in rows_of(io.BytesIO(raw), written):
                assert end <= len(raw)
                assert isinstance(row, Refusal) or written is not Format.CSV or isinstance(row, dict)


def test_the_name_tells_the_form() -> None:
    assert [format_of(name) for name in ("a.CSV", "b.jsonl", "c.ndjson", "d.json", "e.xlsx", "f")] == [
        Format.CSV, Format.NDJSON, Format.NDJSON, Format.JSON, None, None,
    ]  # fmt: skip
