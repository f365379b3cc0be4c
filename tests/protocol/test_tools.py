"""T1 to T5: what a definition may say, and that all of it is checked when it is registered."""

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tools import (
    Compensator,
    Effect,
    Mode,
    NothingDone,
    Policy,
    ToolDefinition,
    read_tool,
    stored_tool,
)
from tests.protocol.json_values import objects, values

UNDO = {"tool": "undo", "args": {"id": {"from": "response", "pointer": "/id", "default": None}}}
PUSHED = {"mode": "push", "endpoint": "https://tools.example/refund"}
FULL: dict[str, Any] = {
    "tool": "refund",
    "effect": "side_effecting",
    "idempotent": True,
    "optimistic": True,
    "mode": "push",
    "advisory": ["/note"],
    "sensitive": ["/card/number"],
    "resources": ["/invoice"],
    "compensator": UNDO,
    "args_schema": {"type": "object"},
    "endpoint": "https://tools.example:8443/refund?v=1",
    "credential": "tools.example",
    "hints": {"readOnlyHint": True},
    "policy": {
        "required_paths": ["production", "replica", "third"],
        "trusted_path": "third",
        "deadline_s": 60,
        "grace_s": 0,
        "max_grant_ttl_s": 300,
        "grant_approvals": 2,
        "compensation_approvals": 2,
        "lease_s": 20,
        "max_deliveries": 3,
        "timeout_s": 10,
        "nothing_done": [429, {"status": 409, "pointer": "/code", "equals": "in_progress"}],
    },
}


def tool(**members: Any) -> ToolDefinition:
    """A tool called `refund` with these members."""
    found = read_tool({"tool": "refund", **members})
    assert isinstance(found, ToolDefinition), found
    return found


def refused(value: Any, **options: Any) -> tuple[Code, str | None]:
    """The code and pointer with which a definition is refused."""
    found = read_tool(value, **options)
    assert isinstance(found, Refusal), found
    return found.code, found.pointer


def test_what_a_definition_leaves_out_has_the_careful_default() -> None:
    found = tool()
    assert (found.tool, found.effect, found.mode) == ("refund", Effect.SIDE_EFFECTING, Mode.PULL)
    assert (found.idempotent, found.optimistic, found.is_read_only) == (False, False, False)
    assert (found.advisory, found.sensitive, found.resources) == ((), (), ())
    assert (found.compensator, found.args_schema, found.endpoint, found.credential) == (None, None, None, None)
    assert found.policy == Policy(
        required_paths=("production", "replica"),
        trusted_path="production",
        deadline_s=120,
        grace_s=5,
        max_grant_ttl_s=900,
        grant_approvals=1,
        compensation_approvals=1,
        lease_s=60,
        max_deliveries=5,
        timeout_s=30,
        nothing_done=(),
    )


def test_everything_that_a_definition_says_is_kept() -> None:
    found = tool(**FULL)
    assert found.compensator == Compensator(tool="undo", args=UNDO["args"])  # type: ignore[arg-type]
    assert (found.advisory, found.sensitive, found.resources) == (("/note",), ("/card/number",), ("/invoice",))
    assert found.policy.required_paths == ("production", "replica", "third")
    assert found.policy.nothing_done == (
        NothingDone(status=429),
        NothingDone(status=409, pointer="/code", equals="in_progress"),
    )
    assert found.as_json() == FULL
    assert tool(effect="read_only").is_read_only


def test_the_digest_covers_the_whole_definition_and_not_its_spelling() -> None:
    found = tool(**FULL)
    assert found.digest == digest_of(canonical_bytes(FULL))
    assert tool(**dict(reversed(FULL.items()))) == found
    assert len({found, tool(**FULL)}) == 1
    assert tool() == tool(policy={"deadline_s": 120}, idempotent=False, compensator=None)
    changed: list[dict[str, Any]] = [
        {"idempotent": False, "optimistic": False},
        {"hints": {}},
        {"credential": None},
        {"policy": {**FULL["policy"], "lease_s": 21}},
    ]
    assert all(tool(**{**FULL, **change}) != found for change in changed)
    assert found != FULL


