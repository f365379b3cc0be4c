"""Where in a JSON text something stands: from a pointer to a line, for whoever has to mend it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from fencing.protocol.pointers import parts_of

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)


def line_of(text: str, pointer: str) -> int | None:
    """Give the number of the line (from 1) on which what `pointer` leads to begins; None where it leads nowhere.

    Of a name that stands twice in one object, the last one: it is the one that is one too many.
    """
    try:
        wanted = parts_of(pointer)
        place = _find(_Tokens(text), wanted)
    except (ValueError, StopIteration, RecursionError):
        return None
    return None if place is None else text.count("\n", 0, place) + 1


class _Tokens:
    """The tokens of a text, one at a time, each with where it begins."""

    def __init__(self, text: str) -> None:
        self._found: Iterator[re.Match[str]] = _TOKEN.finditer(text)
        self.advance()

    def advance(self) -> None:
        found = next(self._found, None)
        self.word, self.at = ("", -1) if found is None else (found.group(), found.start())

    def take(self, word: str) -> None:
        if self.word != word:
            raise ValueError(self.word)
        self.advance()


def _find(tokens: _Tokens, wanted: tuple[str, ...]) -> int | None:
    """Read one value; give where the wanted thing inside it begins."""
    at = tokens.at
    if tokens.word == "{":
        inner = _in_object(tokens, wanted)
    elif tokens.word == "[":
        inner = _in_list(tokens, wanted)
    elif tokens.word and tokens.word not in "}],:":
        tokens.advance()
        inner = None
    else:
        raise ValueError(tokens.word)
    return inner if wanted else at


def _in_object(tokens: _Tokens, wanted: tuple[str, ...]) -> int | None:
    found = None
    tokens.take("{")
    while tokens.word != "}":
        name, at = json.loads(tokens.word), tokens.at
        tokens.advance()
        tokens.take(":")
        is_it = bool(wanted) and name == wanted[0]
        inner = _find(tokens, wanted[1:] if is_it else ())
        if is_it:
            found = at if len(wanted) == 1 else inner
        if tokens.word == ",":
            tokens.advance()
    tokens.take("}")
    return found


def _in_list(tokens: _Tokens, wanted: tuple[str, ...]) -> int | None:
    found, index = None, 0
    tokens.take("[")
    while tokens.word != "]":
        is_it = bool(wanted) and wanted[0] == str(index)
        inner = _find(tokens, wanted[1:] if is_it else ())
        if is_it:
            found = inner
        index += 1
        if tokens.word == ",":
            tokens.advance()
    tokens.take("]")
    return found
