"""C3: what is read exactly, what is refused, and the place that the refusal names."""

import json
import math
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencing.protocol import strict_json
from fencing.protocol.canonical import MAX_DEPTH, MAX_SAFE, canonical_bytes
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.json_faults import depth_of
from fencing.protocol.strict_json import BODY_DEPTH, explain, parse
from tests.protocol.json_values import Planted, planted, values
from tests.work import at_most


def refused(raw: str | bytes) -> tuple[Code, str | None]:
    """The code and pointer with which a body is refused."""
    found = parse(raw if isinstance(raw, bytes) else raw.encode())
    assert isinstance(found, Refusal), found
    return found.code, found.pointer


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b'{"a":1',
        b'{"a":1}}',
        b"{} {}",
        b"[1,]",
        b'{"a":1,}',
        b"{'a':1}",
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"0x10",
        b"-",
        b"truth",
        b'"\\x"',
        b'"\\u12g4"',
        b'"\x01"',
        b'"open',
        b"[}",
        b"// no\n1",
        "\u00a01".encode(),
        b"\x0b1",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        '{"a":1}'.encode("utf-16"),
        b"nan",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_json_is_bad_json_and_has_no_place(raw: bytes) -> None:
    assert refused(raw) == (Code.BAD_JSON, None)


@pytest.mark.parametrize("raw", ['{"a":1,"a":2', '{"a":NaN', "[9007199254740993", '["\\ud800"', '{"a":1,"a":2} x'])
def test_a_fault_inside_a_body_that_is_no_json_is_not_told_before_that(raw: str) -> None:
    assert refused(raw) == (Code.BAD_JSON, None)


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        ('{"a":1,"a":1}', "/a"),
        ('{"x":[{},{"a":1,"b":2,"a":{}}]}', "/x/1/a"),
        ('{"a":1,"\\u0061":2}', "/a"),
        ('{"":1,"":2}', "/"),
        ('{"b~/":1,"b~\\/":2}', "/b~0~1"),
        ('{"action":{"tool":"refund","args":{"amount":1,"amount":999999}}}', "/action/args/amount"),
    ],
)
def test_a_name_that_stands_twice_is_refused_at_the_member(raw: str, pointer: str) -> None:
    assert refused(raw) == (Code.DUPLICATE_NAME, pointer)


def test_the_same_name_in_two_objects_is_no_duplicate() -> None:
    assert parse(b'{"a":{"a":1},"b":[{"a":1},{"a":2}]}') == {"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400 + ".0"])
def test_a_number_that_no_double_holds_is_not_finite(literal: str) -> None:
    assert refused('{"score":[' + literal + "]}") == (Code.NOT_FINITE, "/score/0")


@pytest.mark.parametrize(
    "literal",
    [
        "9007199254740992",
        "9007199254740993",
        "-9007199254740992",
        "9007199254740993.0",
        "9007199254740992.0",
        "9007199254740992e0",
        "1e16",
        "1E+16",
        "10000000000000000.00",
        "1e300",
        "0.1000000000000000055511151231257827",
        "1.00000000000000001",
        "1e-400",
        "-4.9e-324",
        "0." + "3" * 40,
        "1e-" + "9" * 30,
        "9" * 5000,
        "1." + "9" * 5000,
    ],
)
def test_a_number_that_a_double_does_not_print_back_is_unsafe(literal: str) -> None:
    assert refused('{"a":[0,' + literal + "]}") == (Code.UNSAFE_NUMBER, "/a/1")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("9007199254740991", MAX_SAFE),
        ("-9007199254740991", -MAX_SAFE),
        ("9007199254740991.0", MAX_SAFE),
        ("9.007199254740991e15", MAX_SAFE),
        ("0.10", 0.1),
        ("1e0", 1),
        ("1.0", 1),
        ("10e-1", 1),
        ("4200.00", 4200),
        ("-0", 0),
        ("-0.0", 0),
        ("0e" + "9" * 30, 0),
        ("0.000e-" + "9" * 30, 0),
        ("0." + "0" * 5000 + "1e5001", 1),
        ("1e" + "0" * 500 + "5", 100_000),
        ("5e-324", 5e-324),
        ("1E-7", 1e-7),
        ("123456789.125", 123456789.125),
    ],
)
def test_a_number_that_a_double_holds_is_read_and_a_whole_one_as_an_integer(literal: str, value: float) -> None:
    found = parse(literal.encode())
    assert found == value
    assert type(found) is type(value)
    assert math.copysign(1, found) == math.copysign(1, value)


