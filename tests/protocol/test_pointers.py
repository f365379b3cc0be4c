"""RFC 6901: what a pointer finds, and what is left when it is taken out."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.pointers import ABSENT, is_pointer, parts_of, pointer_to, resolve, without
from tests.protocol.json_values import texts, values

DOCUMENT: Any = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7, "01": {"x": None}, "-": 2, "~1": 3}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/m~0n", 8),
        ("/~01", 3),
        ("/ ", 7),
        ("/01/x", None),
        ("/-", 2),
    ],
)
def test_a_pointer_finds_its_member(pointer: str, value: object) -> None:
    assert resolve(DOCUMENT, pointer) == value


@pytest.mark.parametrize(
    "pointer", ["/bar", "/foo/2", "/foo/-", "/foo/00", "/foo/-1", "/foo/x", "/foo/0/0", "/01/x/y", "/foo/" + "9" * 5000]
)
def test_a_pointer_to_nothing_finds_nothing(pointer: str) -> None:
    assert resolve(DOCUMENT, pointer) is ABSENT


@pytest.mark.parametrize("text", ["a", "a/b", "/~", "/~2", "/a~", "#/a", "/a~/b", None, 5, ["/a"]])
def test_what_is_no_pointer_is_none(text: object) -> None:
    assert not is_pointer(text)


def test_what_is_no_pointer_is_not_followed() -> None:
    with pytest.raises(ValueError, match="not a JSON Pointer"):
        resolve(DOCUMENT, "foo")


@given(st.lists(texts))
def test_a_pointer_leads_along_the_names_it_was_made_of(names: list[str]) -> None:
    pointer = pointer_to(names)
    assert is_pointer(pointer)
    assert parts_of(pointer) == tuple(names)


@pytest.mark.parametrize(
    ("pointers", "left"),
    [
        (["/a"], {"b": [1, {"c": 2, "d": 3}, 4]}),
        (["/b/0"], {"a": {"x": 1}, "b": [{"c": 2, "d": 3}, 4]}),
        (["/b/0", "/b/2"], {"a": {"x": 1}, "b": [{"c": 2, "d": 3}]}),
        (["/b/2", "/b/0"], {"a": {"x": 1}, "b": [{"c": 2, "d": 3}]}),
        (["/b/1/c", "/a/x"], {"a": {}, "b": [1, {"d": 3}, 4]}),
        (["/a", "/a/x"], {"b": [1, {"c": 2, "d": 3}, 4]}),
        (["/a/x", "/a"], {"b": [1, {"c": 2, "d": 3}, 4]}),
        (["/nothing", "/b/9", "/a/x/y", "/b/00", ""], {"a": {"x": 1}, "b": [1, {"c": 2, "d": 3}, 4]}),
    ],
)
def test_what_is_pointed_at_is_left_out_and_the_rest_is_kept(pointers: list[str], left: object) -> None:
    value: Any = {"a": {"x": 1}, "b": [1, {"c": 2, "d": 3}, 4]}
    before = copy.deepcopy(value)
    assert without(value, pointers) == left
    assert value == before


@given(
    values(),
    st.lists(st.lists(texts | st.integers(0, 3).map(str), min_size=1, max_size=3).map(pointer_to)),
    st.randoms(),
)
def test_the_order_of_pointers_has_no_meaning(value: Any, pointers: list[str], chance: Any) -> None:
    others = pointers[:]
    chance.shuffle(others)
    assert without(value, others) == without(value, pointers)
