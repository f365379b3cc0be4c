"""Schemas of the plainest kind as one quick function, which tells of most arguments that they fit (T3).

Only its yes counts, and it says yes where the library does: every other schema, and every doubt, is the library's
(`schemas`). What stands here asks for so little work that no arguments could exceed what is spent on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

MOST: Final = 200
"""Keywords, and entries of their lists, of a schema that is plain."""

Fits = Callable[[Any], bool]

# They say nothing about a value, `format` neither: no format is checked.
_SILENT: Final = frozenset(
    {"title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly", "$comment"}
)


class _NotPlain(Exception):
    """The schema asks something that is not told here."""


def plainly(schema: Mapping[str, Json]) -> Fits | None:
    """Make the function of a valid schema; None where it is not plain."""
    bare = {name: value for name, value in schema.items() if name != "$schema"}
    try:
        return _made(bare, [MOST])
    except _NotPlain:
        return None


def _made(schema: Any, left: list[int]) -> Fits:
    # An `enum` alone is taken for one of texts, which it says itself.
    kind = schema.get("type", "string" if "enum" in schema else None) if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        raise _NotPlain
    left[0] -= len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list))
    keywords, make = _KINDS.get(kind, (frozenset(), _nothing))
    if left[0] < 0 or not schema.keys() <= keywords | _SILENT | {"type"}:
        raise _NotPlain
    return make(schema, left)


def _nothing(_schema: Mapping[str, Any], _left: list[int]) -> Fits:
    raise _NotPlain


def _object(schema: Mapping[str, Any], left: list[int]) -> Fits:
    members = {name: _made(inner, left) for name, inner in schema.get("properties", {}).items()}
    required = tuple(schema.get("required", ()))
    others = schema.get("additionalProperties", True)
    if not isinstance(others, bool):
        raise _NotPlain
    checks = tuple(members.items())

    def fits(value: Any) -> bool:
        if type(value) is not dict or not (others or value.keys() <= members.keys()):
            return False
        for name in required:
            if name not in value:
                return False
        return all(name not in value or check(value[name]) for name, check in checks)

    return fits


def _text(schema: Mapping[str, Any], _left: list[int]) -> Fits:
    least, most, named = schema.get("minLength", 0), schema.get("maxLength", float("inf")), schema.get("enum")
    if named is None:
        return lambda value: type(value) is str and least <= len(value) <= most
    if not all(isinstance(each, str) for each in named):
        raise _NotPlain
    among = frozenset(named)
    return lambda value: type(value) is str and value in among and least <= len(value) <= most


def _number(kinds: frozenset[type], schema: Mapping[str, Any]) -> Fits:
    least, most = schema.get("minimum", float("-inf")), schema.get("maximum", float("inf"))
    return lambda value: type(value) in kinds and least <= value <= most


def _whole(schema: Mapping[str, Any], _left: list[int]) -> Fits:
    return _number(frozenset({int}), schema)


def _real(schema: Mapping[str, Any], _left: list[int]) -> Fits:
    return _number(frozenset({int, float}), schema)


def _truth(_schema: Mapping[str, Any], _left: list[int]) -> Fits:
    return lambda value: type(value) is bool


_RANGE: Final = frozenset({"minimum", "maximum"})
# By type: the keywords that are told here, and what makes the function.
_KINDS: Final[Mapping[str, tuple[frozenset[str], Callable[[Mapping[str, Any], list[int]], Fits]]]] = {
    "object": (frozenset({"properties", "required", "additionalProperties"}), _object),
    "string": (frozenset({"minLength", "maxLength", "enum"}), _text),
    "integer": (_RANGE, _whole),
    "number": (_RANGE, _real),
    "boolean": (frozenset(), _truth),
}