def test_a_stored_definition_is_read_again_as_it_was_registered() -> None:
    found = read_tool({**FULL, "endpoint": "http://tools.local/x"}, plain_http_hosts={"tools.local"})
    assert isinstance(found, ToolDefinition)
    stored = canonical_bytes(found.as_json())
    assert stored_tool(stored) == found
    assert stored_tool(stored) is stored_tool(bytes(bytearray(stored)))
    for broken in (b"{}", b"5", b"no json", stored.replace(b"production", b"pro duction")):
        with pytest.raises(ValueError, match="broken"):
            stored_tool(broken)


def test_nobody_changes_a_definition_after_its_digest_was_made() -> None:
    value = copy.deepcopy(FULL)
    found = tool(**value)
    value["args_schema"]["type"] = "array"
    value["hints"]["x"] = value["compensator"]["args"]["id"] = 5
    assert digest_of(canonical_bytes(found.as_json())) == found.digest


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"tool": None}, Code.INVALID_IDENTIFIER, "/tool"),
        ({"tool": "re fund"}, Code.INVALID_IDENTIFIER, "/tool"),
        ({"colour": 1}, Code.UNKNOWN_MEMBER, "/colour"),
        ({"a/b": 1}, Code.UNKNOWN_MEMBER, "/a~1b"),
        ({"policy": {"quorum": 2}}, Code.UNKNOWN_MEMBER, "/policy/quorum"),
        ({"compensator": {**UNDO, "when": 1}}, Code.UNKNOWN_MEMBER, "/compensator/when"),
        ({"effect": "harmless"}, Code.INVALID_VALUE, "/effect"),
        ({"effect": None}, Code.INVALID_VALUE, "/effect"),
        ({"effect": ["read_only"]}, Code.INVALID_VALUE, "/effect"),
        ({"mode": "poll"}, Code.INVALID_VALUE, "/mode"),
        ({"idempotent": 1}, Code.INVALID_VALUE, "/idempotent"),
        ({"optimistic": "yes"}, Code.INVALID_VALUE, "/optimistic"),
        ({"hints": []}, Code.INVALID_VALUE, "/hints"),
        ({"args_schema": True}, Code.INVALID_VALUE, "/args_schema"),
        ({"compensator": "undo"}, Code.INVALID_VALUE, "/compensator"),
        ({"compensator": {"tool": "un do", "args": {}}}, Code.INVALID_IDENTIFIER, "/compensator/tool"),
        ({"compensator": {"tool": "undo", "args": []}}, Code.INVALID_VALUE, "/compensator/args"),
        ({"credential": "a b"}, Code.INVALID_IDENTIFIER, "/credential"),
        ({"policy": []}, Code.INVALID_VALUE, "/policy"),
        ({"policy": {"required_paths": []}}, Code.INVALID_VALUE, "/policy/required_paths"),
        ({"policy": {"required_paths": "production"}}, Code.INVALID_VALUE, "/policy/required_paths"),
        ({"policy": {"required_paths": ["production", "a b"]}}, Code.INVALID_IDENTIFIER, "/policy/required_paths/1"),
        ({"policy": {"required_paths": ["production"] * 2}}, Code.INVALID_VALUE, "/policy/required_paths/1"),
        ({"policy": {"required_paths": ["a", "b"]}}, Code.INVALID_VALUE, "/policy/trusted_path"),
        ({"policy": {"trusted_path": "third"}}, Code.INVALID_VALUE, "/policy/trusted_path"),
        ({"policy": {"trusted_path": None}}, Code.INVALID_IDENTIFIER, "/policy/trusted_path"),
    ],
)
def test_a_definition_is_refused_with_the_place_of_its_fault(change: Any, code: Code, pointer: str) -> None:
    assert refused({**FULL, **change}) == (code, pointer)


