"""C5: what people are told about a divergence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.actions import Action, read_action
from fencing.protocol.differences import Difference, difference_class
from fencing.protocol.strict_json import parse
from fencing.protocol.tools import ToolDefinition, read_tool
from tests.protocol.json_values import objects


def action(args: Any, tool: str = "refund") -> Action:
    """An action of a tool that declares nothing."""
    found = read_action({"tool": tool, "args": args})
    assert isinstance(found, Action), found
    return found


@pytest.mark.parametrize(
    ("left", "right", "difference"),
    [
        ({"name": "Ren\u00e9"}, {"name": "Rene\u0301"}, "same_but_unicode_form"),
        ({"\u00e9": [1]}, {"e\u0301": [1]}, "same_but_unicode_form"),
        ({"cents": 4200}, {"cents": "4200"}, "same_but_number_or_string"),
        ({"a": [{"b": 0.5}]}, {"a": [{"b": "0.5"}]}, "same_but_number_or_string"),
        ({"text": "a b"}, {"text": " a  b\n"}, "same_but_whitespace"),
        ({"text": "f(a, b)"}, {"text": "f(a,b)"}, "same_but_whitespace"),
        ({"text": "a\u00a0b"}, {"text": "a b"}, "same_but_whitespace"),
        ({"mail": "Ana@Example.test"}, {"mail": "ana@example.test"}, "same_but_case"),
        ({"Invoice": 9}, {"invoice": 9}, "same_but_case"),
        ({"b": [{"d": 1, "c": 2}], "a": "X"}, {"a": "x", "b": [{"c": 2, "d": 1}]}, "same_but_case"),
        ({"street": "Stra\u00dfe"}, {"street": "STRASSE"}, "same_but_case"),
        ({"to": ["a", "b"]}, {"to": ["b", "a"]}, "same_but_array_order"),
        ({"x": [{"y": [1, 2]}, 3]}, {"x": [3, {"y": [2, 1]}]}, "same_but_array_order"),
        ({"a": 1, "note": None}, {"a": 1}, "same_but_null_or_absent"),
        ({"a": {"b": {}}}, {"a": {"b": {"c": None}}}, "same_but_null_or_absent"),
        ({"cents": 4200}, {"cents": 4201}, "other_args"),
        ({"flag": True}, {"flag": "true"}, "other_args"),
        ({"flag": True}, {"flag": 1}, "other_args"),
        ({"a": None}, {"a": "null"}, "other_args"),
        ({"a": [None]}, {"a": []}, "other_args"),
        ({"a": [1, 1, 2]}, {"a": [1, 2, 2]}, "other_args"),
        ({"ts": "1798761600.000100"}, {"ts": "1798761600.0001"}, "other_args"),
        ({"a": {}}, {"a": []}, "other_args"),
    ],
)
def test_the_first_single_normalisation_that_makes_two_actions_equal_is_told(
    left: Any, right: Any, difference: str
) -> None:
    assert difference_class(action(left), action(right)) == difference
    assert difference_class(action(right), action(left)) == difference


def test_two_normalisations_at_once_are_no_small_difference() -> None:
    assert difference_class(action({"a": "X y"}), action({"a": "xy"})) is Difference.OTHER_ARGS
    assert difference_class(action({"a": [1, 2], "b": 1}), action({"a": [2, 1], "b": "1"})) is Difference.OTHER_ARGS


def test_the_classes_are_tried_in_the_order_of_the_rule() -> None:
    names = ["unicode_form", "number_or_string", "whitespace", "case", "array_order", "null_or_absent"]
    assert list(Difference) == [f"same_but_{name}" for name in names] + ["other_args", "other_tool"]
    # NFC and casefold both make these equal; the earlier class is told.
    assert difference_class(action({"a": "\u212a"}), action({"a": "K"})) is Difference.UNICODE_FORM


def test_another_tool_is_another_tool_whatever_the_arguments() -> None:
    assert difference_class(action({}), action({}, tool="hold_for_review")) is Difference.OTHER_TOOL
    assert difference_class(action({}), action({}, tool="Refund")) is Difference.OTHER_TOOL


def test_names_that_a_normalisation_makes_alike_both_still_count() -> None:
    assert difference_class(action({"A": 1, "a": 2}), action({"a": 2})) is Difference.OTHER_ARGS
    assert difference_class(action({"A": 1, "a": 2}), action({"a": 1, "A": 2})) is Difference.CASE


def test_equal_actions_have_no_difference() -> None:
    assert difference_class(action({"a": 1}), action({"a": 1.0})) is None


def test_prose_that_is_advisory_neither_makes_nor_hides_a_difference() -> None:
    mail = read_tool({"tool": "refund", "advisory": ["/body"]})
    assert isinstance(mail, ToolDefinition)

    def sent(args: Any) -> Action:
        found = read_action({"tool": "refund", "args": args}, lambda _tool: mail)
        assert isinstance(found, Action)
        return found

    one, other = sent({"cents": 1, "body": "one"}), sent({"cents": "1", "body": "another"})
    assert difference_class(one, other, advisory=mail.advisory) is Difference.NUMBER_OR_STRING
    assert difference_class(one, sent({"cents": 1, "body": "x"}), advisory=mail.advisory) is None


@given(objects(), objects())
def test_the_order_of_the_two_has_no_meaning_and_equal_ones_have_no_class(left: Any, right: Any) -> None:
    one, other = action(left), action(right)
    found = difference_class(one, other)
    assert found is difference_class(other, one)
    assert (found is None) is (one.fence_digest == other.fence_digest)


@given(objects(), st.sampled_from(["Aa", "aA"]))
def test_a_difference_in_case_is_found_beside_anything(args: dict[str, Any], text: str) -> None:
    one, other = action({**args, "x": text}), action({**args, "x": "aa"})
    assert difference_class(one, other) is Difference.CASE


def test_the_deepest_actions_can_be_compared() -> None:
    def deep(leaf: bytes) -> Action:
        return action(parse(b'{"a":' + b'{"a":[' * 31 + leaf + b"]}" * 31 + b"}"))

    assert difference_class(deep(b"1"), deep(b'"1"')) is Difference.NUMBER_OR_STRING
