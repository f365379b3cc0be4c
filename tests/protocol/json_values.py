"""Strategies for JSON values, and for texts in which one known place holds a known fault."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from fencing.protocol.canonical import MAX_SAFE
from fencing.protocol.pointers import pointer_to

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
"""Any characters but lone surrogates."""

whole_numbers = st.integers(-MAX_SAFE, MAX_SAFE)
fractions = st.floats(-MAX_SAFE, MAX_SAFE, allow_nan=False)
scalars = st.none() | st.booleans() | whole_numbers | fractions | texts


def values(leaves: st.SearchStrategy[Any] = scalars, size: int = 12) -> st.SearchStrategy[Any]:
    """Any JSON value that the protocol takes, a few levels deep, with about `size` leaves at most."""
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=size
    )


neighbours = values(size=3)


def objects() -> st.SearchStrategy[dict[str, Any]]:
    """Any JSON object that the protocol takes, such as the arguments of a tool."""
    return st.dictionaries(texts, values(), max_size=5)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A JSON text with one fault in it, and the pointer to where that fault stands."""

    text: str
    pointer: str


@st.composite
def planted(draw: st.DrawFn, fault: str) -> Planted:
    """Put the text `fault` somewhere into sound JSON, with sound neighbours on each level around it."""
    text = fault
    way: list[str | int] = []
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            name = draw(texts)
            others: dict[str, Any] = draw(st.dictionaries(texts, neighbours, max_size=2))
            others.pop(name, None)
            members = [f"{json.dumps(other)}:{json.dumps(inner)}" for other, inner in others.items()]
            members.insert(draw(st.integers(0, len(members))), f"{json.dumps(name)} : {text}")
            text = "{" + ",\n".join(members) + "}"
            way.append(name)
        else:
            elements = [json.dumps(inner) for inner in draw(st.lists(neighbours, max_size=2))]
            index = draw(st.integers(0, len(elements)))
            elements.insert(index, text)
            text = "[ " + " ,".join(elements) + "]"
            way.append(index)
    return Planted(text=text, pointer=pointer_to(reversed(way)))
