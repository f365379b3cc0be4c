"""H3: in a bulk body each item is judged alone."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.strict_json import BODY_DEPTH, MAX_ITEMS, Parsed, parse, parse_items
from tests.protocol.json_values import objects, planted

GOOD = '{"run":"r","step":"s"}'


def judged(*items: str) -> list[object]:
    """The items of a bulk body, each as its value or as the code and pointer of its refusal."""
    found = parse_items(('{"items" : [' + " , ".join(items) + "]}").encode())
    assert isinstance(found, Parsed), found
    assert found.is_bulk
    return [(item.code, item.pointer) if isinstance(item, Refusal) else item for item in found.items]


def refused(raw: str) -> tuple[Code, str | None]:
    """The code and pointer with which a whole bulk body is refused."""
    found = parse_items(raw.encode())
    assert isinstance(found, Refusal), found
    return found.code, found.pointer


@pytest.mark.parametrize(
    ("bad", "code", "pointer"),
    [
        ('{"a":{"b":1,"b":2}}', Code.DUPLICATE_NAME, "/a/b"),
        ('{"a":[NaN]}', Code.NOT_FINITE, "/a/0"),
        ('{"a":9007199254740993}', Code.UNSAFE_NUMBER, "/a"),
        ('{"a":"\\ud800"}', Code.BAD_UNICODE, "/a"),
        ("Infinity", Code.NOT_FINITE, ""),
        ("[" * 20_000 + "]" * 20_000, Code.TOO_DEEP, "/0" * BODY_DEPTH),
        ('{"a":' + "[" * BODY_DEPTH + "]" * BODY_DEPTH + "}", Code.TOO_DEEP, "/a" + "/0" * (BODY_DEPTH - 1)),
    ],
)
def test_one_bad_item_does_not_hurt_the_others_and_its_pointer_starts_at_itself(
    bad: str, code: Code, pointer: str
) -> None:
    assert judged(GOOD, bad, GOOD) == [json.loads(GOOD), (code, pointer), json.loads(GOOD)]


def test_an_item_may_be_as_deep_as_a_body_of_its_own() -> None:
    deepest = "[" * BODY_DEPTH + "]" * BODY_DEPTH
    assert judged(deepest, GOOD) == [json.loads(deepest), json.loads(GOOD)]
    assert not isinstance(parse(deepest.encode()), Refusal)


def test_a_single_object_is_judged_as_the_only_item() -> None:
    assert parse_items(GOOD.encode()) == Parsed(is_bulk=False, items=(json.loads(GOOD),))
    found = parse_items(b'{"a":1,"b":{"a":NaN}}')
    assert isinstance(found, Parsed)
    assert not found.is_bulk
    (item,) = found.items
    assert isinstance(item, Refusal)
    assert (item.code, item.pointer) == (Code.NOT_FINITE, "/b/a")


def test_a_single_object_gains_no_depth_from_the_bulk_form() -> None:
    for levels, is_refused in [(BODY_DEPTH, False), (BODY_DEPTH + 1, True), (BODY_DEPTH + 9, True)]:
        found = parse_items(b'{"a":' * levels + b"1" + b"}" * levels)
        assert isinstance(found, Parsed)
        assert isinstance(found.items[0], Refusal) is is_refused


@pytest.mark.parametrize(
    ("raw", "code", "pointer"),
    [
        ('{"items":[{}', Code.BAD_JSON, None),
        ('{"items":[{},]}', Code.BAD_JSON, None),
        ('{"items":[NaN,}', Code.BAD_JSON, None),
        ('{"items":{}}', Code.INVALID_VALUE, "/items"),
        ('{"items":[]}', Code.INVALID_VALUE, "/items"),
        ('{"items":null}', Code.INVALID_VALUE, "/items"),
        ('{"items":NaN}', Code.NOT_FINITE, "/items"),
        ('{"items":[{}],"other":1}', Code.UNKNOWN_MEMBER, "/other"),
        ('{"items":[NaN],"other":1}', Code.UNKNOWN_MEMBER, "/other"),
        ('{"items":[{}],"items":[{}]}', Code.DUPLICATE_NAME, "/items"),
        ('{"items":[NaN],"a":[9007199254740993]}', Code.UNSAFE_NUMBER, "/a/0"),
        ('{"items":[' + ",".join(["{}"] * (MAX_ITEMS + 1)) + "]}", Code.TOO_MANY_ITEMS, "/items"),
    ],
)
def test_a_broken_envelope_is_refused_as_a_whole(raw: str, code: Code, pointer: str | None) -> None:
    assert refused(raw) == (code, pointer)


def test_a_thousand_items_are_taken() -> None:
    assert len(judged(*["{}"] * MAX_ITEMS)) == MAX_ITEMS
    assert judged(*["{}"] * (MAX_ITEMS - 1), "NaN")[-1] == (Code.NOT_FINITE, "")


FAULTS = st.sampled_from(["NaN", "1e16", '"\\udc00"', '{"a":1,"a":1}', "{}", "[]"])


@given(st.lists(FAULTS.flatmap(planted).map(lambda found: found.text), min_size=1, max_size=3))
def test_an_item_in_a_crowd_is_judged_as_if_it_came_alone(items: list[str]) -> None:
    found = parse_items(('{"items":[' + ",".join(items) + "]}").encode())
    assert isinstance(found, Parsed)
    assert list(found.items) == [parse(item.encode()) for item in items]


@given(objects().filter(lambda value: "items" not in value))
def test_a_body_without_items_is_read_as_parse_reads_it(value: dict[str, Any]) -> None:
    raw = json.dumps(value).encode()
    assert parse_items(raw) == Parsed(is_bulk=False, items=(parse(raw),))


@given(st.binary() | st.text('{}[]",:items0dNa\\u ').map(str.encode))
def test_arbitrary_bytes_never_make_it_raise(raw: bytes) -> None:
    assert isinstance(parse_items(raw), Parsed | Refusal)
