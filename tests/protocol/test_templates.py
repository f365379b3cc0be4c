"""T3, P2: the action that undoes an effect, built from the effect."""

from typing import Any

import pytest
from hypothesis import given

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tools import ToolDefinition, read_tool, render_compensation
from tests.protocol.json_values import objects, values

ACTION: Any = {"tool": "refund", "args": {"invoice": 9, "cents": 4200, "lines": [{"id": "l1"}]}}


def tool(args: Any) -> ToolDefinition:
    """A tool with a compensator whose template is `args`."""
    found = read_tool({"tool": "refund", "compensator": {"tool": "reverse_refund", "args": args}})
    assert isinstance(found, ToolDefinition), found
    return found


def rendered(args: Any, response: Any = None) -> Any:
    """The arguments of the compensation of `ACTION`, or the code and pointer of the refusal."""
    found = render_compensation(tool(args), ACTION, response)
    if isinstance(found, Refusal):
        return found.code, found.pointer
    assert isinstance(found, dict)
    assert found.keys() == {"tool", "args"}
    assert found["tool"] == "reverse_refund"
    return found["args"]


def test_references_are_filled_from_the_action_and_the_response() -> None:
    template = {
        "invoice": {"from": "action", "pointer": "/args/invoice"},
        "was": {"from": "action", "pointer": "/tool"},
        "refund_id": {"from": "response", "pointer": "/refund_id", "default": None},
        "why": "undone",
        "deep": [{"line": {"from": "action", "pointer": "/args/lines/0/id"}}, 5],
    }
    assert rendered(template, {"refund_id": "re_1"}) == {
        "invoice": 9,
        "was": "refund",
        "refund_id": "re_1",
        "why": "undone",
        "deep": [{"line": "l1"}, 5],
    }


@pytest.mark.parametrize("response", [None, {}, [], "text", {"refund_ids": 5}])
def test_where_the_response_has_nothing_the_default_stands(response: Any) -> None:
    template = {"id": {"from": "response", "pointer": "/refund_id", "default": {"none": True}}}
    assert rendered(template, response) == {"id": {"none": True}}


def test_null_in_a_response_is_something() -> None:
    template = {"id": {"from": "response", "pointer": "/id", "default": 5}}
    assert rendered(template, {"id": None}) == {"id": None}


def test_the_whole_response_can_be_taken() -> None:
    assert rendered({"all": {"from": "response", "pointer": ""}}, [1, 2]) == {"all": [1, 2]}


def test_without_a_default_what_is_missing_is_refused_and_nothing_is_made_up() -> None:
    template = {"a": [{"id": {"from": "response", "pointer": "/refund_id"}}]}
    assert rendered(template, {}) == (Code.INVALID_VALUE, "/args/a/0/id")
    assert rendered({"a": {"from": "action", "pointer": "/args/nothing"}}) == (Code.INVALID_VALUE, "/args/a")


def test_a_constant_that_only_looks_a_little_like_a_reference_stands_for_itself() -> None:
    template = {"from": "billing@example.test", "mail": {"from": "a@example.test", "to": ["b"]}, "pointer": "/x"}
    assert rendered(template) == template


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        ({"from": "action"}, ""),
        ({"from": "response", "point": "/id"}, ""),
        ({"from": "request", "pointer": "/id"}, ""),
        ({"from": ["action"], "pointer": "/args"}, ""),
        ({"from": None, "pointer": "/args"}, ""),
        ({"from": "response", "pointer": "id"}, ""),
        ({"from": "response", "pointer": 5}, ""),
        ({"from": "response", "pointer": None}, ""),
        ({"from": "action", "pointer": "/invoice"}, ""),
        ({"from": "response", "pointer": "/id", "else": 5}, ""),
        ({"x": [{"from": "action", "pointer": "no"}]}, "/x/0"),
    ],
)
def test_a_malformed_reference_is_found_when_the_tool_is_registered(reference: Any, place: str) -> None:
    found = read_tool({"tool": "refund", "compensator": {"tool": "undo", "args": {"a/b": reference}}})
    assert isinstance(found, Refusal)
    assert (found.code, found.pointer) == (Code.INVALID_TOOL, "/compensator/args/a~1b" + place)


def test_a_tool_without_a_compensator_has_nothing_to_render() -> None:
    found = read_tool({"tool": "refund"})
    assert isinstance(found, ToolDefinition)
    with pytest.raises(ValueError, match="no compensator"):
        render_compensation(found, ACTION, None)


@given(objects(), values(), values())
def test_whatever_is_registered_renders_without_raising(args: Any, action: Any, response: Any) -> None:
    template = {**args, "id": {"from": "response", "pointer": "/a/0"}}
    found = read_tool({"tool": "refund", "compensator": {"tool": "undo", "args": template}})
    if isinstance(found, ToolDefinition):
        assert isinstance(render_compensation(found, action, response), Refusal | dict)
