"""Why a JSON text is refused, and where: the slow second look at what the quick reader of `strict_json` left (C3).

The text is read once more by the C scanner, with hooks that leave a mark where a fault is; then the first fault in
the order of the text is looked for, and its pointer with it. Nothing here descends further than `_CUT` levels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from math import isinf
from types import MappingProxyType
from typing import Any, Final

from fencing.protocol.canonical import MAX_DEPTH, MAX_SAFE
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pointers import pointer_to

_DETAILS: Final[Mapping[Code, str]] = MappingProxyType(
    {
        Code.BAD_JSON: "The body is not JSON: send one JSON value in UTF-8 (no byte order mark) and nothing after it.",
        Code.DUPLICATE_NAME: "This name stands twice in its object; readers would disagree which one counts.",
        Code.NOT_FINITE: "This number is not finite as a double.",
        Code.UNSAFE_NUMBER: "A double does not keep this number exactly: send it as a string.",
        Code.BAD_UNICODE: "This text holds half of a surrogate pair, which is no character.",
        Code.TOO_DEEP: f"Objects and arrays may stand at most {MAX_DEPTH} deep inside each other.",
    }
)
_SAFE_DIGITS: Final = len(str(MAX_SAFE))

# Deeper than any limit asked for here, and far from where a reader that recurses could exhaust a thread's stack.
_CUT: Final = 100
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[][{}]', re.DOTALL)

_BRACKETS: Final = b"[]{}"
_NEITHER_BRACKET_NOR_QUOTE: Final = bytes(set(range(256)) - set(_BRACKETS + b'"'))
_STEPS: Final = [0] * 256
for _bracket, _step in zip(_BRACKETS, (1, -1, 1, -1), strict=True):
    _STEPS[_bracket] = _step


class Fault(ValueError):
    """Raised by the hooks of the quick reader at a culprit; its place is not known there."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Doubled:
    """Stands in a marked value for an object in which a name stands twice: its members as they came."""

    pairs: list[tuple[str, Any]]


def refusal_for(code: Code, pointer: str | None = None) -> Refusal:
    """Return the refusal of a body for its form, in the one sentence that this code has everywhere."""
    return Refusal(code=code, detail=_DETAILS[code], pointer=pointer)


def whole_number(text: str) -> int:
    """Return the value of an integer literal. Raises `Fault` beyond ±(2^53-1), before it is made a number at all."""
    if len(text) < _SAFE_DIGITS:
        return int(text)
    if len(text) > _SAFE_DIGITS + 1 or abs(value := int(text)) > MAX_SAFE:
        raise Fault(Code.UNSAFE_NUMBER)
    return value


def real_number(text: str) -> int | float:
    """Return the value of a literal with a fraction or an exponent; as `int` where it is one (C4).

    Raises `Fault` where it is not finite, an integer beyond ±(2^53-1), or not what a double prints back (C3).
    """
    value = float(text)
    if isinf(value):
        raise Fault(Code.NOT_FINITE)
    if repr(value) != text and not _is_kept(text, value):
        raise Fault(Code.UNSAFE_NUMBER)
    if not value.is_integer():
        return value
    if abs(value) > MAX_SAFE:
        raise Fault(Code.UNSAFE_NUMBER)
    return int(value)


def depth_of(raw: bytes) -> int:
    """Return how deep objects and arrays stand inside each other in a JSON text; for shallow ones an upper bound.

    Of a text that is not JSON it covers the part before the error, which is all that a reader descends into: the C
    scanner recurses, and must not be sent where a thread's stack may end.
    """
    opened = raw.count(b"[") + raw.count(b"{")
    if opened <= MAX_DEPTH:
        return opened
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side hold, or part, nothing that counts; without them little is left to split.
    marks = raw.translate(None, _NEITHER_BRACKET_NOR_QUOTE).replace(b'""', b"")
    return max(accumulate(map(_STEPS.__getitem__, b"".join(marks.split(b'"')[::2]))), default=0)


