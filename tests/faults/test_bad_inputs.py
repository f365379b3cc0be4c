"""Every input that C3 refuses, over HTTP, in every call that takes a body, alone and among good items of a bulk.

Allowed end: the code of the fault, the pointer of the culprit, a row in the side log with the hash of the body (C3, N7,
S1), and nothing else stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from fencing.models import SideLogRow
from fencing.protocol.canonical import MAX_SAFE
from tests.faults.desk import Desk, who
from tests.faults.plausible import Operation
from tests.faults.state import changed, state
from tests.faults.targets import named
from tests.stories import REFUND

pytestmark = pytest.mark.usefixtures("db")

MAX_CANONICAL: Final = 256 * 1024
# The place of a fault: beside the members of the body, and deep inside one of them.
DEEP: Final = '{"tool": "refund", "args": {"list": [0, %s]}}'


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A value that C3 refuses, as it is written."""

    code: str
    text: str
    within: str = ""


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


FAULTS: Final = {
    "a name twice": Fault(code="duplicate_name", text='{"a": 1, "b": 2, "a": 1}', within="/a"),
    "a name twice, once escaped": Fault(code="duplicate_name", text='{"a": 1, "\\u0061": 2}', within="/a"),
    "not a number": Fault(code="not_finite", text="NaN"),
    "infinite": Fault(code="not_finite", text="Infinity"),
    "infinite below": Fault(code="not_finite", text="-Infinity"),
    "beyond a double": Fault(code="not_finite", text="1e999"),
    "beyond a double below": Fault(code="not_finite", text="-1E+400"),
    "one beyond": Fault(code="unsafe_number", text="9007199254740992"),
    "one beyond below": Fault(code="unsafe_number", text="-9007199254740992"),
    "beyond with a point": Fault(code="unsafe_number", text="9007199254740993.0"),
    "beyond with an exponent": Fault(code="unsafe_number", text="1e16"),
    "the greatest double": Fault(code="unsafe_number", text="1.7976931348623157e308"),
    "digits that a double drops": Fault(code="unsafe_number", text="0.1000000000000000055511151231257827"),
    "smaller than a double": Fault(code="unsafe_number", text="1e-400"),
    "thousands of digits": Fault(code="unsafe_number", text="9" * 5000),
    "a lone surrogate": Fault(code="bad_unicode", text='"\\ud800"'),
    "a lone low surrogate": Fault(code="bad_unicode", text='{"k": "a\\udc00b"}', within="/k"),
    "surrogates the wrong way round": Fault(code="bad_unicode", text='"\\udf78\\ud83c"'),
    "a surrogate in a name": Fault(code="bad_unicode", text='{"\\ud800": 1}'),  # its pointer cannot be written
    "too deep": Fault(code="too_deep", text=nested(65)),
    "absurdly deep": Fault(code="too_deep", text=nested(5000)),
}
NO_JSON: Final = {
    "nothing": b"",
    "blank": b" \n",
    "cut short": b'{"run": "r"',
    "two values": b"{} {}",
    "a comma too many": b'{"run": "r",}',
    "single quotes": b"{'run': 'r'}",
    "a leading zero": b'{"epoch": 07}',
    "a comment": b'{"run": "r"} // no',
    "bytes that are no text": b'{"run": "\xff"}',
    "a surrogate in bytes": b'{"run": "\xed\xa0\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"run": "r"}',
    "another encoding": '{"run": "r"}'.encode("utf-16"),
    "a control character": b'{"run": "\x01"}',
}
WRONG: Final[Mapping[str, Any]] = {
    "string": 5,
    "integer": "7",
    "number": "7",
    "boolean": "yes",
    "array": {},
    "object": [],
}


@pytest.fixture
def writes(calls: list[Operation]) -> list[Operation]:
    return [operation for operation in calls if operation.schema is not None]


@pytest.fixture
def known(targets: list[dict[str, Any]]) -> dict[str, Any]:
    return {**targets[3], **named(targets[2]), "action": REFUND}


def send(desk: Desk, operation: Operation, known: Mapping[str, Any], raw: bytes) -> httpx.Response:
    return desk.post_raw(who(operation.name), operation.address(known), raw)


def good(operation: Operation, known: Mapping[str, Any]) -> str:
    """A body that would be taken, as text."""
    return json.dumps(next(operation.bodies(known)))


def written(body: str, name: str, text: str) -> str:
    """A body with one member more, as it is written."""
    return f'{body[:-1]}{", " if len(body) > 2 else ""}"{name}": {text}}}'


def row_of(raw: bytes) -> SideLogRow:
    """The newest row of the side log that tells of a body."""
    return SideLogRow.objects.filter(body_sha256=hashlib.sha256(raw).hexdigest(), body_length=len(raw)).latest(
        "recorded_at"
    )


