"""The structural difference: both sides can be read back, what is equal is together, and no input takes long."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.presenters.diff import ABSENT, Kind, Node, diff, differences, left_of, right_of, text_diff
from dashboard.presenters.side_by_side import Row, side_by_side
from fencing.protocol.masking import mask
from tests.work import at_most

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.text("ab é\u0301\u202e", max_size=4)
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=4),
    max_leaves=20,
)
WORDS = st.lists(st.sampled_from(["invoice", "9", "90", " ", "\n", "é", "e\u0301", ",", "refund"]), max_size=12).map(
    "".join
)
PROSE = "The customer wrote three times, and each time about another invoice. "


def written(value: Any) -> str:
    """A value as text, so that 1, 1.0 and true stay apart."""
    return json.dumps(value, sort_keys=True)


def everywhere(node: Node) -> list[Node]:
    return [node, *(inner for child in node.children for inner in everywhere(child))]


@given(VALUES, VALUES)
def test_both_sides_can_be_read_back(left: Any, right: Any) -> None:
    tree = diff(left, right)
    assert written(left_of(tree)) == written(left)
    assert written(right_of(tree)) == written(right)


@given(VALUES, VALUES)
def test_a_node_is_the_same_exactly_where_both_sides_are(left: Any, right: Any) -> None:
    for node in everywhere(diff(left, right)):
        one, other = left_of(node), right_of(node)
        is_same = one is not ABSENT and other is not ABSENT and written(one) == written(other)
        assert (node.kind is Kind.SAME) is is_same
        if node.kind is Kind.INSIDE:
            assert any(differences(node))


@given(VALUES)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert diff(value, json.loads(json.dumps(value))).kind is Kind.SAME


@given(st.lists(VALUES, max_size=6), st.integers(0, 6), VALUES)
def test_an_item_put_in_leaves_every_other_item_the_same(items: list[Any], place: int, news: Any) -> None:
    longer = [*items[:place], news, *items[place:]]
    assert [node.kind for node in differences(diff(items, longer))] == [Kind.RIGHT_ONLY]


@given(WORDS, WORDS)
def test_the_segments_of_two_texts_join_to_either(left: str, right: str) -> None:
    segments = text_diff(left, right)
    assert "".join(segment.left for segment in segments) == left
    assert "".join(segment.right for segment in segments) == right
    assert all(one.is_same != other.is_same for one, other in pairwise(segments))


def test_true_is_not_one_and_null_is_not_absent() -> None:
    tree = diff({"a": 1, "b": None}, {"a": True})
    assert [(node.name, node.kind) for node in differences(tree)] == [("a", Kind.CHANGED), ("b", Kind.LEFT_ONLY)]


def test_list_items_meet_by_what_names_them_not_by_their_place() -> None:
    left = [{"sku": f"A-{number}", "n": 1} for number in range(5)]
    right = [{"sku": "NEW", "n": 9}, *left[:3], {"sku": "A-4", "n": 2}]
    found = [(node.kind, node.name, node.left_index) for node in differences(diff(left, right))]
    assert found == [(Kind.RIGHT_ONLY, None, None), (Kind.LEFT_ONLY, None, 3), (Kind.CHANGED, "n", None)]


def test_items_without_a_name_meet_by_what_they_have_in_common() -> None:
    left = [{"to": "a", "text": "one", "copy": True}, {"to": "b", "text": "two", "copy": True}]
    right = [{"to": "c", "text": "zero", "copy": False}, {"to": "a", "text": "one!", "copy": True}, left[1]]
    found = [(node.kind, node.left_index, node.right_index) for node in diff(left, right).children]
    assert found == [(Kind.RIGHT_ONLY, None, 0), (Kind.INSIDE, 0, 1), (Kind.SAME, 1, 2)]


def test_an_item_that_stands_elsewhere_says_so() -> None:
    moved = [node for node in diff(["a", "b", "c"], ["c", "a", "b"]).children if node.is_moved]
    assert [(node.kind, node.left_index, node.right_index) for node in moved] == [
        (Kind.RIGHT_ONLY, None, 0),
        (Kind.LEFT_ONLY, 2, None),
    ]


def test_one_digit_stands_out_of_a_number_in_prose() -> None:
    changed = [
        (each.left, each.right)
        for each in text_diff("refund 4200 cents now", "refund 4250 cents now")
        if not each.is_same
    ]
    assert changed == [("0", "5")]


def test_a_combining_mark_is_never_cut_from_its_letter() -> None:
    changed = [(each.left, each.right) for each in text_diff("Andr\u00e9 pays", "Andre\u0301 pays") if not each.is_same]
    assert changed == [("Andr\u00e9", "Andre\u0301")]


# -- rows ------------------------------------------------------------------------------------------------------------


def action(**args: Any) -> dict[str, Any]:
    return {"tool": "refund", "args": args}


def names(rows: tuple[Row, ...], kind: str) -> list[str]:
    return ["".join(piece.text for piece in row.name) for row in rows if row.kind == kind]


def test_a_small_action_is_shown_whole() -> None:
    shown = side_by_side(action(invoice=9), action(invoice=9, cents=4200))
    assert (names(shown.rows, "same"), names(shown.rows, "differs"), shown.count) == (["", "invoice"], ["cents"], 1)


def test_what_is_equal_in_a_big_action_is_folded_under_its_names() -> None:
    same = {f"m{number:02}": number for number in range(30)}
    shown = side_by_side(action(**same, z=1), action(**same, z=2))
    fold = next(row for row in shown.rows if row.kind == "fold")
    assert fold.size == "30 equal members"
    assert ["".join(piece.text for piece in name) for name in fold.named] == ["m00", "m01", "m02", "m03", "m04"]
    assert names(shown.rows, "differs") == ["z"]


def test_advisory_members_are_told_apart() -> None:
    shown = side_by_side(action(body="one", to="a"), action(body="two", to="b"), advisory=["/body"])
    assert [(names((row,), "differs"), row.is_advisory) for row in shown.rows if row.differs] == [
        (["body"], True),
        (["to"], False),
    ]
    assert (shown.count, shown.advisory) == (2, 1)


@pytest.mark.parametrize(
    ("left", "right", "note"),
    [
        ("caf\u00e9", "cafe\u0301", "they look alike: U+00E9 against U+0065 U+0301"),
        ("invoice 9", "invoice  9", "they look alike: nothing against U+0020"),
        (9, "9", "a number against a text"),
        (1, True, "a number against true or false"),
        (None, {}, "null against an object"),
        ("refund", "hold", ""),
    ],
)  # fmt: skip
def test_a_note_says_what_the_eye_would_miss(left: Any, right: Any, note: str) -> None:
    (row,) = [row for row in side_by_side(action(x=left), action(x=right)).rows if row.differs]
    assert row.note == note


def test_sensitive_values_are_masked_and_still_seen_to_differ() -> None:
    left, right = action(card="4111", holder="A", name="x"), action(card="4242", holder="A", name="x")
    pointers = ["/card", "/holder", "/nowhere"]
    masked = mask(left, pointers), mask(right, pointers, left)
    assert masked[0]["args"] == {"card": "•••", "holder": "•••", "name": "x"}
    assert masked[1]["args"] == {"card": "••• (another value)", "holder": "•••", "name": "x"}
    assert left["args"]["card"] == "4111"


@settings(max_examples=50)
@given(
    st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=4),
    st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=4),
)
def test_rows_differ_exactly_where_actions_do(left: dict[str, Any], right: dict[str, Any]) -> None:
    shown = side_by_side(action() | {"args": left}, action() | {"args": right})
    assert bool(shown.count) is (written(left) != written(right))


# -- bounds ----------------------------------------------------------------------------------------------------------


ITEMS: list[dict[str, Any]] = [{"sku": f"A-{number}", "n": number, "tags": ["x", "y"]} for number in range(1300)]
FEWER = [{**each, "n": each["n"] + (each["n"] % 30 == 0)} for each in ITEMS if each["n"] % 97]


def numbered(count: int, more: int = 0) -> list[Any]:
    return [{"a": number + more, "b": {"c": number}} for number in range(count)]


BIG = {
    "300 members": (action(**{f"m{n}": n for n in range(300)}), action(**{f"m{n}": n + 1 for n in range(300)})),
    "60 KB of items": (action(items=ITEMS), action(items=FEWER)),
    "60 KB of prose": (action(text=PROSE * 870), action(text=(PROSE * 870).replace("three", "four", 9)[:-20])),
    "300 items alike": (action(x=numbered(300)), action(x=numbered(300, more=999))),
}  # fmt: skip


def words_of(*sides: Any) -> int:
    """How much there is to compare: the words and marks of both sides, written down."""
    return sum(len(re.findall(r"\w+|[^\w\s]", written(side))) for side in sides)


@pytest.mark.parametrize("name", BIG)
def test_a_big_action_is_compared_in_work_that_grows_with_its_size_alone(name: str) -> None:
    left, right = BIG[name]
    with at_most(30 * words_of(left, right)):
        diff(left, right)
    with at_most(60 * words_of(left, right)):
        side_by_side(left, right)


CHANCE = random.Random(7)  # noqa: S311 - a test's dice
DISORDER = [[CHANCE.randrange(3) for _ in range(6_000)] for _ in range(2)]
HOSTILE = {
    "all alike": ([1] * 6_000, [1] * 3_000 + [2] + [1] * 2_800 + [3]),
    "nothing shared": ([1] * 6_000, [2] * 6_000),
    "few values in disorder": (DISORDER[0], DISORDER[1]),
    "words in another order": (PROSE * 400, " ".join(reversed((PROSE * 400).split()))),
    "objects that resemble each other": (
        [{"n": number % 7, "t": "x"} for number in range(1000)],
        [{"n": number % 5, "t": "y"} for number in range(1000)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_was_made_to_take_long_does_not(name: str) -> None:
    left, right = HOSTILE[name]
    with at_most(120 * words_of(left, right)):
        side_by_side(action(x=left), action(x=right))


def test_more_rows_than_a_page_carries_are_cut_and_counted() -> None:
    shown = side_by_side(action(**{f"m{n}": n for n in range(1500)}), action(**{f"m{n}": n + 1 for n in range(1500)}))
    assert (shown.count, len(shown.rows), shown.is_cut) == (1500, 1000, True)
