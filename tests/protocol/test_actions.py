"""C1 to C7: what an action is, and the two digests by which it is known."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.actions import Action, fence_digest, read_action, resources_of
from fencing.protocol.canonical import MAX_CANONICAL, MAX_DEPTH
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.strict_json import parse
from fencing.protocol.tools import ToolDefinition, read_tool
from tests.protocol.json_values import objects, values


def tool(**members: Any) -> ToolDefinition:
    """A registered tool called `send_mail`, unless told."""
    definition = read_tool({"tool": "send_mail", **members})
    assert isinstance(definition, ToolDefinition), definition
    return definition


def action(args: Any, *definitions: ToolDefinition) -> Action:
    """An action of `send_mail` with these arguments."""
    found = read_action({"tool": "send_mail", "args": args}, {each.tool: each for each in definitions}.get)
    assert isinstance(found, Action), found
    return found


def test_an_action_is_known_by_the_digest_of_its_canonical_bytes() -> None:
    found = read_action({"tool": "refund", "args": {"invoice": 9, "cents": 4200}})
    assert isinstance(found, Action)
    assert found.canonical == b'{"args":{"cents":4200,"invoice":9},"tool":"refund"}'
    assert found.payload_digest == "sha256:" + hashlib.sha256(found.canonical).hexdigest()
    assert found.fence_digest == found.payload_digest
    assert (found.tool, found.args) == ("refund", {"invoice": 9, "cents": 4200})


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (None, ""),
        ([], ""),
        ("refund", ""),
        ({}, ""),
        ({"tool": "refund"}, ""),
        ({"args": {}}, ""),
        ({"tool": "refund", "args": {}, "more": 1}, ""),
        ({"tool": "", "args": {}}, "/tool"),
        ({"tool": "re fund", "args": {}}, "/tool"),
        ({"tool": 5, "args": {}}, "/tool"),
        ({"tool": None, "args": {}}, "/tool"),
        ({"tool": "refund", "args": []}, "/args"),
        ({"tool": "refund", "args": None}, "/args"),
    ],
)
def test_anything_but_a_tool_and_its_arguments_is_no_action(value: Any, pointer: str) -> None:
    for at in ("", "/action"):
        found = read_action(value, at=at)
        assert isinstance(found, Refusal)
        assert (found.code, found.pointer) == (Code.INVALID_ACTION, at + pointer)


def test_an_action_may_be_64_deep_and_no_deeper() -> None:
    def nested(levels: int) -> Any:
        return parse(b'{"tool":"refund","args":{"a":' + b"[" * levels + b"]" * levels + b"}}")

    assert isinstance(read_action(nested(MAX_DEPTH - 2)), Action)
    found = read_action(nested(MAX_DEPTH - 1), at="/action")
    assert isinstance(found, Refusal)
    assert (found.code, found.pointer) == (Code.TOO_DEEP, "/action/args/a" + "/0" * (MAX_DEPTH - 2))


def test_a_canonical_action_may_have_256_kib_and_no_more() -> None:
    room = MAX_CANONICAL - len(b'{"args":{"a":""},"tool":"refund"}')
    found = read_action({"tool": "refund", "args": {"a": "x" * room}})
    assert isinstance(found, Action)
    assert len(found.canonical) == MAX_CANONICAL
    refusal = read_action({"tool": "refund", "args": {"a": "x" * (room + 1)}}, at="/action")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.pointer) == (Code.TOO_LARGE, "/action")


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        (float("nan"), Code.NOT_FINITE),
        (2**53, Code.UNSAFE_NUMBER),
        (1e16, Code.UNSAFE_NUMBER),
        ("\ud83c", Code.BAD_UNICODE),
    ],
)
def test_a_value_of_our_own_without_canonical_form_is_refused_with_its_place(inner: Any, code: Code) -> None:
    found = read_action({"tool": "refund", "args": {"list": [0, inner]}}, at="/action")
    assert isinstance(found, Refusal)
    assert (found.code, found.pointer) == (code, "/action/args/list/1")


def test_a_value_of_our_own_without_end_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert isinstance(read_action({"tool": "refund", "args": endless}), Refusal)


@given(values() | st.fixed_dictionaries({"tool": st.just("t") | values(), "args": objects() | values()}))
def test_whatever_is_read_gives_an_action_or_a_refusal(value: Any) -> None:
    found = read_action(value)
    if isinstance(found, Action):
        assert parse(found.canonical) == value
    else:
        assert found.code is Code.INVALID_ACTION


@given(objects())
def test_the_spelling_of_an_action_has_no_meaning(args: dict[str, Any]) -> None:
    spelled = json.dumps({"args": dict(reversed(args.items())), "tool": "send_mail"}, indent=3)
    value = parse(spelled.encode())
    assert not isinstance(value, Refusal)
    found = read_action(value)
    assert isinstance(found, Action)
    assert found.canonical == action(args).canonical


def test_advisory_prose_is_outside_the_fence_digest_and_inside_the_payload_digest() -> None:
    mail = tool(advisory=["/body"])
    one, other = action({"to": "a", "body": "one"}, mail), action({"to": "a", "body": "another"}, mail)
    assert one.fence_digest == other.fence_digest
    assert one.payload_digest != other.payload_digest
    assert action({"to": "b", "body": "one"}, mail).fence_digest != one.fence_digest
    assert action({"to": "a"}, mail).fence_digest == one.fence_digest


def test_nothing_is_advisory_unless_the_tool_says_so() -> None:
    for definitions in ([], [tool()], [tool(advisory=["/subject"])]):
        one, other = action({"body": "one"}, *definitions), action({"body": "another"}, *definitions)
        assert one.fence_digest == one.payload_digest != other.fence_digest


def test_the_fence_digest_is_the_digest_of_the_action_without_its_advisory_members() -> None:
    mail = tool(advisory=["/body", "/parts/1/prose"])
    found = action({"to": "a", "body": "x", "parts": [{"prose": 1}, {"prose": 2, "kept": 3}]}, mail)
    assert found.fence_digest == action({"to": "a", "parts": [{"prose": 1}, {"kept": 3}]}).payload_digest
    assert found.fence_digest == fence_digest("send_mail", found.args, mail.advisory)


@given(objects(), objects())
def test_two_actions_agree_exactly_when_they_agree_without_the_prose(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    mail = tool(advisory=["/prose"])
    one, other = action({**left, "prose": 1}, mail), action({**right, "prose": [2]}, mail)
    is_same = action({**left, "prose": 0}).canonical == action({**right, "prose": 0}).canonical
    assert (one.fence_digest == other.fence_digest) is is_same


def test_resources_are_texts_in_the_order_of_the_pointers_each_once() -> None:
    args: dict[str, Any] = {
        "invoice": 9,
        "same": "9",
        "iban": "DE1",
        "ratio": 1e-7,
        "to": ["a", {"b": None}],
        "no": None,
    }
    pointers = ["/iban", "/invoice", "/missing", "/same", "/ratio", "/to", "/to/1/b", "/to/7"]
    assert resources_of(args, pointers) == ("DE1", "9", "1e-7", '["a",{"b":null}]', "null")
    assert resources_of(args, []) == ()