def check(answer: Mapping[str, Any], fault: Fault, at: str) -> None:
    assert (answer["code"], answer["status"]) == (fault.code, 422), answer
    assert answer["pointer"].startswith(f"{at}{fault.within}"), answer


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_c3_refuses_is_refused_in_every_call_before_anything_is_stored(
    fault: Fault, desk: Desk, writes: list[Operation], known: dict[str, Any]
) -> None:
    before, told = state(), SideLogRow.objects.count()
    sent = 0
    for operation in writes:
        body = good(operation, known)
        for name, text, at in (("zz", fault.text, "/zz"), ("action", DEEP % fault.text, "/action/args/list/1")):
            bare = json.dumps({key: each for key, each in json.loads(body).items() if key != name})
            raw = written(bare, name, text).encode()
            answer = send(desk, operation, known, raw)
            check(answer.json(), fault, at)
            assert row_of(raw).reason == fault.code
            sent += 1
            if operation.has_bulk:
                items = f'{{"items": [{raw.decode()}, {raw.decode()}]}}'.encode()
                results = send(desk, operation, known, items).json()["results"]
                for result in results:
                    check(result, fault, at)
                sent += 2
    assert SideLogRow.objects.count() - told == sent > len(writes)
    assert changed(before) == set()


@pytest.mark.parametrize("raw", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_told_as_such_in_every_call(
    raw: bytes, desk: Desk, writes: list[Operation], known: dict[str, Any]
) -> None:
    before = state()
    for operation in writes:
        answer = send(desk, operation, known, raw)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_json"), operation.name
        assert not raw or row_of(raw).reason == "bad_json"
    assert changed(before) == set()


def wrong_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Values that a member's schema does not take."""
    options = schema.get("anyOf", [schema])
    kinds = {option.get("type") for option in options}
    if None in kinds or not kinds - {"null"}:
        return
    yield from (value for kind, value in WRONG.items() if kind in kinds and len(kinds - {"null"}) == 1)
    for option in options:
        # What lies beyond the numbers that a double keeps is refused for that, before its range is looked at (C3).
        if option.get("minimum", -MAX_SAFE) > -MAX_SAFE:
            yield option["minimum"] - 1
        if option.get("maximum", MAX_SAFE) < MAX_SAFE:
            yield MAX_SAFE
        elif "maximum" in option and option.get("minimum", 0) >= 0:
            yield -1
        if option.get("type") == "integer":
            yield 1.5
        if "enum" in option:
            yield "none of these"


def test_a_member_of_the_wrong_type_or_range_is_refused_by_its_pointer(
    desk: Desk, writes: list[Operation], known: dict[str, Any]
) -> None:
    before, sent = state(), 0
    for operation in writes:
        assert operation.schema is not None
        required = next(operation.bodies(known))
        for name, schema in operation.schema.get("properties", {}).items():
            for value in wrong_values(schema):
                raw = json.dumps({**required, name: value}).encode()
                answer = send(desk, operation, known, raw)
                assert (answer.status_code, answer.json()["code"]) == (422, "invalid_value"), (name, value, answer.text)
                assert answer.json()["pointer"] == f"/{name}", answer.text
                assert row_of(raw).reason == "invalid_value"
                sent += 1
        raw = json.dumps({**required, "nobody_knows": 1}).encode()
        assert send(desk, operation, known, raw).json()["code"] == "unknown_member"
        assert row_of(raw).reason == "unknown_member"
    assert sent > 2 * len(writes)
    assert changed(before) == set()


@pytest.mark.parametrize(
    ("code", "status", "make"),
    [
        ("too_large", 413, lambda: {"tool": "refund", "args": {"memo": "x" * MAX_CANONICAL}}),
        ("too_deep", 422, lambda: {"tool": "refund", "args": {"memo": json.loads(nested(63))}}),
        ("invalid_action", 422, lambda: {"tool": "refund"}),
        ("invalid_action", 422, lambda: {"tool": "refund", "args": [], "more": 1}),
        ("invalid_action", 422, lambda: "refund"),
    ],
)
def test_an_action_that_is_none_is_refused_wherever_one_is_taken(
    code: str, status: int, make: Callable[[], Any], desk: Desk, writes: list[Operation], known: dict[str, Any]
) -> None:
    before, takes = state(), [each for each in writes if "action" in (each.schema or {}).get("properties", {})]
    assert len(takes) >= 3
    for operation in takes:
        required = {**next(operation.bodies(known)), "action": make()}
        rows = SideLogRow.objects.count()
        answer = send(desk, operation, known, json.dumps(required).encode())
        assert (answer.status_code, answer.json()["code"]) == (status, code), (operation.name, answer.text[:300])
        assert answer.json()["pointer"].startswith("/action"), answer.text[:300]
        assert SideLogRow.objects.count() == rows + 1
    assert changed(before) == set()


def test_in_a_bulk_a_good_item_beside_every_fault_is_taken(desk: Desk) -> None:
    place = desk.open()
    items = [f'{{"run": "{place["run"]}", "step": "bad", "epoch": 7, "zz": {fault.text}}}' for fault in FAULTS.values()]
    items.insert(7, f'{{"run": "{place["run"]}", "step": "good", "epoch": 7}}')
    raw = f'{{"items": [{", ".join(items)}]}}'.encode()
    results = desk.post_raw("planner", "/steps", raw).json()["results"]
    codes = [fault.code for fault in FAULTS.values()]
    assert [each.get("code") for each in results] == [*codes[:7], None, *codes[7:]]
    assert results[7]["status"] == 201
