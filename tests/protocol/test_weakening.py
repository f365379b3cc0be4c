"""T1: which changes of a tool wait for a second administrator, and how each is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from fencing.protocol.schema_words import MAX_PARTS, Way, parts_that_differ, schema_parts
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.protocol.weakening import changes, weakenings
from tests.protocol.tool_values import UNDO, changed, tools

OLD: dict[str, Any] = {
    "tool": "refund",
    "mode": "push",
    "endpoint": "https://tools.example/refund",
    "credential": "one",
    "idempotent": False,
    "compensator": UNDO,
    "advisory": ["/note"],
    "sensitive": ["/card"],
    "resources": ["/invoice"],
    "args_schema": {"type": "object"},
}
POLICY: dict[str, Any] = {"grant_approvals": 2, "compensation_approvals": 2, "nothing_done": [425]}


def tool(change: dict[str, Any], policy: dict[str, Any] | None = None) -> ToolDefinition:
    """The tool `refund` as it was, but for these changes."""
    found = read_tool({**OLD, **change, "policy": {**POLICY, **(policy or {})}})
    assert isinstance(found, ToolDefinition), found
    return found


@pytest.mark.parametrize(
    ("change", "policy", "sentence"),
    [
        ({"effect": "read_only"}, {}, "It becomes read-only, and skips the fence."),
        ({}, {"required_paths": ["production"]}, "No longer required: replica."),
        ({}, {"required_paths": ["production", "other"]}, "No longer required: replica."),
        (
            {},
            {"trusted_path": "replica"},
            "replica is trusted instead of production: it gives the payload, and acts alone.",
        ),
        ({}, {"grant_approvals": 1}, "Grants need fewer approvals: 1 instead of 2."),
        ({}, {"compensation_approvals": 1}, "Compensations need fewer approvals: 1 instead of 2."),
        ({}, {"max_grant_ttl_s": 1801}, "Grants may live longer: 1,801 instead of 900 seconds."),
        ({}, {"grace_s": 4}, "A missing path has less time to speak under a grant: 4 instead of 5 seconds."),
        ({"advisory": ["/note", "/cents"]}, {}, "More is advisory: /cents."),
        ({"advisory": ["/cents"]}, {}, "More is advisory: /cents."),
        ({"advisory": ["/note/text"]}, {}, "More is advisory: /note/text."),
        ({"sensitive": []}, {}, "No longer masked: /card."),
        ({"resources": ["/customer"]}, {}, "No longer found by: /invoice."),
        ({"args_schema": None}, {}, "The arguments are no longer checked by a schema."),
        ({"args_schema": {"type": "object", "required": ["id"]}}, {}, "The arguments are checked by another schema."),
        (
            {"endpoint": "https://evil.example/refund"},
            {},
            "It is called at https://evil.example/refund instead of https://tools.example/refund.",
        ),
        ({"credential": "two"}, {}, "It is called with the credential two instead of one."),
        ({"credential": None}, {}, "It is called with the credential nothing instead of one."),
        ({"compensator": {**UNDO, "tool": "other"}}, {}, "Its effects are undone by other instead of undo."),
        ({"compensator": {**UNDO, "args": {}}}, {}, "Its effects are undone by undo with other arguments."),
        ({"compensator": None}, {}, "Its effects are undone by a person's hand instead of undo."),
        ({"idempotent": True}, {}, "Its calls are repeated by machine."),
        ({}, {"nothing_done": [425, 429]}, "More answers count as nothing done: 429."),
        ({}, {"lease_s": 59}, "A call that still acts is given up sooner: 59 instead of 60 seconds."),
        ({}, {"timeout_s": 29}, "A push call that still acts is given up sooner: 29 instead of 30 seconds."),
        ({}, {"max_deliveries": 6}, "More tries by machine before a person is asked: 6 instead of 5."),
    ],
)  # fmt: skip
def test_a_change_that_weakens_the_fence_is_told_in_one_sentence(
    change: dict[str, Any], policy: dict[str, Any], sentence: str
) -> None:
    assert tool(change, policy).is_weaker_than(tool({})) == (sentence,)


def test_delivering_from_undecided_branches_weakens_the_fence() -> None:
    idempotent = {"idempotent": True}
    weaker = tool({**idempotent, "optimistic": True}).is_weaker_than(tool(idempotent))
    assert weaker == ("It is delivered from undecided branches.",)


def test_a_first_compensator_weakens_the_fence() -> None:
    weaker = tool({}).is_weaker_than(tool({"compensator": None}))
    assert weaker == ("Its effects are undone by a call of undo instead of a person's hand.",)


@pytest.mark.parametrize(
    ("change", "policy"),
    [
        ({}, {}),
        ({"advisory": []}, {}),
        ({"sensitive": ["/card", "/iban"]}, {}),
        ({"resources": ["/customer", "/invoice"], "hints": {"readOnlyHint": True}}, {}),
        ({}, {"required_paths": ["replica", "production", "third"]}),
        ({}, {"required_paths": ["replica", "production"]}),
        ({}, {"max_grant_ttl_s": 60, "grace_s": 30}),
        ({}, {"deadline_s": 5}),
        ({}, {"deadline_s": 86_400}),
        ({}, {"lease_s": 90, "timeout_s": 90, "max_deliveries": 1, "nothing_done": []}),
    ],
)
def test_other_changes_do_not(change: dict[str, Any], policy: dict[str, Any]) -> None:
    assert tool(change, policy).is_weaker_than(tool({})) == ()


def test_what_was_weakened_can_be_strengthened_again_at_once() -> None:
    weak = {"effect": "read_only", "advisory": ["/note", "/cents"]}
    assert tool({}).is_weaker_than(tool(weak, {"grant_approvals": 1, "required_paths": ["production"]})) == ()


def test_every_weakening_of_one_change_is_told() -> None:
    weaker = tool({"effect": "read_only", "credential": None}, {"grant_approvals": 1}).is_weaker_than(tool({}))
    assert weaker == (
        "It becomes read-only, and skips the fence.",
        "It is called with the credential nothing instead of one.",
        "Grants need fewer approvals: 1 instead of 2.",
    )


def test_becoming_pull_is_another_endpoint() -> None:
    weaker = tool({"mode": "pull", "endpoint": None, "credential": None}).is_weaker_than(tool({}))
    assert len(weaker) == 3


def test_the_first_schema_only_strengthens() -> None:
    assert tool({}).is_weaker_than(tool({"args_schema": None})) == ()


def test_a_schema_that_differs_only_as_json_is_another_one() -> None:
    one, other = ({"args_schema": {"const": value}} for value in (True, 1))
    assert tool(one).is_weaker_than(tool(other)) == ("The arguments are checked by another schema.",)


def test_what_weakens_is_told_before_what_does_not() -> None:
    found = changes(tool({}), tool({"advisory": []}, {"deadline_s": 9, "grant_approvals": 1}))
    assert [(change.pointer, change.weakens) for change in found] == [
        ("/policy/grant_approvals", True),
        ("/advisory", False),
        ("/policy/deadline_s", False),
    ]


def test_two_tools_are_not_versions_of_each_other() -> None:
    with pytest.raises(ValueError, match="two tools"):
        weakenings(tool({}), tool({"tool": "other"}))


# -- whatever is not harmless weakens ----------------------------------------------------------------------------------

Harmless = Callable[[Any, Any], bool]


def only_more(old: list[Any], new: list[Any]) -> bool:
    return all(each in new for each in old)


def only_fewer(old: list[Any], new: list[Any]) -> bool:
    return all(each in old for each in new)


def greater(old: int, new: int) -> bool:
    return new > old


def smaller(old: int, new: int) -> bool:
    return new < old


def first(old: Any, _new: Any) -> bool:
    return old is None


def careful(_old: Any, new: Any) -> bool:
    return new in (False, "side_effecting")


def always(_old: Any, _new: Any) -> bool:
    return True


def never(_old: Any, _new: Any) -> bool:
    return False


HARMLESS: dict[str, Harmless] = {
    "effect": careful,
    "idempotent": careful,
    "optimistic": careful,
    "advisory": only_fewer,
    "sensitive": only_more,
    "resources": only_more,
    "args_schema": first,
    "hints": always,
    "required_paths": only_more,
    "deadline_s": always,
    "grace_s": greater,
    "max_grant_ttl_s": smaller,
    "grant_approvals": greater,
    "compensation_approvals": greater,
    "lease_s": greater,
    "timeout_s": greater,
    "max_deliveries": smaller,
    "nothing_done": only_fewer,
}
"""Written by hand and not out of the code: a member that stands nowhere here weakens, however it changes."""


def members_of(definition: ToolDefinition) -> dict[str, Any]:
    written: dict[str, Any] = definition.as_json()
    return {**{name: value for name, value in written.items() if name != "policy"}, **written["policy"]}


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def judge(older: ToolDefinition, newer: ToolDefinition) -> None:
    """Compare what is told of a change with what the list above says, member by member."""
    old, new = members_of(older), members_of(newer)
    different = {name for name in new if text(old[name]) != text(new[name])}
    doubtful = {name for name in different if not HARMLESS.get(name, never)(old[name], new[name])}
    told = changes(older, newer)
    assert {change.pointer.rpartition("/")[2] for change in told} == different
    assert {change.pointer.rpartition("/")[2] for change in told if change.weakens} == doubtful
    assert bool(weakenings(older, newer)) == bool(doubtful)


@given(tools(), tools())
def test_whatever_is_not_listed_as_harmless_weakens(older: ToolDefinition, newer: ToolDefinition) -> None:
    judge(older, newer)


def test_each_change_of_one_member_is_judged_as_listed() -> None:
    for pair in changed():
        judge(*pair)


def test_a_member_that_nothing_is_known_of_weakens(monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = tool({}), tool({"hints": {"a": 1}})
    written = ToolDefinition.as_json
    monkeypatch.setattr(
        ToolDefinition, "as_json", lambda self: {**written(self), "retries": 1 if self is newer else None}
    )
    assert weakenings(older, newer) == ("`/retries` is 1 instead of nothing.",)


# -- schemas in words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "pointer", "says", "way"),
    [
        ({"maximum": 5}, {"maximum": 9}, "/maximum", "9 instead of 5", Way.LOOSER),
        ({"minimum": 5}, {"minimum": 9}, "/minimum", "9 instead of 5", Way.STRICTER),
        ({"maxLength": 5}, {}, "/maxLength", "5 is gone", Way.LOOSER),
        ({}, {"pattern": "^a$"}, "/pattern", '"^a$" is new', Way.STRICTER),
        ({"pattern": "a"}, {"pattern": "b"}, "/pattern", '"b" instead of "a"', Way.OTHER),
        ({"required": ["a", "b"]}, {"required": ["b"]}, "/required", 'no longer ["a"]', Way.LOOSER),
        ({"required": ["a"]}, {"required": ["a", "b"]}, "/required", 'also ["b"]', Way.STRICTER),
        ({"required": ["a"]}, {}, "/required", '["a"] is gone', Way.LOOSER),
        ({"enum": [1]}, {"enum": [1, True]}, "/enum", "also [true]", Way.LOOSER),
        ({"type": "integer"}, {"type": "number"}, "/type", '["number"] instead of ["integer"]', Way.OTHER),
        ({"type": "integer"}, {"type": ["integer", "null"]}, "/type", 'also ["null"]', Way.LOOSER),
        ({"additionalProperties": False}, {}, "/additionalProperties", "false is gone", Way.LOOSER),
        (
            {"additionalProperties": False},
            {"additionalProperties": True},
            "/additionalProperties",
            "true instead of false",
            Way.LOOSER,
        ),
        (
            {"additionalProperties": {"type": "string"}},
            {"additionalProperties": False},
            "/additionalProperties",
            'false instead of {"type": "string"}',
            Way.STRICTER,
        ),
        ({"properties": {}}, {"properties": {"a": {}}}, "/properties/a", "{} is new", Way.OTHER),
        (
            {"properties": {"a": {"items": {"maximum": 1}}}},
            {"properties": {"a": {"items": {"maximum": 2}}}},
            "/properties/a/items/maximum",
            "2 instead of 1",
            Way.LOOSER,
        ),
        ({"not": {"maximum": 1}}, {"not": {"maximum": 2}}, "/not/maximum", "2 instead of 1", Way.OTHER),
        ({"anyOf": [{"maximum": 1}]}, {"anyOf": [{"maximum": 2}]}, "/anyOf/0/maximum", "2 instead of 1", Way.OTHER),
        ({"allOf": [{"maximum": 1}]}, {"allOf": [{"maximum": 2}]}, "/allOf/0/maximum", "2 instead of 1", Way.LOOSER),
        ({"$defs": {"a": {"maximum": 1}}}, {"$defs": {"a": {}}}, "/$defs/a/maximum", "1 is gone", Way.OTHER),
        ({"uniqueItems": True}, {"uniqueItems": False}, "/uniqueItems", "false instead of true", Way.LOOSER),
        ({"description": "a"}, {}, "/description", '"a" is gone', Way.OTHER),
        ({"minContains": 0}, {}, "/minContains", "0 is gone", Way.OTHER),
        ({"const": True}, {"const": 1}, "/const", "1 instead of true", Way.OTHER),
    ],
)
def test_a_place_of_a_schema_that_differs_is_told_with_its_way(
    old: Any, new: Any, pointer: str, says: str, way: Way
) -> None:
    (part,) = schema_parts(old, new)
    assert (part.pointer, part.says, part.way) == (pointer, says, way)


def test_two_equal_schemas_have_no_parts_and_a_plain_truth_is_one() -> None:
    assert schema_parts({"type": "object"}, {"type": "object"}) == ()
    (part,) = schema_parts({"items": {}}, {"items": False})
    assert part.way is Way.STRICTER


def test_values_that_differ_are_told_by_place() -> None:
    old: Any = {"a": 1, "b": [1, {"c": 2}], "gone": None, "list": [1]}
    new: Any = {"a": True, "b": [1, {"c": 3}], "new": "x", "list": [1, 2]}
    assert {part.pointer: part.says for part in parts_that_differ(old, new)} == {
        "/a": "true instead of 1",
        "/b/1/c": "3 instead of 2",
        "/new": '"x" is new',
        "/gone": "null is gone",
        "/list": "[1, 2] instead of [1]",
    }


def test_of_long_values_the_first_difference_is_shown() -> None:
    one, other = ("x" * 300 + end for end in ("good", "evil"))
    (part,) = parts_that_differ(one, other)
    assert part.says == f'…{"x" * 20}evil" instead of …{"x" * 20}good"'
    (part,) = parts_that_differ("y" * 300, "z" * 300)
    assert part.says.startswith('"zzzz')


def test_an_address_is_told_whole() -> None:
    long = "https://tools.example/" + "a" * 500
    (sentence,) = tool({"endpoint": f"{long}/evil"}).is_weaker_than(tool({"endpoint": f"{long}/good"}))
    assert sentence == f"It is called at {long}/evil instead of {long}/good."


def test_differences_without_end_are_cut_and_the_cut_is_told() -> None:
    parts = parts_that_differ({}, {str(number): number for number in range(1000)})
    assert len(parts) == MAX_PARTS
    assert parts[-1].says == "There are more differences than fit here."