@pytest.mark.parametrize("value", [None, [], "refund", 5, True])
def test_what_is_no_object_is_no_definition(value: Any) -> None:
    assert refused(value) == (Code.INVALID_VALUE, "")


@pytest.mark.parametrize("name", ["advisory", "sensitive", "resources"])
@pytest.mark.parametrize(
    ("pointers", "place"),
    [("/a", ""), ([""], "/0"), (["/a", "b"], "/1"), (["/~"], "/0"), ([5], "/0"), (["/a", "/a"], "/1"), ({}, "")],
)
def test_pointers_are_checked_and_none_may_point_at_the_whole(name: str, pointers: Any, place: str) -> None:
    assert refused({"tool": "refund", name: pointers}) == (Code.INVALID_VALUE, f"/{name}{place}")


@pytest.mark.parametrize(
    ("name", "least", "greatest"),
    [
        ("deadline_s", 1, 86_400),
        ("grace_s", 0, 86_400),
        ("max_grant_ttl_s", 1, 86_400),
        ("grant_approvals", 1, 2),
        ("compensation_approvals", 1, 2),
        ("lease_s", 1, 86_400),
        ("max_deliveries", 1, 100),
        ("timeout_s", 1, 3_600),
    ],
)
def test_the_numbers_of_a_policy_have_their_ranges(name: str, least: int, greatest: int) -> None:
    for number in (least, greatest):
        assert getattr(tool(policy={name: number}).policy, name) == number
    for other in (least - 1, greatest + 1, 1.5, str(least), None, True):
        assert refused({"tool": "refund", "policy": {name: other}}) == (Code.INVALID_VALUE, f"/policy/{name}")


@pytest.mark.parametrize(
    "change",
    [
        {"optimistic": True},
        {"optimistic": True, "idempotent": True},
        {"optimistic": True, "compensator": UNDO},
    ],
)
def test_an_optimistic_tool_must_be_idempotent_and_have_a_compensator(change: Any) -> None:
    assert refused({"tool": "refund", **change}) == (Code.INVALID_TOOL, "/optimistic")
    assert tool(optimistic=True, idempotent=True, compensator=UNDO).optimistic


def test_a_push_tool_has_an_endpoint_and_a_pull_tool_neither_that_nor_a_credential() -> None:
    assert refused({"tool": "refund", "mode": "push"}) == (Code.INVALID_TOOL, "/endpoint")
    assert refused({"tool": "refund", **PUSHED, "mode": "pull"}) == (Code.INVALID_TOOL, "/endpoint")
    assert refused({"tool": "refund", "credential": "name"}) == (Code.INVALID_TOOL, "/credential")
    assert tool(**PUSHED).endpoint == PUSHED["endpoint"]


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://tools.example/",
        "ftp://tools.example/",
        "tools.example/refund",
        "https:///refund",
        "https://",
        "https://user@tools.example/",
        "https://user:secret@tools.example/",
        "https://tools.example/#part",
        "https://tools.example:99999/",
        "https://tools.example/a b",
        "https://tools.example/\n",
        "https://t\u00f6ols.example/",
        "https://[::1/",
        "",
        5,
    ],
)
def test_an_endpoint_is_an_https_address_and_nothing_that_hides_where_a_call_goes(endpoint: Any) -> None:
    assert refused({"tool": "refund", "mode": "push", "endpoint": endpoint}) == (Code.INVALID_VALUE, "/endpoint")


