"""Two actions beside each other: rows of two cells, what is equal folded away, what differs marked in both columns."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dashboard.presenters.diff import ABSENT, Absent, Kind, Node, Segment, diff, same_ends, text_diff
from dashboard.presenters.json_lines import JsonView, json_view
from dashboard.presenters.numbers import plural
from dashboard.presenters.spelling import Piece, code_point, hints_of, pieces_of

Json = Any

MAX_ROWS: Final = 1_000
MAX_EQUAL: Final = 600
SMALL: Final = 14  # an action of so many values is shown whole
FOLD_FROM: Final = 3
LONG_EQUAL: Final = 160
KEPT: Final = 60
LONG_CHANGE: Final = 1_200
NAMED: Final = 5
NAME_CUT: Final = 24
DEEPEST: Final = 8
FEW_POINTS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of a value: as it stands, marked where it differs, or `folded` behind its length."""

    pieces: tuple[Piece, ...]
    is_marked: bool = False
    folded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One side of a row: a text or a plain value in parts, or a whole object or list as lines that fold."""

    parts: tuple[Part, ...] = ()
    is_text: bool = False
    view: JsonView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of both columns.

    A `head` opens an object or list that differs inside; a `fold` holds what is equal (`view`); `same` and `differs`
    are values. A cell is None where its side has nothing. `note` says what the eye may miss.
    """

    kind: str
    depth: int = 0
    name: tuple[Piece, ...] = ()
    left: Cell | None = None
    right: Cell | None = None
    left_size: str = ""
    right_size: str = ""
    note: str = ""
    is_advisory: bool = False
    is_tool: bool = False
    view: JsonView | None = None
    named: tuple[tuple[Piece, ...], ...] = ()
    size: str = ""
    unshown: int = 0

    @property
    def differs(self) -> bool:
        """Tell whether the walk through the differences stops here."""
        return self.kind == "differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """The rows, how many of them differ, how many of these the fence does not compare, and whether rows are missing."""

    rows: tuple[Row, ...]
    count: int
    advisory: int
    is_cut: bool


def side_by_side(left: Json, right: Json, advisory: Iterable[str] = ()) -> SideBySide:
    """Compare two actions. `advisory` are the pointers into `args` that the fence leaves out (C6)."""
    root = diff(left, right)
    layout = _Layout(
        advisory=frozenset(advisory), is_small=_leaves(left) + _leaves(right) <= 2 * SMALL, budget=_Budget()
    )
    rows = list(layout.rows_of(root))
    differing = [row for row in rows if row.differs]
    return SideBySide(
        rows=tuple(rows[:MAX_ROWS]),
        count=len(differing),
        advisory=sum(row.is_advisory for row in differing),
        is_cut=len(rows) > MAX_ROWS,
    )


@dataclass(slots=True, kw_only=True)
class _Budget:
    """How many equal values are still shown inside folds."""

    leaves: int = MAX_EQUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How one comparison is laid out."""

    advisory: frozenset[str]
    is_small: bool
    budget: _Budget

    def rows_of(self, root: Node) -> Iterator[Row]:
        """Lay out an action: its tool first, then the members of its arguments without the braces around them."""
        children = _children(root)
        if {child.name for child in children} != {"tool", "args"}:
            yield from self._siblings(children or (root,), depth=0, pointer="")
            return
        tool = next(child for child in children if child.name == "tool")
        args = next(child for child in children if child.name == "args")
        yield self._value(tool, depth=0, pointer=None, is_tool=True)
        if args.kind is Kind.CHANGED:
            yield self._value(args, depth=0, pointer="")
        else:
            yield from self._siblings(_children(args), depth=0, pointer="")

    def _siblings(self, nodes: Sequence[Node], *, depth: int, pointer: str) -> Iterator[Row]:
        same: list[Node] = []
        for node in nodes:
            if node.kind is Kind.SAME:
                same.append(node)
                continue
            yield from self._equal(same, depth=depth, pointer=pointer)
            same = []
            yield from self._differing(node, depth=depth, pointer=_under(pointer, node))
        yield from self._equal(same, depth=depth, pointer=pointer)

    def _equal(self, nodes: Sequence[Node], *, depth: int, pointer: str) -> Iterator[Row]:
        """Show a few equal values in both columns; fold more of them, shown once."""
        if not nodes:
            return
        if self.is_small or sum(_leaves(node.left, FOLD_FROM) for node in nodes) < FOLD_FROM:
            for node in nodes:
                yield self._value(node, depth=depth, pointer=_under(pointer, node))
            return
        is_items = nodes[0].name is None
        shown = self._affordable(nodes)
        value = [node.left for node in shown] if is_items else {node.name: node.left for node in shown}
        yield Row(
            kind="fold",
            depth=min(depth, DEEPEST),
            view=json_view(value) if shown else None,
            unshown=len(nodes) - len(shown),
            size=plural(len(nodes), "equal item" if is_items else "equal member"),
            named=() if is_items else tuple(pieces_of(_cut(node.name or "")) for node in nodes[:NAMED]),
            note="…" if not is_items and len(nodes) > NAMED else "",
        )

    def _affordable(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Take as many equal values as a page can carry: nobody came to read them."""
        for index, node in enumerate(nodes):
            self.budget.leaves -= _leaves(node.left, MAX_EQUAL)
            if self.budget.leaves < 0:
                return nodes[:index]
        return nodes

    def _differing(self, node: Node, *, depth: int, pointer: str) -> Iterator[Row]:
        if node.kind is not Kind.INSIDE:
            yield self._value(node, depth=depth, pointer=pointer)
            return
        yield Row(
            kind="head",
            depth=min(depth, DEEPEST),
            name=_label(node),
            left_size=_size(node.left),
            right_size=_size(node.right),
        )
        yield from self._siblings(node.children, depth=depth + 1, pointer=pointer)

    def _value(self, node: Node, *, depth: int, pointer: str | None, is_tool: bool = False) -> Row:
        is_same = node.kind is Kind.SAME
        left, right = _cells(node)
        return Row(
            kind="same" if is_same else "differs",
            depth=min(depth, DEEPEST),
            name=() if is_tool else _label(node),
            left=left,
            right=right,
            note="" if is_same else _note(node),
            is_advisory=pointer is not None and any(f"{pointer}/".startswith(f"{one}/") for one in self.advisory),
            is_tool=is_tool,
        )


def _children(node: Node) -> tuple[Node, ...]:
    if node.kind is not Kind.SAME:
        return node.children
    if isinstance(node.left, dict):
        return tuple(Node(kind=Kind.SAME, name=name, left=value, right=value) for name, value in node.left.items())
    return ()


def _under(pointer: str, node: Node) -> str:
    index = node.left_index if node.left_index is not None else node.right_index
    name = node.name if node.name is not None else str(index)
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def _label(node: Node) -> tuple[Piece, ...]:
    """Name a member, or an item by its place; by both places where they differ. People count from one."""
    if node.name is not None:
        return pieces_of(node.name)
    places = list(dict.fromkeys(place + 1 for place in (node.left_index, node.right_index) if place is not None))
    return (Piece(text=" | ".join(f"#{place}" for place in places)),) if places else ()


def _cells(node: Node) -> tuple[Cell | None, Cell | None]:
    if node.kind is Kind.CHANGED and isinstance(node.left, str) and isinstance(node.right, str):
        segments = text_diff(node.left, node.right)
        return _text(segments, is_left=True), _text(segments, is_left=False)
    is_marked = node.kind is not Kind.SAME
    left = _cell(node.left, is_marked=is_marked)
    return left, left if node.kind is Kind.SAME else _cell(node.right, is_marked=is_marked)


def _cell(value: Json | Absent, *, is_marked: bool) -> Cell | None:
    if value is ABSENT:
        return None
    if isinstance(value, dict | list) and value:
        return Cell(view=json_view(value))
    if isinstance(value, str):
        return Cell(parts=tuple(_long(value, is_marked=is_marked, kept=LONG_CHANGE)), is_text=True)
    return Cell(parts=(Part(pieces=(Piece(text=json.dumps(value)),), is_marked=is_marked),))


def _text(segments: Sequence[Segment], *, is_left: bool) -> Cell:
    parts: list[Part] = []
    for segment in segments:
        text = segment.left if is_left else segment.right
        if segment.is_same:
            parts += _long(text, is_marked=False, kept=LONG_EQUAL)
        elif text:
            parts += _long(text, is_marked=True, kept=LONG_CHANGE)
    return Cell(parts=tuple(parts), is_text=True)


def _long(text: str, *, is_marked: bool, kept: int) -> Iterator[Part]:
    """Fold the middle of what is long; its two ends tell where one is."""
    if len(text) <= kept + 2 * KEPT:
        yield Part(pieces=pieces_of(text), is_marked=is_marked)
        return
    ends = KEPT if kept == LONG_EQUAL else kept // 2
    middle = text[ends:-ends]
    yield Part(pieces=pieces_of(text[:ends]), is_marked=is_marked)
    words = "characters" if is_marked else "equal characters"
    yield Part(pieces=pieces_of(middle), is_marked=is_marked, folded=f"{len(middle):,} {words}")
    yield Part(pieces=pieces_of(text[-ends:]), is_marked=is_marked)


def _note(node: Node) -> str:
    """Say what a reader's eye would miss about a difference."""
    if node.is_moved:
        return "the same item stands elsewhere on the other side"
    if node.kind is not Kind.CHANGED:
        return ""
    if isinstance(node.left, str) and isinstance(node.right, str):
        return _look_alike(node.left, node.right) or "; ".join(hints_of(node.left) + hints_of(node.right))
    kinds = _kind(node.left), _kind(node.right)
    return "" if kinds[0] == kinds[1] else f"{kinds[0]} against {kinds[1]}"


def _look_alike(left: str, right: str) -> str:
    """Spell the characters of texts that look the same, or nearly so."""
    if _seen(left) != _seen(right):
        return ""
    changed = [segment for segment in text_diff(left, right) if not segment.is_same]
    start, end = same_ends(changed[0].left, changed[0].right)
    apart = [side[start : len(side) - end][:FEW_POINTS] for side in (changed[0].left, changed[0].right)]
    spelt = [" ".join(code_point(each) for each in side) or "nothing" for side in apart]
    return f"they look alike: {spelt[0]} against {spelt[1]}"


def _seen(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = {dict: "an object", list: "a list", str: "a text", int: "a number", float: "a number"}
    return next((word for kind, word in names.items() if isinstance(value, kind)), "null")


def _size(value: Json) -> str:
    return plural(len(value), "member" if isinstance(value, dict) else "item")


def _leaves(value: Json, most: int = 2 * SMALL) -> int:
    """Count plain values, as far as `most`; an empty object or list is one, a long text several."""
    if isinstance(value, str):
        return 1 + len(value) // 400
    if not isinstance(value, dict | list) or not value:
        return 1
    found = 0
    for child in value.values() if isinstance(value, dict) else value:
        found += _leaves(child, most - found)
        if found > most:
            break
    return found


def _cut(name: str) -> str:
    return name if len(name) <= NAME_CUT else f"{name[:NAME_CUT]}…"