def marked_value(text: str) -> Any:
    """Read a text that is doubtful, leaving a `Code` for each number and a `Doubled` for each object that is at fault.

    Containers below `_CUT` levels are left out: `first_fault` stops above them. Raises `ValueError` for what is not
    JSON at all.
    """
    if depth_of(text.encode()) > _CUT:
        text = _shallow(text)
        if depth_of(text.encode()) > _CUT:
            message = "brackets that never close"
            raise ValueError(message)
    value, end = _marking.raw_decode(text)
    if end != len(text):
        message = "more than one value"
        raise ValueError(message)
    return value


def first_fault(value: Any, limit: int) -> Refusal | None:
    """Return the refusal for the first fault of a marked value, in the order of the text; None if there is none.

    `limit` is how deep containers may stand in each other, `value` itself being the first.
    """
    found = _search(value, limit)
    if found is None:
        return None
    code, parts = found
    return refusal_for(code, pointer_to(reversed(parts)))


def pairs_of(value: Any) -> list[tuple[str, Any]]:
    """Return the members of a marked object as they came; none for what is no object."""
    if isinstance(value, Doubled):
        return value.pairs
    return list(value.items()) if isinstance(value, dict) else []


def _is_kept(text: str, value: float) -> bool:
    """Whether the decimal value of the literal is the one that `value` prints back."""
    if value == 0:
        # Not through Decimal: an exponent of twenty digits is legal here and too much for it.
        return re.search("[1-9]", re.split("[eE]", text)[0]) is None
    try:
        return Decimal(text) == Decimal(repr(value))
    except InvalidOperation:
        return False


def _shallow(text: str) -> str:
    """Return the text with `0` in place of each container that lies deeper than `_CUT`."""
    pieces, done, depth = [], 0, 0
    for token in _STRUCTURE.finditer(text):
        mark = token[0]
        if mark in "[{":
            depth += 1
            if depth == _CUT + 1:
                pieces += [text[done : token.start()], "0"]
                done = len(text)
        elif mark in "]}":
            if depth == _CUT + 1:
                done = token.end()
            depth -= 1
    return "".join([*pieces, text[done:]])


def _search(value: Any, limit: int) -> tuple[Code, list[str | int]] | None:
    """Return the code of the first fault and the way to it, innermost part first."""
    if isinstance(value, Code):
        return value, []
    if isinstance(value, str):
        return None if _is_unicode(value) else (Code.BAD_UNICODE, [])
    if not isinstance(value, dict | list | Doubled):
        return None
    if limit == 0:
        return Code.TOO_DEEP, []
    return _search_members(enumerate(value) if isinstance(value, list) else pairs_of(value), limit)


def _search_members(members: Iterable[tuple[str | int, Any]], limit: int) -> tuple[Code, list[str | int]] | None:
    seen: set[str | int] = set()
    for name, inner in members:
        if isinstance(name, str) and not _is_unicode(name):
            return Code.BAD_UNICODE, []  # a pointer with half a character in it could not be sent: it names the object
        if name in seen:
            return Code.DUPLICATE_NAME, [name]
        seen.add(name)
        found = _search(inner, limit - 1)
        if found is not None:
            found[1].append(name)
            return found
    return None


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _mark_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Doubled:
    members = dict(pairs)
    return members if len(members) == len(pairs) else Doubled(pairs)


def _mark_whole(text: str) -> int | Code:
    try:
        return whole_number(text)
    except Fault as fault:
        return fault.code


def _mark_real(text: str) -> int | float | Code:
    try:
        return real_number(text)
    except Fault as fault:
        return fault.code


def _mark_constant(_word: str) -> Code:
    return Code.NOT_FINITE


_marking: Final = json.JSONDecoder(
    object_pairs_hook=_mark_object, parse_int=_mark_whole, parse_float=_mark_real, parse_constant=_mark_constant
)