def test_plain_http_is_for_the_hosts_that_the_operator_names() -> None:
    local: Any = {"tool": "refund", "mode": "push", "endpoint": "http://127.0.0.1:9000/refund"}
    assert refused(local) == (Code.INVALID_VALUE, "/endpoint")
    assert refused(local, plain_http_hosts={"tools.example"}) == (Code.INVALID_VALUE, "/endpoint")
    assert isinstance(read_tool(local, plain_http_hosts={"127.0.0.1"}), ToolDefinition)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        (200, "/status"),
        (302, "/status"),
        (408, "/status"),
        (503, "/status"),
        (True, "/status"),
        ({"status": "429"}, "/status"),
        ({}, "/status"),
        ("429", ""),
        ({"status": 409, "pointer": "/code"}, ""),
        ({"status": 409, "equals": "x"}, ""),
        ({"status": 409, "pointer": "code", "equals": "x"}, "/pointer"),
        ({"status": 409, "pointer": "/code", "equals": 5}, "/equals"),
        ({"status": 409, "body": 5}, "/body"),
    ],
)
def test_only_a_refusing_answer_can_say_that_nothing_was_done(answer: Any, place: str) -> None:
    code, pointer = refused({"tool": "refund", "policy": {"nothing_done": [429, answer]}})
    assert code in {Code.INVALID_VALUE, Code.UNKNOWN_MEMBER}
    assert pointer == "/policy/nothing_done/1" + place


def test_an_answer_says_nothing_done_only_as_the_definition_names_it() -> None:
    policy = tool(**FULL).policy
    assert policy.says_nothing_done(429, None)
    assert policy.says_nothing_done(409, {"code": "in_progress"})
    others: Any = [(409, {"code": "exists"}), (409, None), (409, ["in_progress"]), (425, None), (503, None)]
    for status, body in others:
        assert not policy.says_nothing_done(status, body)
    assert not Policy().says_nothing_done(429, None)


def test_a_definition_that_is_too_large_or_too_deep_is_refused() -> None:
    assert refused({"tool": "refund", "hints": {"a": "x" * 256 * 1024}}) == (Code.TOO_LARGE, "")
    deep: Any = []
    for _ in range(70):
        deep = [deep]
    code, pointer = refused({"tool": "refund", "hints": {"a": deep}})
    assert code is Code.TOO_DEEP
    assert pointer == "/hints/a" + "/0" * 62
    assert refused({"tool": "refund", "hints": {"a": 2**53}}) == (Code.UNSAFE_NUMBER, "/hints/a")


@given(
    values()
    | st.fixed_dictionaries(
        {"tool": st.just("t")}, optional={name: values() | objects() for name in FULL if name != "tool"}
    )
    | st.fixed_dictionaries(
        {"tool": st.just("t"), "policy": st.fixed_dictionaries({}, optional=dict.fromkeys(FULL["policy"], values()))}
    )
    | st.tuples(st.sampled_from(sorted(FULL)), values()).map(lambda change: {**FULL, change[0]: change[1]})
)
def test_whatever_is_registered_is_a_definition_that_can_be_stored_or_a_refusal(value: Any) -> None:
    found = read_tool(value)
    if isinstance(found, Refusal):
        assert found.pointer is not None
    else:
        assert stored_tool(canonical_bytes(found.as_json())) == found
        assert found.is_weaker_than(found) == ()


@given(objects(), st.sampled_from([{}, {"effect": "side_effecting"}, {"effect": "read_only"}]))
def test_hints_never_set_the_effect(hints: dict[str, Any], said: dict[str, str]) -> None:
    assume("\\u0000" not in json.dumps(hints))
    found = tool(hints={**hints, "readOnlyHint": True, "effect": "read_only"}, **said)
    assert found.effect == said.get("effect", "side_effecting")


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"hints": {"a": ["", "x\0"]}}, "/hints/a/1"),
        ({"hints": {"a": {"b\0": 1}}}, "/hints/a"),
        ({"args_schema": {"const": "\0"}}, "/args_schema/const"),
    ],
)
def test_a_text_that_the_database_cannot_take_apart_is_refused_with_its_place(
    members: dict[str, Any], place: str
) -> None:
    assert refused({"tool": "refund", **members}) == (Code.INVALID_VALUE, place)


def test_a_backslash_before_its_number_is_no_such_text() -> None:
    assert tool(hints={"a": "\\u0000"}).hints == {"a": "\\u0000"}