digits = st.text("0123456789", min_size=1, max_size=25)
literals = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    digits.map(lambda text: text.lstrip("0") or "0"),
    st.just("") | digits.map(".{}".format) | digits.map(lambda text: f".{text}{'0' * 30}"),
    st.just("") | st.integers(-400, 400).map("e{}".format) | st.integers(0, 30).map("E+{}".format),
)


@given(literals)
@example("9007199254740991")
@example("4503599627370497.5")
def test_a_number_is_taken_exactly_when_the_rule_says_so(literal: str) -> None:
    exact, double = Fraction(literal), float(literal)
    found = parse(literal.encode())
    if math.isinf(double) and not literal.lstrip("-").isdigit():
        assert isinstance(found, Refusal)
        assert found.code is Code.NOT_FINITE
    elif math.isinf(double) or exact != Fraction(repr(double)) or (exact.denominator == 1 and abs(exact) > MAX_SAFE):
        assert isinstance(found, Refusal)
        assert found.code is Code.UNSAFE_NUMBER
    else:
        assert found == double


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        ('{"x":["ok","\\ud83c"]}', "/x/1"),
        ('"\\udf78\\ud83c"', ""),
        ('{"a":{"\\uD83C":1}}', "/a"),
        ('["\\ud83c\\u0041"]', "/0"),
    ],
)
def test_half_a_surrogate_pair_is_refused_and_in_a_name_at_its_object(raw: str, pointer: str) -> None:
    assert refused(raw) == (Code.BAD_UNICODE, pointer)


def test_an_escaped_pair_is_one_character() -> None:
    assert parse(b'["\\ud83c\\udf78","\\\\ud83c","\\u0000"]') == ["\U0001f378", "\\ud83c", "\x00"]


@pytest.mark.parametrize(("opening", "closing", "step"), [("[", "]", "/0"), ('{"a":', "}", "/a")])
@pytest.mark.parametrize("inner", ["0", "[]"])
def test_a_body_may_be_as_deep_as_a_member_of_64_levels_needs(
    opening: str, closing: str, step: str, inner: str
) -> None:
    levels = BODY_DEPTH - (inner == "[]")
    assert not isinstance(parse((opening * levels + inner + closing * levels).encode()), Refusal)
    deeper = levels + 1
    pointer = step * (BODY_DEPTH)
    assert refused(opening * deeper + inner + closing * deeper) == (Code.TOO_DEEP, pointer)


def test_brackets_inside_strings_are_no_depth() -> None:
    for text in ["[" * 500, '\\"' + "[{" * 500, "\\\\", "a\\\\" + "[" * 200]:
        raw = '{"a":"' + text + '","b":["' + text + '",{}]' + "}"
        assert not isinstance(parse(raw.encode()), Refusal)


