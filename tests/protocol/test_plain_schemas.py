"""T3: what the quick function says of arguments, the library says too."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.plain_schemas import MOST, plainly
from fencing.protocol.schemas import compiled, fault_of_args, fault_of_schema
from tests.protocol.json_values import values

REFUND: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "invoice": {"type": "integer", "minimum": 1},
        "rate": {"type": "number", "maximum": 1},
        "currency": {"enum": ["EUR", "USD"]},
        "note": {"type": "string", "minLength": 1, "maxLength": 5, "description": "a few words"},
        "urgent": {"type": "boolean"},
        "to": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    "required": ["invoice"],
    "additionalProperties": False,
}
NAMES = ("invoice", "rate", "note", "to")

limits = st.integers(-3, 3) | st.floats(-3, 3, allow_nan=False)
lengths = st.integers(0, 4)
words = st.sampled_from(["EUR", "USD", "", "€"])
leaves = (
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])}, optional={"minimum": limits, "maximum": limits}
    )
    | st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": lengths, "maxLength": lengths, "format": st.just("uuid"), "enum": st.lists(words, min_size=1),
        },
    )
    | st.fixed_dictionaries({"enum": st.lists(words, min_size=1)}, optional={"title": st.just("one of")})
    | st.just({"type": "boolean"})
)  # fmt: skip


def objects_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
            "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
            "additionalProperties": st.booleans(),
        },
    )


schemas = objects_of(st.recursive(leaves, objects_of, max_leaves=4))
atoms = st.booleans() | st.none() | st.integers(-4, 4) | st.floats(-4, 4, allow_nan=False) | words | st.text(max_size=5)
args = st.dictionaries(
    st.sampled_from(NAMES) | st.text(max_size=2),
    st.recursive(atoms, lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=3), max_leaves=4),
    max_size=4,
)


@given(schemas, args | values())
def test_what_plainly_fits_fits_by_the_library(schema: dict[str, Any], given: Any) -> None:
    assert fault_of_schema(schema, at="") is None
    plain = plainly(schema)
    assert plain is not None
    fits = fault_of_args(compiled(schema), given, at="") is None
    assert fits or not plain(given)
    # What is left to the library although it fits is rare: a whole number that is a float.
    assert plain(given) or not fits or "." in repr(given)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"invoice": 7}, True),
        ({"invoice": 7, "rate": 0.5, "currency": "USD", "note": "soon", "urgent": True, "to": {"name": "A"}}, True),
        ({"invoice": 0}, False),
        ({"invoice": True}, False),
        ({"invoice": 7, "rate": 1.5}, False),
        ({"invoice": 7, "currency": "GBP"}, False),
        ({"invoice": 7, "currency": ["EUR"]}, False),
        ({"invoice": 7, "note": ""}, False),
        ({"invoice": 7, "urgent": 1}, False),
        ({"invoice": 7, "to": {}}, False),
        ({"invoice": 7, "cents": 1}, False),
        ({"rate": 1}, False),
        ([], False),
    ],
)
def test_a_plain_schema_tells_what_fits(given: Any, fits: bool) -> None:
    plain = plainly(REFUND)
    assert plain is not None
    assert plain(given) is fits


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object", "null"]},
        {"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 2}}},
        {"type": "object", "properties": {"a": {"enum": ["x", 1]}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "required": [f"member {number}" for number in range(MOST)]},
    ],
)
def test_every_other_schema_is_left_to_the_library(schema: Any) -> None:
    assert plainly(schema) is None
