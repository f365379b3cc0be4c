"""Rows of exported ledgers, in the three forms, and what cannot be read of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.errors import Refusal
from fencing.protocol.ledger_files import Format, format_of, rows_of

ACTION = {"tool": "pay", "args": {"invoice": 9}}
ROW = {"external_id": "x-1", "idempotency_key": "k", "action": ACTION}


LINE = '{"external_id":"x-1","idempotency_key":"k","action":{"tool":"pay","args":{"invoice":9}}}'
TABLE = """\ufeffexternal_id,idempotency_key,action,digest
x-1,k,"{""tool"":""pay"",""args"":{""invoice"":9}}",
"""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"{LINE}\n\n", Format.NDJSON),
        (f"[{LINE}]", Format.JSON),
        (f'{{"items":[{LINE}]}}', Format.JSON),
        (TABLE, Format.CSV),
    ],
)
def test_each_form_gives_the_same_rows(text: str, written: Format) -> None:
    assert list(rows_of(text.splitlines(keepends=True), written)) == [ROW]


def test_a_row_that_cannot_be_read_is_a_fault_of_that_row_alone() -> None:
    lines = ['{"external_id":"a"}\n', "{nonsense\n", '{"external_id":"b","external_id":"c"}\n', '{"external_id":"d"}\n']
    found = list(rows_of(lines, Format.NDJSON))
    assert [isinstance(each, Refusal) for each in found] == [False, True, True, False]
    table = list(rows_of(["external_id,digest\n", "a,\n", "b\n", "c,d\n"], Format.CSV))
    assert [isinstance(each, Refusal) for each in table] == [False, True, False]


def test_columns_that_nobody_knows_are_refused_at_once() -> None:
    for header in ("external_id,amount\n", "digest\n", "external_id,external_id\n"):
        (only,) = rows_of([header, "a,b\n"], Format.CSV)
        assert isinstance(only, Refusal)


@given(st.lists(st.text(max_size=40), max_size=6), st.sampled_from(Format))
def test_nothing_in_a_file_breaks_the_reader(lines: list[str], written: Format) -> None:
    for row in rows_of(lines, written):
        assert isinstance(row, Refusal) or written is not Format.CSV or isinstance(row, dict)


def test_the_name_tells_the_form() -> None:
    assert [format_of(name) for name in ("a.CSV", "b.jsonl", "c.ndjson", "d.json", "e.xlsx", "f")] == [
        Format.CSV, Format.NDJSON, Format.NDJSON, Format.JSON, None, None,
    ]  # fmt: skip
