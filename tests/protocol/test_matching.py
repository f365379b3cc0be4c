"""T3: whatever the arguments, they are checked in bounded work, and judged as JSON Schema judges them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fencing.protocol.errors import Refusal
from fencing.protocol.matching import (
    HURRIED,
    MAX_WORK,
    OutOfAllowance,
    TooMuchWork,
    Validator,
    allowance,
    counted,
    work_for,
)
from fencing.protocol.patterns import MAX_PATTERN, compiled_pattern, fault_of_pattern
from fencing.protocol.tools import ToolDefinition, read_tool, stored_tool
from tests.protocol.within import TookTooLong, within

MOST_S = 10.0
"""Far more than any takes on a machine that does nothing else, and far less than a backtracking matcher would."""

LONG = 250_000


def tool(schema: Any) -> ToolDefinition:
    found = read_tool({"tool": "send_mail", "args_schema": schema})
    assert isinstance(found, ToolDefinition), found
    return found


def fits(schema: Any, args: Any) -> bool:
    with within(MOST_S):
        return tool(schema).check_args(args) is None


# -- patterns ----------------------------------------------------------------------------------------------------------

HOSTILE = [
    ("(a+)+$", "a" * 60 + "!"),
    ("^(a|a)*$", "a" * 60 + "!"),
    ("^(a|aa)+$", "a" * 120 + "!"),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 120),
    ("^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$",
     "a" * 120 + "!"),
    ("(x+x+)+y", "x" * LONG),
    ("(.*)*$", "a" * LONG + "\n"),
    ("^(\\w+\\s?)*$", "word " * 40_000 + "!"),
    (".*.*.*.*=.*", "x" * LONG),
    ("^[\\s\u200c]+|[\\s\u200c]+$", "x" + " " * LONG + "x"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text"), HOSTILE)
def test_a_hostile_text_is_judged_in_bounded_time(pattern: str, text: str) -> None:
    for schema in (
        {"properties": {"a": {"pattern": pattern}}},
        {"patternProperties": {pattern: {"type": "string"}}},
        {"properties": {"a": {"propertyNames": {"pattern": pattern}}}},
        {"patternProperties": {pattern: {}}, "additionalProperties": False},
        {"patternProperties": {pattern: {}}, "unevaluatedProperties": False},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"pattern": pattern}}}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": {"pattern": pattern}},
         "additionalProperties": {"$ref": "#"}},
    ):  # fmt: skip
        for args in ({"a": text}, {text: 1}, {"a": {text: 1}}, {"b": {"a": text}}):
            fits(schema, args)


def test_the_alarm_of_these_tests_rings_for_a_matcher_that_backtracks() -> None:
    backtracking = Draft202012Validator({"pattern": "(a+)+$"})
    with pytest.raises(TookTooLong), within(0.3):
        backtracking.is_valid("a" * 60 + "!")


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("^a", "ba", False),
        ("a$", "a\n", False),  # the end is the end, as in JSON Schema's own dialect
        ("^\\d+$", "\u0661", False),
        ("caf\\u00e9", "caf\u00e9", True),
        ("a\\\\u0041", "a\\u0041", True),
        ("^[\\u4e00-\\u9fa5]+$", "\u6f22\u5b57", True),
        ("^\\p{L}+$", "stra\u00dfe", True),
        ("^.$", "\U0001f600", True),
        ("(?i)refund", "REFUND", True),
        ("", "", True),
    ],
)
def test_a_pattern_is_searched_anywhere_in_the_text(pattern: str, text: str, is_found: bool) -> None:
    assert fits({"properties": {"a": {"pattern": pattern}}}, {"a": text}) is is_found


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "none that RE2 matches"),
        ("(?=a)", "Looking around"),
        ("(?<!a)b", "Looking around"),
        ("(a)\\1", "backreferences"),
        ("a{1,1001}", "none that RE2 matches"),
        ("(a{100}b{100}){10}", "repeats too much"),
        ("x" * (MAX_PATTERN + 1), "at most 1,000"),
        ("\\u12", "none that RE2 matches"),
    ],
)
def test_what_cannot_be_matched_in_linear_time_is_refused(pattern: str, said: str) -> None:
    found = fault_of_pattern(pattern)
    assert found is not None
    assert said in found


def test_a_pattern_is_compiled_once() -> None:
    assert compiled_pattern("^once$") is compiled_pattern("^once$")


def test_a_definition_that_was_stored_under_older_rules_is_read_and_lets_nothing_through() -> None:
    written = tool({"properties": {"a": {"pattern": "x"}}}).as_json()
    raw = json.dumps(written, sort_keys=True, separators=(",", ":")).replace('"x"', '"(?=x)"').encode()
    old = stored_tool(raw)
    refusal = old.check_args({"a": "x"})
    assert isinstance(refusal, Refusal)
    assert refusal.code == "invalid_args"
    assert old.check_args({"b": "x"}) is None


# -- work --------------------------------------------------------------------------------------------------------------


def test_unique_items_of_all_kinds_are_told_in_bounded_time() -> None:
    mixed: list[Any] = [each for number in range(20_000) for each in (number, str(number))]
    assert fits({"properties": {"a": {"uniqueItems": True}}}, {"a": mixed})
    assert not fits({"properties": {"a": {"uniqueItems": True}}}, {"a": [*mixed, "7"]})


def test_many_members_and_items_that_nothing_evaluates_are_told_in_bounded_time() -> None:
    names = {f"n{number}": 1 for number in range(10_000)}
    assert fits({"patternProperties": {"^n": {}}, "unevaluatedProperties": False}, names)
    assert not fits({"patternProperties": {"^n": {}}, "unevaluatedProperties": False}, {**names, "other": 1})
    items = [1] * 25_000
    schema = {"properties": {"a": {"contains": {"const": 1}, "unevaluatedItems": False}}}
    assert fits(schema, {"a": items})
    assert not fits(schema, {"a": [*items, 2]})


def test_as_many_items_as_an_action_can_hold_are_checked() -> None:
    schema = {"properties": {"a": {"items": {"type": "integer", "minimum": 0, "maximum": 9}}}}
    assert fits(schema, {"a": [1] * 120_000})


DOUBLING = {
    "$defs": {"tree": {"anyOf": [
        {"properties": {"in": {"$ref": "#/$defs/tree"}}, "required": ["never"]},
        {"properties": {"in": {"$ref": "#/$defs/tree"}}},
    ]}},
    "$ref": "#/$defs/tree",
}  # fmt: skip


def deep(levels: int, bottom: Any = "") -> Any:
    return {"in": deep(levels - 1, bottom)} if levels else bottom


def test_work_that_doubles_at_each_level_ends_and_is_refused() -> None:
    assert fits(DOUBLING, deep(3))
    with within(MOST_S):
        refusal = tool(DOUBLING).check_args(deep(50))
    assert isinstance(refusal, Refusal)
    assert "more work" in refusal.detail


def test_a_long_text_that_is_refused_is_work_for_its_length() -> None:
    validator = Validator({"type": "integer"})
    with counted(500):
        assert next(validator.iter_errors("x" * 2_000), None) is not None
    with pytest.raises(TooMuchWork), counted(500):
        next(validator.iter_errors("x" * 200_000), None)


def test_who_is_in_a_hurry_is_told_nothing_of_what_takes_long() -> None:
    checked = tool({"properties": {"a": {"items": {"type": "integer"}}}})
    with allowance(HURRIED):
        assert checked.check_args({"a": [1] * 100}) is None
        with pytest.raises(OutOfAllowance):
            checked.check_args({"a": [1] * 10_000})
    assert checked.check_args({"a": [1] * 10_000}) is None


def test_an_allowance_is_for_all_that_is_checked_inside() -> None:
    checked = tool({"properties": {"a": {"items": {"type": "integer"}}}})
    with allowance(350):
        for _ in range(3):
            assert checked.check_args({"a": [1] * 100}) is None
        with pytest.raises(OutOfAllowance):
            checked.check_args({"a": [1] * 100})


def test_what_is_too_much_work_is_told_as_such_within_any_allowance() -> None:
    with allowance(MAX_WORK * 2):
        refusal = tool(DOUBLING).check_args(deep(50))
    assert isinstance(refusal, Refusal)


def test_small_arguments_are_no_great_work_whatever_the_schema() -> None:
    assert work_for(deep(50)) < MAX_WORK / 40
    assert work_for({"a": [1] * 130_000}) == MAX_WORK


def test_the_same_arguments_always_run_out_at_the_same_work() -> None:
    validator = Validator({"items": {"type": "integer"}})
    args = list(range(100))
    needed = next(most for most in range(1, MAX_WORK) if runs(validator, args, most))
    assert not runs(validator, args, needed - 1)
    assert [runs(validator, args, needed) for _ in range(3)] == [True] * 3


def runs(validator: Any, args: Any, most: int) -> bool:
    try:
        with counted(most):
            return next(validator.iter_errors(args), None) is None
    except TooMuchWork:
        return False


def test_checks_beside_each_other_do_not_share_their_work() -> None:
    validator = Validator({"items": {"type": "integer"}})
    with counted(1_000):
        assert runs(validator, list(range(100)), 500)
        assert next(validator.iter_errors(list(range(100))), None) is None


# -- the same judgement as the library's -------------------------------------------------------------------------------

words = st.text("ab1", max_size=3)
numbers = st.sampled_from([0, 1, 2, 1.5, True, False])
leaves = st.none() | numbers | words
instances = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=8
)
patterns = st.sampled_from(["^a", "b", "1$", "^[ab]+$"])


def schemas() -> st.SearchStrategy[Any]:
    plain = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", "number", "null", "boolean"]),
            "enum": st.lists(leaves, min_size=1, max_size=3),
            "const": leaves,
            "minimum": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "required": st.lists(words, max_size=2, unique=True),
            "uniqueItems": st.booleans(),
            "pattern": patterns,
        },
    )
    return st.recursive(plain | st.booleans(), _around, max_leaves=6)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(words, inner, max_size=2),
            "patternProperties": st.dictionaries(patterns, inner, max_size=2),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "propertyNames": inner,
            "dependentSchemas": st.dictionaries(words, inner, max_size=1),
            "items": inner,
            "prefixItems": some,
            "contains": inner,
            "unevaluatedItems": inner,
            "uniqueItems": st.booleans(),
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$defs": st.fixed_dictionaries({"d": inner}),
        },
    ).flatmap(lambda made: st.just({**made, "$ref": "#/$defs/d"}) | st.just(made) if "$defs" in made else st.just(made))


@given(schemas(), instances)
def test_arguments_are_judged_as_the_library_judges_them(schema: Any, args: Any) -> None:
    if not isinstance(schema, dict):
        return
    schema = bare(schema)
    with counted():
        found = next(Validator(schema).iter_errors(args), None)
    other = next(Draft202012Validator(schema).iter_errors(args), None)
    assert (found is None) == (other is None)


def bare(schema: Any, *, is_top: bool = True) -> Any:
    """Leave references at the top alone: elsewhere they would lead to what is not there."""
    if isinstance(schema, dict):
        kept = {name: bare(value, is_top=False) for name, value in schema.items() if is_top or name != "$ref"}
        return kept if "$defs" in kept else {name: value for name, value in kept.items() if name != "$ref"}
    return [bare(each, is_top=False) for each in schema] if isinstance(schema, list) else schema
