"""C2, C4: one form for each value, and digests over it."""

import json
import random
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.canonical import MAX_SAFE, NoCanonicalForm, canonical_bytes, digest_of, is_digest
from fencing.protocol.strict_json import parse
from tests.protocol.json_values import objects, texts, values


@given(values())
def test_the_quick_way_and_the_library_never_differ(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


ascii_objects = st.dictionaries(st.text(st.characters(max_codepoint=127), max_size=6), st.floats() | st.text())


@given(ascii_objects | st.dictionaries(texts, st.integers()) | st.floats() | st.text() | st.integers())
def test_where_there_is_no_form_the_two_refuse_alike(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        expected = None
    numbers = value.values() if isinstance(value, dict) else [value]
    if any(isinstance(number, float) and abs(number) > MAX_SAFE for number in numbers):
        expected = None  # stricter than the library, C3
    if expected is None:
        with pytest.raises(NoCanonicalForm):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value) == expected


@given(values())
def test_the_form_of_what_was_read_from_it_is_the_same_form(value: Any) -> None:
    canonical = canonical_bytes(value)
    assert canonical_bytes(parse(canonical)) == canonical


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value with the members of every object in another order."""
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    return [shuffled(inner, chance) for inner in value] if isinstance(value, list) else value


@given(objects(), st.randoms(use_true_random=False))
def test_the_order_of_members_has_no_meaning(value: dict[str, Any], chance: random.Random) -> None:
    assert canonical_bytes(shuffled(value, chance)) == canonical_bytes(value)


@given(st.lists(st.integers(0, 9), min_size=2, unique=True))
def test_the_order_of_arrays_has_a_meaning(value: list[int]) -> None:
    assert canonical_bytes(value) != canonical_bytes(value[::-1])


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("433fffffffffffff", "9007199254740991"),
        ("3f1a36e2eb1c432d", "0.0001"),
    ],
)
def test_numbers_are_written_as_the_rfc_writes_them(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_bytes([number]) == f"[{text}]".encode()


def test_names_are_sorted_by_utf_16_unit() -> None:
    names = ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    written = canonical_bytes(dict.fromkeys(sorted(names), 0))
    assert list(json.loads(written)) == names


def test_texts_are_escaped_as_little_as_the_rfc_allows() -> None:
    assert canonical_bytes('\x00\x1f\b\t\n\f\r"\\/\x7f\u20ac\u2028') == (
        '"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\/\x7f\u20ac\u2028"'.encode()
    )


@pytest.mark.parametrize("same", [["1", "1.0", "1e0", "10e-1", "1.000"], ["0", "-0", "-0.0", "0e5"], ["0.5", "0.50"]])
def test_one_number_has_one_digest_however_it_is_written(same: list[str]) -> None:
    assert len({digest_of(canonical_bytes(parse(text.encode()))) for text in same}) == 1


@pytest.mark.parametrize("value", [1.0, -0.0, 0.0, 4200.0])
def test_a_float_of_ours_with_a_whole_value_is_that_number(value: float) -> None:
    assert canonical_bytes(value) == canonical_bytes(int(value))


def test_what_differs_has_different_digests() -> None:
    different = [
        "4200",
        '"4200"',
        "null",
        "{}",
        '{"a":null}',
        "[1,2]",
        "[2,1]",
        '"\\u00e9"',
        '"e\\u0301"',
        "true",
        '"true"',
    ]
    assert len({canonical_bytes(parse(text.encode())) for text in different}) == len(different)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**53,
        -(2**53),
        1e16,
        9007199254740992.0,
        [1e300],
        "\ud800",
        {"\udc00": 1},
        {"a": {1: 1}},
        {"a": {None: 1}},
        b"bytes",
        {1, 2},
        object(),
    ],
    ids=repr,
)
def test_what_is_no_json_value_has_no_form(value: object) -> None:
    with pytest.raises(NoCanonicalForm):
        canonical_bytes(value)


def test_a_value_that_is_nested_without_end_has_no_form() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NoCanonicalForm):
        canonical_bytes(deep)


def test_a_digest_is_whole_lowercase_and_names_its_kind() -> None:
    digest = digest_of(b"{}")
    assert digest == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert is_digest(digest)
    for other in [
        digest.upper(),
        digest[7:],
        digest[:-1],
        digest + "0",
        digest + "\n",
        "sha1:" + digest[7:],
        "",
        None,
        5,
    ]:
        assert not is_digest(other)
