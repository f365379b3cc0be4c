"""Faults that people reported of canonical forms and digests (kind c), played through the pure core.

The digests stand in the reports: SHA-256 over the RFC 8785 text of the bare JSON.
"""

import hashlib
from typing import Any

import pytest

from fencing.protocol.actions import Action, read_action
from fencing.protocol.canonical import NoCanonicalForm, canonical_bytes
from fencing.protocol.differences import Difference, difference_class
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pointers import resolve
from fencing.protocol.strict_json import parse, parse_items
from fencing.protocol.tools import read_tool
from tests.work import at_most


def canonical(raw: str) -> bytes:
    """The canonical form of a body that must be taken."""
    value = parse(raw.encode())
    assert not isinstance(value, Refusal), value
    return canonical_bytes(value)


def digest(raw: str) -> str:
    """The bare digest of a body that must be taken."""
    return hashlib.sha256(canonical(raw)).hexdigest()


def refused(raw: str) -> tuple[Code, str | None]:
    """The code and pointer with which a body must be refused."""
    found = parse(raw.encode())
    assert isinstance(found, Refusal), found
    return found.code, found.pointer


def action(args: Any) -> Action:
    """An action with these arguments."""
    found = read_action({"tool": "refund", "args": args})
    assert isinstance(found, Action), found
    return found


def test_c01_member_order_and_spacing_do_not_change_the_digest() -> None:
    spelled = [
        '{"payment_intent":"pi_T1","amount":1500,"currency":"eur"}',
        '{ "currency" : "eur",\n "amount":1500, "payment_intent":"pi_T1"}',
    ]
    assert {canonical(raw) for raw in spelled} == {b'{"amount":1500,"currency":"eur","payment_intent":"pi_T1"}'}
    assert digest(spelled[1]) == "fe8fd2e48102bb4cd6ddf24badfb3952a9e9a5ff6b90c30bfd3143c8bb258802"


def test_c02_one_and_one_point_zero_are_one_digest_and_the_string_is_another() -> None:
    numbers = {digest(raw) for raw in ['{"amount":1}', '{"amount":1.0}', '{"amount":1e0}']}
    (one,) = numbers
    assert one.startswith("c2b11e65")
    assert one.endswith("582e9e")
    assert digest('{"amount":"1"}') != one


def test_c03_names_are_sorted_by_utf_16_unit_and_not_by_code_point() -> None:
    raw = '{"\\uff20":1,"\\ud83d\\ude00":1}'
    assert digest(raw) == "425159f5c1f0575fbcbf9d05a8f60cde3d040eae5166aa2136657564048651b6"


def test_c04_an_integer_that_a_double_cannot_tell_from_its_neighbour_is_refused() -> None:
    assert refused('{"id":9007199254740993}') == (Code.UNSAFE_NUMBER, "/id")
    assert refused('{"id":9007199254740992}') == (Code.UNSAFE_NUMBER, "/id")
    assert canonical('{"id":"9007199254740993"}') == b'{"id":"9007199254740993"}'


def test_c05_a_name_that_stands_twice_is_refused_at_every_depth_before_any_digest() -> None:
    raw = '{"tool":"stripe.refunds.create","args":{"amount":1,"amount":999999}}'
    assert refused(raw) == (Code.DUPLICATE_NAME, "/args/amount")
    assert refused('{"a":[{"b":{"c":1,"c":1}}]}') == (Code.DUPLICATE_NAME, "/a/0/b/c")
    found = parse_items(f'{{"items":[{raw},{{"tool":"refund","args":{{}}}}]}}'.encode())
    assert not isinstance(found, Refusal)
    assert isinstance(found.items[0], Refusal)
    assert found.items[1] == {"tool": "refund", "args": {}}


