"""T3: schemas are checked when a tool is registered, and arguments against them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tools import ToolDefinition, read_tool
from tests.protocol.json_values import values

MAIL: dict[str, Any] = {
    "type": "object",
    "required": ["to", "subject"],
    "additionalProperties": False,
    "properties": {
        "to": {"type": "string"},
        "subject": {"type": "string", "maxLength": 20},
        "copies": {"type": "array", "items": {"$ref": "#/$defs/address"}},
    },
    "$defs": {"address": {"type": "string", "pattern": "@"}},
}


def tool(schema: Any) -> ToolDefinition:
    """A tool whose arguments follow this schema."""
    found = read_tool({"tool": "send_mail", "args_schema": schema})
    assert isinstance(found, ToolDefinition), found
    return found


def misfit(schema: Any, args: Any, at: str = "") -> tuple[Code, str | None]:
    """The code and pointer with which arguments are refused."""
    found = tool(schema).check_args(args, at=at)
    assert isinstance(found, Refusal)
    return found.code, found.pointer


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "objekt"}, "/type"),
        ({"properties": {"a": {"minimum": "0"}}}, "/properties/a/minimum"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"patternProperties": {"(": {}}}, "/patternProperties/("),
        ({"properties": {"a": {"pattern": "(?=x)x"}}}, "/properties/a/pattern"),
        ({"allOf": [{"patternProperties": {r"(a)\1": {}}}]}, r"/allOf/0/patternProperties/(a)\1"),
        ({"$defs": {"a~/b": {"pattern": "a" * 1001}}, "$ref": "#/$defs/a~0~1b"}, "/$defs/a~0~1b/pattern"),
        ({"properties": {"a": {"pattern": ".{900}"}}}, "/properties/a/pattern"),
        ({"properties": {"a": {"$ref": "#/x"}}, "x": {"pattern": r"\Z"}}, "/x/pattern"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "/properties/a/$schema"),
        ({"required": "to"}, "/required"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema"),
        ({"$schema": 5}, "/$schema"),
        ({"$ref": "https://example.org/schema.json"}, ""),
        ({"properties": {"a": {"items": {"$ref": "other.json#/a"}}}}, ""),
        ({"allOf": [{"$dynamicRef": "file:///etc/passwd"}]}, ""),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, ""),
        ({"$ref": "#/$defs/missing"}, ""),
        ({"properties": {"a": {"$id": "https://example.org/"}}}, ""),
        ({"properties": {"a": {"$ref": "#/x"}}, "x": {"type": "objekt"}}, ""),
        ({"properties": {"a": {"$ref": "#/x"}}, "x": 5}, ""),
        ({"properties": {"a": {"$ref": "#/x"}}, "x": {"items": {"$ref": "https://example.org/"}}}, ""),
        ({"$ref": "#"}, ""),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, ""),
    ],
)
def test_a_schema_that_could_not_be_applied_is_not_registered(schema: Any, place: str) -> None:
    found = read_tool({"tool": "send_mail", "args_schema": schema})
    assert isinstance(found, Refusal)
    assert found.code is Code.INVALID_TOOL
    assert found.pointer == "/args_schema" + place


@pytest.mark.parametrize(
    "schema",
    [
        {},
        MAIL,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"$id": "https://example.org/mail", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"properties": {"$ref": {"type": "string"}, "$id": {}}},
        {"properties": {"a": {"enum": [{"$ref": "https://example.org/"}], "default": {"$id": "x"}}}},
        {"$ref": "#tree", "$defs": {"t": {"$anchor": "tree", "properties": {"next": {"$ref": "#tree"}}}}},
    ],
)
def test_a_schema_that_stands_alone_is_registered(schema: Any) -> None:
    assert tool(schema).check_args({}) is None or schema is MAIL


def test_a_reference_to_the_outside_is_told_from_one_to_nothing() -> None:
    for reference, said in [
        ("https://example.org/#/a", "only inside the schema"),
        ("#/a", "points at nothing"),
        ("#/enum", "no schema"),
    ]:
        found = read_tool({"tool": "send_mail", "args_schema": {"$ref": reference, "enum": []}})
        assert isinstance(found, Refusal)
        assert said in found.detail


def test_arguments_that_fit_pass() -> None:
    assert tool(MAIL).check_args({"to": "a", "subject": "s", "copies": ["x@y"]}) is None


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ({"to": "a"}, ""),
        ({"to": "a", "subject": "s", "body": "b"}, ""),
        ({"to": 5, "subject": "s"}, "/to"),
        ({"to": "a", "subject": "s" * 21}, "/subject"),
        ({"to": "a", "subject": "s", "copies": ["x@y", "no"]}, "/copies/1"),
        ([], ""),
        (None, ""),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_their_place(args: Any, place: str) -> None:
    assert misfit(MAIL, args) == (Code.INVALID_ARGS, "/args" + place)
    assert misfit(MAIL, args, at="/action") == (Code.INVALID_ARGS, "/action/args" + place)


def test_a_tool_without_a_schema_takes_any_arguments() -> None:
    found = read_tool({"tool": "send_mail"})
    assert isinstance(found, ToolDefinition)
    assert found.check_args({"anything": [1]}) is None


def test_no_value_of_the_arguments_stands_in_a_refusal() -> None:
    secret = "hunter2-hunter2-hunter2"
    for args in [{"to": secret, "subject": secret}, {"to": [secret], "subject": secret}, {"to": secret}]:
        found = tool(MAIL).check_args(args)  # type: ignore[arg-type]
        assert isinstance(found, Refusal)
        assert secret not in found.detail


def test_the_refusal_says_in_one_short_sentence_what_the_schema_asks() -> None:
    found = tool(MAIL).check_args({})
    assert isinstance(found, Refusal)
    assert found.detail == "Missing by the tool's schema: to, subject"
    long = tool({"properties": {"a": {"enum": ["x" * 50, "y" * 500]}}}).check_args({"a": 1})
    assert isinstance(long, Refusal)
    assert len(long.detail) == 200


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"anyOf": [{"not": {"$ref": "#/properties/a"}}]}}},
    ],
)
def test_a_schema_that_fails_while_it_is_applied_refuses(schema: Any) -> None:
    assert misfit(schema, {"a": 1}) == (Code.INVALID_ARGS, "/args")


def test_nothing_is_fetched_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a schema reached for the network")

    monkeypatch.setattr("urllib.request.urlopen", fetch)
    monkeypatch.setattr("socket.socket.connect", fetch)
    read_tool({"tool": "send_mail", "args_schema": {"$ref": "https://example.org/schema.json"}})
    assert tool(MAIL).check_args({"to": "a", "subject": "s", "copies": ["x@y"]}) is None


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "items", "$ref", "enum", "required", "not"]), values()),
    values(),
)
def test_whatever_the_schema_and_the_arguments_the_answer_is_a_value(schema: Any, args: Any) -> None:
    found = read_tool({"tool": "send_mail", "args_schema": schema})
    if isinstance(found, ToolDefinition):
        assert isinstance(found.check_args(args), Refusal | None)
