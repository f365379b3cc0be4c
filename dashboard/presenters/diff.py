"""The structural difference of two JSON values, as a tree from which both sides can be read back.

Members meet by name, list items by content, prose word by word. Nothing here knows of pages.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final

from dashboard.presenters.alignment import Sides, align

Json = Any
Print = str | tuple[type, str]

_ENCODER: Final = json.JSONEncoder(sort_keys=True)
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]", re.DOTALL)
_ALIKE_KIND: Final = 0.15
_COMPARED_WORDS: Final = 200


class Absent(Enum):
    """What stands on the side that has nothing; null is something."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Kind(StrEnum):
    """How the two sides of a node stand to each other. `INSIDE`: alike in kind, and something inside differs."""

    SAME = "same"
    CHANGED = "changed"
    LEFT_ONLY = "left_only"
    RIGHT_ONLY = "right_only"
    INSIDE = "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A member, an item or the whole, on both sides.

    `name` is a member's; `left_index` and `right_index` are an item's places. `is_moved` tells of an item that stands
    elsewhere on the other side, in full.
    """

    kind: Kind
    left: Json | Absent = ABSENT
    right: Json | Absent = ABSENT
    name: str | None = None
    left_index: int | None = None
    right_index: int | None = None
    is_moved: bool = False
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a text: the same on both sides, or what stands instead of each other (one may be empty)."""

    left: str
    right: str

    @property
    def is_same(self) -> bool:
        """Tell whether both sides agree here."""
        return self.left == self.right


def diff(left: Json, right: Json) -> Node:
    """Compare two parsed JSON values. 1 and true differ; the order of members has no meaning."""
    return _Comparison().node(left, right)


def left_of(node: Node) -> Json | Absent:
    """Read the left side back from the tree."""
    return _side(node, lambda each: each.left, Kind.RIGHT_ONLY)


def right_of(node: Node) -> Json | Absent:
    """Read the right side back from the tree."""
    return _side(node, lambda each: each.right, Kind.LEFT_ONLY)


def differences(node: Node) -> Iterator[Node]:
    """Give the outermost nodes that differ, in order."""
    if node.kind is Kind.INSIDE:
        for child in node.children:
            yield from differences(child)
    elif node.kind is not Kind.SAME:
        yield node


def _side(node: Node, of: Callable[[Node], Json | Absent], other: Kind) -> Json | Absent:
    if node.kind is other:
        return ABSENT
    if node.kind is not Kind.INSIDE:
        return of(node)
    found = [(child, value) for child in node.children if (value := _side(child, of, other)) is not ABSENT]
    if isinstance(of(node), Mapping):
        return {child.name: value for child, value in found}
    return [value for _, value in found]


class _Comparison:
    """One comparison, with the prints of what it has seen: equal prints mean equal values."""

    def __init__(self) -> None:
        # By identity: the values outlive the comparison.
        self._prints: dict[int, Print] = {}

    def node(self, left: Json, right: Json, **place: Any) -> Node:
        if self._print(left) == self._print(right):
            return Node(kind=Kind.SAME, left=left, right=right, **place)
        children: tuple[Node, ...]
        if isinstance(left, dict) and isinstance(right, dict):
            children = tuple(self._member(left, right, name) for name in _names(left, right))
        elif isinstance(left, list) and isinstance(right, list):
            children = tuple(self._items(left, right))
        else:
            return Node(kind=Kind.CHANGED, left=left, right=right, **place)
        return Node(kind=Kind.INSIDE, left=left, right=right, children=children, **place)

    def _member(self, left: dict[str, Json], right: dict[str, Json], name: str) -> Node:
        if name not in right:
            return Node(kind=Kind.LEFT_ONLY, left=left[name], name=name)
        if name not in left:
            return Node(kind=Kind.RIGHT_ONLY, right=right[name], name=name)
        return self.node(left[name], right[name], name=name)

    def _items(self, left: list[Json], right: list[Json]) -> Iterator[Node]:
        prints = [self._print(each) for each in left], [self._print(each) for each in right]
        pairs = self._by_key(left, right) or align(*prints, resemblance=self._resemblance(left, right))
        alone = self._moved(pairs, *prints)
        for i, j in pairs:
            if i is None and j is not None:
                is_moved = prints[1][j] in alone
                yield Node(kind=Kind.RIGHT_ONLY, right=right[j], right_index=j, is_moved=is_moved)
            elif j is None and i is not None:
                is_moved = prints[0][i] in alone
                yield Node(kind=Kind.LEFT_ONLY, left=left[i], left_index=i, is_moved=is_moved)
            elif i is not None and j is not None and prints[0][i] == prints[1][j]:
                yield Node(kind=Kind.SAME, left=left[i], right=right[j], left_index=i, right_index=j)
            elif i is not None and j is not None:
                yield self.node(left[i], right[j], left_index=i, right_index=j)

    @staticmethod
    def _moved(
        pairs: Sequence[tuple[int | None, int | None]], left: Sequence[Print], right: Sequence[Print]
    ) -> frozenset[Print]:
        """Give the prints that stand alone on both sides: the same item, elsewhere."""
        lefts = {left[i] for i, j in pairs if j is None and i is not None}
        return frozenset(lefts & {right[j] for i, j in pairs if i is None and j is not None})

    def _by_key(self, left: list[Json], right: list[Json]) -> list[tuple[int | None, int | None]]:
        """Align lists of objects by the member that names each of them once (an id, a sku), if there is one."""
        key = _key_member(left, right)
        if key is None:
            return []
        left_names = [self._print(each[key]) for each in left]
        right_names = [self._print(each[key]) for each in right]
        return align(left_names, right_names)

    def _resemblance(self, left: list[Json], right: list[Json]) -> Callable[[int, int], float]:
        traits: dict[tuple[bool, int], Counter[Print]] = {}

        def traits_of(is_left: bool, index: int) -> Counter[Print]:  # noqa: FBT001 - which side, nothing else
            if (is_left, index) not in traits:
                traits[is_left, index] = self._traits((left if is_left else right)[index])
            return traits[is_left, index]

        def alike(i: int, j: int) -> float:
            kinds = _kind(left[i]), _kind(right[j])
            if kinds[0] != kinds[1]:
                return 0.05 if "container" not in (kinds[0][0], kinds[1][0]) else 0.0
            one, other = traits_of(True, i), traits_of(False, j)  # noqa: FBT003 - which side
            most = max(one.total(), other.total())
            return _ALIKE_KIND + ((one & other).total() / most if most else 0.0)

        return alike

    def _traits(self, value: Json) -> Counter[Print]:
        if isinstance(value, dict):
            return Counter(f"{name}={self._print(each)}" for name, each in value.items())
        if isinstance(value, list):
            return Counter(self._print(each) for each in value)
        if isinstance(value, str):
            return Counter(value[: _COMPARED_WORDS * 8].split()[:_COMPARED_WORDS])
        return Counter()

    def _print(self, value: Json) -> Print:
        if isinstance(value, str):
            return value
        if not isinstance(value, dict | list):
            return type(value), repr(value)
        known = self._prints.get(id(value))
        if known is None:
            known = self._prints[id(value)] = type(value), _ENCODER.encode(value)
        return known


