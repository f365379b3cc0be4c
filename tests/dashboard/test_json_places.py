"""From a JSON Pointer to the line on which a person finds it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dashboard.json_places import line_of
from fencing.protocol.pointers import pointer_to
from tests.protocol.json_values import values

TEXT = """{
  "a": 1,
  "b": [
    {"c": "}"},
    [
      "x", "\\" ,]"
    ]
  ],
  "a~/b": {
    "deep": null
  },
  "a": 2
}"""


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("", 1),
        ("/b", 3),
        ("/b/0", 4),
        ("/b/0/c", 4),
        ("/b/1", 5),
        ("/b/1/1", 6),
        ("/a~0~1b/deep", 10),
        ("/a", 12),  # the one that is one too many
        ("/nowhere", None),
        ("/b/7", None),
        ("no pointer", None),
    ],
)
def test_a_pointer_leads_to_its_line(pointer: str, line: int | None) -> None:
    assert line_of(TEXT, pointer) == line


@pytest.mark.parametrize("text", ["", "{", '{"a"', "[1,", "]", '{"a": }', '{"a" 1}', "[" * 100_000])
def test_of_what_is_no_json_no_line_is_told(text: str) -> None:
    assert line_of(text, "/a/0") is None


@given(values())
def test_every_place_of_a_written_value_is_found(value: Any) -> None:
    text = json.dumps(value, indent=1)
    for place in places(value):
        assert line_of(text, pointer_to(place)) is not None


def places(value: Any) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((name, *rest) for name, child in children for rest in places(child))]
