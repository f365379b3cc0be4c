"""T2: a listing of an MCP server is read, and nothing in it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from fencing.protocol.errors import Refusal
from fencing.protocol.mcp import MAX_LISTED, Listed, claims_of, read_listing
from tests.protocol.json_values import values

ONE: dict[str, Any] = {"name": "lookup", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


@pytest.mark.parametrize(
    "listing", [{"tools": [ONE]}, {"result": {"tools": [ONE], "nextCursor": "x"}}, [ONE], ONE], ids=type
)
def test_a_listing_is_read_however_much_of_its_envelope_was_pasted(listing: Any) -> None:
    tools = read_listing(listing)
    assert isinstance(tools, tuple)
    (found,) = tools
    assert isinstance(found, Listed)
    assert (found.name, found.input_schema) == ("lookup", {"type": "object"})
    assert found.hints == {"name": "lookup", "annotations": {"readOnlyHint": True}}


@pytest.mark.parametrize(
    ("listing", "pointer"),
    [
        (5, ""),
        (None, ""),
        ({"tools": 5}, "/tools"),
        ({"tools": []}, "/tools"),
        ({}, ""),
        ({"tools": [ONE, {"title": "no name"}]}, "/tools/1"),
        ({"tools": [{"name": 5}]}, "/tools/0"),
        ([{"name": ""}], "/0"),
        ([{**ONE, "inputSchema": [1]}], "/0/inputSchema"),
        ({"result": {"tools": [5]}}, "/result/tools/0"),
        ([ONE] * (MAX_LISTED + 1), ""),
    ],
    ids=lambda value: json.dumps(value)[:30],
)
def test_what_is_no_listing_is_refused_with_its_place(listing: Any, pointer: str) -> None:
    found = read_listing(listing)
    assert isinstance(found, Refusal)
    assert found.pointer == pointer


@given(values())
def test_whatever_is_pasted_the_answer_is_a_value(value: Any) -> None:
    found = read_listing(value)
    assert isinstance(found, Refusal | tuple)
    claims_of(value)


def test_claims_are_told_with_what_the_registry_says_instead() -> None:
    hints: Any = {
        "annotations": {"readOnlyHint": True, "idempotentHint": False, "destructiveHint": "yes", "title": "x"}
    }
    told = {claim.word: (claim.says, claim.contradicts) for claim in claims_of(hints, is_read_only=False)}
    assert told == {
        "readOnlyHint": ("it only reads", "registered as not read-only"),
        "idempotentHint": ("each call has an effect of its own", ""),
    }
    against = {claim.word: claim.contradicts for claim in claims_of(hints, is_read_only=True, is_idempotent=True)}
    assert against == {"readOnlyHint": "", "idempotentHint": "registered as idempotent"}


def test_annotations_may_stand_alone_and_may_be_nonsense() -> None:
    assert [claim.word for claim in claims_of({"openWorldHint": True})] == ["openWorldHint"]
    several: list[Any] = [None, 5, [], {"annotations": 5}, {}]
    for nonsense in several:
        assert claims_of(nonsense) == ()