def test_c06_an_escaped_emoji_is_one_character_with_the_digest_of_the_plain_one() -> None:
    escaped, plain = '{"text":"\\ud83c\\udf78 done"}', '{"text":"\U0001f378 done"}'
    assert digest(escaped) == digest(plain)
    assert digest(plain).startswith("6ae1ee66")
    assert digest(plain).endswith("931fc7")
    assert parse(escaped.encode()) == {"text": "\U0001f378 done"}


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_c07_what_is_not_finite_is_refused_in_and_never_written_out(literal: str) -> None:
    assert refused('{"score":' + literal + "}") == (Code.NOT_FINITE, "/score")
    with pytest.raises(NoCanonicalForm):
        canonical_bytes({"score": float(literal)})


def test_c08_plus_and_minus_zero_are_one_digest() -> None:
    zeros = {digest(raw) for raw in ['{"delta":-0.0}', '{"delta":-0}', '{"delta":0}']}
    (zero,) = zeros
    assert zero.startswith("a999afcb")
    assert zero.endswith("3055eb0")


def test_c09_a_string_for_a_number_null_for_absent_and_array_order_are_different_digests() -> None:
    raws = ['{"id":5}', '{"id":"5"}', '{"id":5,"note":null}', '{"ids":[1,2]}', '{"ids":[2,1]}']
    assert len({digest(raw) for raw in raws}) == len(raws)
    bare, text, null, ordered, reordered = (action(parse(raw.encode())) for raw in raws)
    # For the fence they diverge; a person is told how small the difference is.
    assert difference_class(bare, text) is Difference.NUMBER_OR_STRING
    assert difference_class(bare, null) is Difference.NULL_OR_ABSENT
    assert difference_class(ordered, reordered) is Difference.ARRAY_ORDER


def test_c09_the_schema_of_a_tool_checks_arguments_and_fills_nothing_in() -> None:
    tool = read_tool({"tool": "refund", "args_schema": {"properties": {"note": {"default": "none"}}}})
    assert not isinstance(tool, Refusal)
    args: Any = {"id": 5}
    assert tool.check_args(args) is None
    assert action(args).canonical == b'{"args":{"id":5},"tool":"refund"}'


# C10 (times of audit rows) and C11 (times compared as text) do not apply here: no time is read, kept or compared in the
# canonical form. They are played where rows are sealed and where deadlines are decided.


def test_c12_a_null_character_is_kept_losslessly() -> None:
    value = parse(b'{"note":"a\\u0000b"}')
    assert value == {"note": "a\x00b"}
    assert canonical_bytes(value) == b'{"note":"a\\u0000b"}'
    assert parse(canonical_bytes(value)) == value


def test_c13_a_number_of_thousands_of_digits_is_refused_at_once() -> None:
    with at_most(1_000):
        assert refused('{"amount":' + "9" * 5000 + "}") == (Code.UNSAFE_NUMBER, "/amount")
        assert refused('{"amount":-' + "9" * 5000 + "}") == (Code.UNSAFE_NUMBER, "/amount")
    assert parse(b'{"amount":1}') == {"amount": 1}


@pytest.mark.parametrize(
    ("raw", "step"),
    [("[" * 20_000 + "]" * 20_000, "/0"), ('{"a":' * 2_000 + "1" + "}" * 2_000, "/a")],
    ids=["arrays", "objects"],
)
def test_c14_a_body_of_absurd_depth_is_refused_and_never_an_error(raw: str, step: str) -> None:
    with at_most(40 * len(raw)):
        assert refused(raw) == (Code.TOO_DEEP, step * 65)
        found = parse_items(('{"items":[{},' + raw + "]}").encode())
    assert not isinstance(found, Refusal)
    assert isinstance(found.items[1], Refusal)
    assert found.items == ({}, found.items[1])


def test_c14_digest_difference_and_pointers_bear_what_the_parser_lets_through() -> None:
    deep: Any = {"a": parse(b"[" * 62 + b"]" * 62)}
    deeper: Any = {"a": parse(b"[" * 61 + b"1" + b"]" * 61)}
    assert difference_class(action(deep), action(deeper)) is Difference.OTHER_ARGS
    assert resolve(deep, "/a" + "/0" * 61) == []