def true_depth(value: Any) -> int:
    """How deep the containers of a value stand in each other."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(true_depth, inner), default=0)


@given(values(st.text('[]{}"\\,a', max_size=6)))
@example({"a\\": ["\\", {"b": '\\"'}]})
def test_depth_is_counted_whatever_strings_hold(value: Any) -> None:
    many = [value, *([] for _ in range(MAX_DEPTH))]  # enough brackets that they are counted one by one
    assert depth_of(json.dumps(many).encode()) == true_depth(many)


@pytest.mark.parametrize(
    "raw",
    [
        "[" * 20_000 + "]" * 20_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
        '{"a":' * 2_000 + "1" + "}" * 2_000,
        '["' + '\\"' * 50_000 + '",' + "[" * 20_000 + "]" * 20_000 + "]",
        '{"amount":' + "9" * 5_000 + "}",
        '{"amount":' + "9" * 1_000_000 + "}",
        '{"amount":0.' + "1" * 1_000_000 + "}",
        "[" * 100_000,
        "[" * 50_000 + '"' + "]" * 50_000,
        '"' + "\\" * 1_000_001,
        "[" + '"' * 300_000,
        "[" + "0," * 50_000 + "NaN]",
    ],
    ids=range(12),
)
def test_a_hostile_body_is_refused_in_work_that_grows_with_its_length_alone(raw: str) -> None:
    begun = time.process_time()
    with at_most(40 * len(raw) + 1_000):
        assert isinstance(parse(raw.encode()), Refusal)
        assert isinstance(strict_json.parse_items(raw.encode()), Refusal | strict_json.Parsed)
    # What C does is not counted: an expression that backtracks takes hours here, on any machine.
    assert time.process_time() - begun < 60


def test_of_several_faults_the_first_in_the_text_is_told() -> None:
    assert refused('{"a":[1,NaN],"b":9007199254740993,"b":1}') == (Code.NOT_FINITE, "/a/1")
    assert refused('{"b":9007199254740993,"a":NaN,"b":1}') == (Code.UNSAFE_NUMBER, "/b")
    assert refused('{"b":1,"b":NaN}') == (Code.DUPLICATE_NAME, "/b")


@given(st.data(), st.sampled_from(["NaN", "1e999"]))
def test_a_planted_number_is_found_where_it_was_planted(data: st.DataObject, fault: str) -> None:
    found: Planted = data.draw(planted(fault))
    assert refused(found.text) == (Code.NOT_FINITE, found.pointer)


@given(planted('{"twice":[1],"other":{},"twice":0}'))
def test_a_planted_duplicate_is_found_where_it_was_planted(found: Planted) -> None:
    assert refused(found.text) == (Code.DUPLICATE_NAME, found.pointer + "/twice")


@given(planted('"half \\udbff"'))
def test_a_planted_half_character_is_found_where_it_was_planted(found: Planted) -> None:
    assert refused(found.text) == (Code.BAD_UNICODE, found.pointer)


@given(values(), st.booleans(), st.sampled_from([None, 1]))
def test_what_is_written_is_read_however_it_was_spelled(value: Any, is_ascii: bool, indent: int | None) -> None:
    assert parse(json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()) == value


@given(st.binary() | st.text('{}[]",:\\/bu0d8c1.e-+NaInfity \n').map(str.encode))
@example(b"\\" * 3 + b'"[[[')
def test_arbitrary_bytes_are_read_with_a_canonical_form_or_refused(raw: bytes) -> None:
    value = parse(raw)
    if isinstance(value, Refusal):
        assert value.code in {Code.BAD_JSON, Code.DUPLICATE_NAME, Code.NOT_FINITE, Code.UNSAFE_NUMBER, Code.BAD_UNICODE}
    else:
        assert parse(canonical_bytes(value)) == value == json.loads(raw)


@pytest.mark.parametrize(
    ("value", "code", "pointer"),
    [
        ({"a": [1, math.nan]}, Code.NOT_FINITE, "/a/1"),
        ({"a": 2**53}, Code.UNSAFE_NUMBER, "/a"),
        ({"a": 1e16}, Code.UNSAFE_NUMBER, "/a"),
        ({"a": "\ud800"}, Code.BAD_UNICODE, "/a"),
        ({"a": {1: 2}}, Code.INVALID_VALUE, ""),
        ({"a": {1, 2}}, Code.INVALID_VALUE, ""),
    ],
)
def test_a_value_of_our_own_that_is_no_json_is_explained_too(value: object, code: Code, pointer: str) -> None:
    found = explain(value)
    assert (found.code, found.pointer) == (code, pointer)


def test_a_value_of_our_own_without_end_is_explained_too() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert explain(endless).code in {Code.INVALID_VALUE, Code.TOO_DEEP}
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert explain(deep).code is Code.TOO_DEEP