def _names(left: Mapping[str, Json], right: Mapping[str, Json]) -> list[str]:
    """Give the members of both sides in the order of the canonical form, which is that of UTF-16."""
    return sorted({*left, *right}, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _kind(value: Json) -> tuple[str, str]:
    if isinstance(value, dict | list):
        return "container", type(value).__name__
    return "plain", "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _key_member(left: Sequence[Json], right: Sequence[Json]) -> str | None:
    """Find the member that every object of both lists has, once each, as a plain value, and that most of them share."""
    sides = [*left, *right]
    if not left or not right or not all(isinstance(each, dict) for each in sides):
        return None
    best: tuple[int, str] | None = None
    for name in left[0]:
        values = [[each.get(name, ABSENT) for each in side] for side in (left, right)]
        if not all(isinstance(value, str | int) and not isinstance(value, bool) for side in values for value in side):
            continue
        names = [{json.dumps(value) for value in side} for side in values]
        if len(names[0]) == len(left) and len(names[1]) == len(right) and (shared := len(names[0] & names[1])):
            best = max(best or (0, ""), (shared, name))
    return best[1] if best else None


def text_diff(left: str, right: str) -> tuple[Segment, ...]:
    """Compare two texts word by word; joined, the segments give either side back."""
    words = _WORDS.findall(left), _WORDS.findall(right)
    sides = Sides(left=words[0], right=words[1])
    found: list[Segment] = []
    i = j = 0
    for start, at_right, length in [*_runs(sides.matches()), (len(words[0]), len(words[1]), 0)]:
        if i < start or j < at_right:
            found += _refined("".join(words[0][i:start]), "".join(words[1][j:at_right]))
        i, j = start + length, at_right + length
        if length:
            same = "".join(words[0][start:i])
            found.append(Segment(left=same, right=same))
    return _joined(found)


def _runs(matches: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join matches that follow each other on both sides: where each run begins, and how long it is."""
    start = 0
    for index in range(1, len(matches) + 1):
        is_next = index < len(matches) and matches[index] == (matches[index - 1][0] + 1, matches[index - 1][1] + 1)
        if not is_next:
            yield *matches[start], index - start
            start = index


def same_ends(left: str, right: str) -> tuple[int, int]:
    """Count the characters with which two texts begin alike, and of the rest those with which they end alike."""
    start = end = 0
    shortest = min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    while end < shortest - start and left[-1 - end] == right[-1 - end]:
        end += 1
    return start, end


def _refined(left: str, right: str) -> list[Segment]:
    """Cut what two words begin and end with alike, so that one digit stands out; never before a combining mark."""
    if not left or not right or any(character.isspace() for character in left + right):
        return [Segment(left=left, right=right)]
    start, end = same_ends(left, right) if (left + right).isascii() else (0, 0)
    middle = Segment(left=left[start : len(left) - end], right=right[start : len(right) - end])
    head = [Segment(left=left[:start], right=right[:start])] if start else []
    tail = [Segment(left=left[-end:], right=right[-end:])] if end else []
    return [*head, middle, *tail]


def _joined(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Join neighbours of a kind; white space alone between two changes is part of one change."""
    found: list[Segment] = []
    for index, each in enumerate(segments):
        is_between = (
            each.is_same
            and each.left.isspace()
            and bool(found)
            and not found[-1].is_same
            and index + 1 < len(segments)
            and not segments[index + 1].is_same
        )
        if found and (found[-1].is_same == each.is_same or is_between):
            found[-1] = Segment(left=found[-1].left + each.left, right=found[-1].right + each.right)
        else:
            found.append(each)
    return tuple(found)
