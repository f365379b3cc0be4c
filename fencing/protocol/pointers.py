"""JSON Pointers (RFC 6901): to find, and to leave out, what they point at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

_POINTER = re.compile(r"(?:/(?:[^/~]|~[01])*+)*+", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


class Absent(Enum):
    """The answer of `resolve` where a pointer leads nowhere; `null` is something (C4)."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


def is_pointer(text: object) -> bool:
    """Whether `text` is a JSON Pointer: empty, or names that each follow a slash, with `~` only as `~0` or `~1`."""
    return isinstance(text, str) and _POINTER.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def parts_of(pointer: str) -> tuple[str, ...]:
    """Return the unescaped names of a pointer. Raises `ValueError` if it is none."""
    if not is_pointer(pointer):
        message = "not a JSON Pointer"
        raise ValueError(message)
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def pointer_to(parts: Iterable[str | int]) -> str:
    """Return the pointer that leads along these names and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def resolve(value: Json, pointer: str) -> Json | Literal[Absent.ABSENT]:
    """Return what `pointer` points at inside `value`, or `ABSENT`. Raises `ValueError` if it is no pointer."""
    found = value
    for part in parts_of(pointer):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and _INDEX.fullmatch(part) and int(part) < len(found):
            found = found[int(part)]
        else:
            return ABSENT
    return found


def without(value: Json, pointers: Sequence[str]) -> Json:
    """Return `value` without what the pointers point at; what is absent is no fault, and nothing is changed in place.

    All pointers are read against the value as it is given, so their order has no meaning, in arrays neither.
    The empty pointer, which would leave nothing, removes nothing.
    """
    return _without(value, [parts for pointer in pointers if (parts := parts_of(pointer))])


def _without(value: Json, paths: list[tuple[str, ...]]) -> Json:
    removed = {path[0] for path in paths if len(path) == 1}
    inner: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        inner.setdefault(path[0], []).append(path[1:])
    if isinstance(value, dict):
        return {
            name: _without(member, inner[name]) if name in inner else member
            for name, member in value.items()
            if name not in removed
        }
    if isinstance(value, list):
        return [
            _without(element, inner[str(index)]) if str(index) in inner else element
            for index, element in enumerate(value)
            if str(index) not in removed
        ]
    return value
