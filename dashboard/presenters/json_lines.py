"""A JSON value as lines that fold: what a person reads before deciding, exactly as it will be sent."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from dashboard.presenters.numbers import plural
from dashboard.presenters.spelling import Piece, Quotation, pieces_of, quotation

MAX_LINES: Final = 2_000
OPEN_UNTIL_LINE: Final = 60
SHORT: Final = 72
LONG_TEXT: Final = 240
DEEPEST_INDENT: Final = 10


class Kind(StrEnum):
    """What a line is: the start or end of something that folds, or one value."""

    OPEN = "open"
    CLOSE = "close"
    TEXT = "text"
    NUMBER = "number"
    WORD = "word"
    BRACKETS = "brackets"
    INLINE = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. `pointer` is its JSON Pointer; `sign` the brackets or the literal; `is_marked` asks for attention."""

    kind: Kind
    pointer: str
    name: tuple[Piece, ...] = ()
    sign: str = ""
    text: Quotation | None = None
    size: str = ""
    is_open: bool = True
    is_deep: bool = False
    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonView:
    """The lines of a value; `cut` tells that there are more than are shown."""

    lines: tuple[Line, ...]
    cut: bool


def json_view(value: object, marked: Collection[str] = ()) -> JsonView:
    """Prepare a parsed JSON value. `marked` are the pointers of members to point out (those that differ, say)."""
    produced = list(islice(_lines(value, pointer="", name=None, depth=0, marked=marked), MAX_LINES + 1))
    cut = len(produced) > MAX_LINES
    kept = _closed(produced[:MAX_LINES]) if cut else produced
    return JsonView(lines=tuple(_folded(kept)), cut=cut)


def _lines(value: object, *, pointer: str, name: str | None, depth: int, marked: Collection[str]) -> Iterator[Line]:
    shown = () if name is None else pieces_of(name)
    is_marked = pointer in marked
    is_short = isinstance(value, Mapping | list | tuple) and not _holds(marked, pointer) and _is_short(value)
    if isinstance(value, Mapping | list | tuple) and value and (depth == 0 or not is_short):
        is_map = isinstance(value, Mapping)
        size = plural(len(value), "member" if is_map else "item")
        is_deep = depth > DEEPEST_INDENT
        sign = "{" if is_map else "["
        yield Line(
            kind=Kind.OPEN, pointer=pointer, name=shown, sign=sign, size=size, is_deep=is_deep, is_marked=is_marked
        )
        for key, child in _children(value):
            label = key if is_map else None
            yield from _lines(child, pointer=f"{pointer}/{_escaped(key)}", name=label, depth=depth + 1, marked=marked)
        yield Line(kind=Kind.CLOSE, pointer=pointer, sign="}" if is_map else "]")
    else:
        kind, sign, text = _leaf(value)
        yield Line(kind=kind, pointer=pointer, name=shown, sign=sign, text=text, is_marked=is_marked)


def _children(value: Mapping[str, object] | Sequence[object]) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from value.items()
    else:
        yield from ((str(index), child) for index, child in enumerate(value))


def _leaf(value: object) -> tuple[Kind, str, Quotation | None]:
    if isinstance(value, str):
        return Kind.TEXT, "", quotation(value, LONG_TEXT)
    if isinstance(value, Mapping | list | tuple):
        kind = Kind.INLINE if value else Kind.BRACKETS
        return kind, _compact(value), quotation(_compact(value), LONG_TEXT) if value else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Kind.NUMBER, json.dumps(value), None
    return Kind.WORD, json.dumps(value), None


def _is_short(value: object) -> bool:
    """Tell whether a value reads best on one line: no deeper than two, and short."""
    children = list(value.values()) if isinstance(value, Mapping) else value
    assert isinstance(children, list | tuple)  # noqa: S101 - it was asked for containers only
    if len(children) > SHORT or any(_is_nested(child) for child in children):
        return False
    return len(_compact(value)) <= SHORT


def _is_nested(value: object) -> bool:
    inner = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(inner, list | tuple) and any(isinstance(child, Mapping | list | tuple) for child in inner)


def _compact(value: object) -> str:
    """Write a short value on one line, with bare names as on the other lines."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_compact(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_compact(child) for child in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _holds(marked: Collection[str], pointer: str) -> bool:
    return any(one.startswith(f"{pointer}/") for one in marked)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _closed(lines: list[Line]) -> list[Line]:
    """End what a cut left open, so that the page stays well-formed."""
    opened: list[Line] = []
    for line in lines:
        if line.kind is Kind.OPEN:
            opened.append(line)
        elif line.kind is Kind.CLOSE:
            opened.pop()
    ends = [Line(kind=Kind.CLOSE, pointer=line.pointer, sign="…") for line in reversed(opened)]
    return lines + ends


def _folded(lines: list[Line]) -> Iterator[Line]:
    """Close what begins below the first screens, unless it holds something marked: a big action opens as an outline."""
    marked = [line.pointer for line in lines if line.is_marked]
    for number, line in enumerate(lines):
        is_far = line.kind is Kind.OPEN and number >= OPEN_UNTIL_LINE
        holds_marked = is_far and any(pointer.startswith(f"{line.pointer}/") for pointer in marked)
        if is_far and not holds_marked:
            yield Line(
                kind=line.kind, pointer=line.pointer, name=line.name, sign=line.sign, size=line.size,
                is_open=False, is_deep=line.is_deep, is_marked=line.is_marked,
            )  # fmt: skip
        else:
            yield line
