"""How two JSON Schemas, or two JSON values, differ: place by place, in words.

For people alone. Whether another schema lets more through is not decided here: telling that for sure would take more
than comparing keywords, so the direction is told only where a keyword stands plainly in the way of every argument.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from fencing.protocol.pointers import pointer_to

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

MAX_PARTS: Final = 200
_MAX_SHOWN: Final = 80
_BEFORE: Final = 20


class Way(StrEnum):
    """Whether a place of a schema asks less or more than before; `OTHER` where that is not plain."""

    LOOSER = "looser"
    STRICTER = "stricter"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One place that differs: the pointer to it, what was and what is there in words, and which way that goes."""

    pointer: str
    says: str
    way: Way = Way.OTHER


# Keywords that hold schemas, by how: by name, in order, or one.
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_IN_ORDER: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONE: Final = frozenset(
    {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems",
     "unevaluatedProperties"}
)  # fmt: skip
# Below these every schema has to hold for the arguments that it is applied to, so that less of it is looser.
_PLAIN: Final = frozenset({"properties", "items", "allOf", "prefixItems", "patternProperties", "propertyNames"})
# A greater value of these lets more through, or less.
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
# What is one keyword less of these asks less, whatever stands beside it.
_ASSERTIONS: Final = _UPPER | _LOWER | frozenset(
    {"pattern", "multipleOf", "const", "uniqueItems", "dependentRequired", "additionalProperties", "propertyNames",
     "unevaluatedProperties", "unevaluatedItems", "not"}
)  # fmt: skip


def schema_parts(old: Json, new: Json) -> tuple[Part, ...]:
    """Return where two schemas differ; at most `MAX_PARTS` places, the last of which then says that there are more."""
    return _cut(_schema(old, new, (), is_plain=True))


def parts_that_differ(old: Json, new: Json) -> tuple[Part, ...]:
    """Return where two JSON values differ; at most `MAX_PARTS` places."""
    return _cut(_values(old, new, ()))


def _cut(found: Iterator[Part]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for part in found:
        if len(parts) == MAX_PARTS:
            parts[-1] = Part(pointer="", says="There are more differences than fit here.")
            break
        parts.append(part)
    return tuple(parts)


Place = tuple["str | int", ...]


def _values(old: Json, new: Json, place: Place) -> Iterator[Part]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*new, *(name for name in old if name not in new)]:
            if name not in old:
                yield _part((*place, name), f"{_text(new[name])} is new")
            elif name not in new:
                yield _part((*place, name), f"{_text(old[name])} is gone")
            else:
                yield from _values(old[name], new[name], (*place, name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _values(one, other, (*place, index))
    elif not is_same(old, new):
        yield _part(place, _instead(old, new))


def _schema(old: Json, new: Json, place: Place, *, is_plain: bool) -> Iterator[Part]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        if not is_same(old, new):
            yield _part(place, _instead(old, new), _way(_is_more(old, new), is_plain=is_plain))
        return
    for word in [*new, *(word for word in old if word not in new)]:
        if not is_same(old.get(word), new.get(word)) or (word in old) != (word in new):
            yield from _keyword(word, old, new, place, is_plain=is_plain)


def _keyword(word: str, old: dict[str, Json], new: dict[str, Json], place: Place, *, is_plain: bool) -> Iterator[Part]:
    one, other, here = old.get(word), new.get(word), (*place, word)
    below = is_plain and word in _PLAIN
    if word in _BY_NAME and isinstance(one, dict | None) and isinstance(other, dict | None):
        yield from _by_name(one or {}, other or {}, here, is_plain=below)
    elif word in _IN_ORDER and isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (inner, outer) in enumerate(zip(one, other, strict=True)):
            yield from _schema(inner, outer, (*here, index), is_plain=below)
    elif word in _ONE and isinstance(one, dict) and isinstance(other, dict):
        yield from _schema(one, other, here, is_plain=below)
    elif word in ("required", "enum", "type"):
        yield from _sets(word, _list(one), _list(other), here, is_plain=is_plain)
    elif word in new and word in old:
        way = _way(_lets_more(word, one, other), is_plain=is_plain)
        yield _part(here, _instead(one, other), way)
    else:
        way = _way(word in old if word in _ASSERTIONS else None, is_plain=is_plain)
        yield _part(here, f"{_text(one)} is gone" if word in old else f"{_text(other)} is new", way)


def _by_name(old: dict[str, Json], new: dict[str, Json], place: Place, *, is_plain: bool) -> Iterator[Part]:
    for name in [*new, *(name for name in old if name not in new)]:
        here = (*place, name)
        if name not in old:
            # Beside `additionalProperties: false` a new property lets more through; without it, less.
            yield _part(here, f"{_text(new[name])} is new")
        elif name not in new:
            yield _part(here, f"{_text(old[name])} is gone")
        else:
            yield from _schema(old[name], new[name], here, is_plain=is_plain)


def _sets(word: str, old: list[Json], new: list[Json], place: Place, *, is_plain: bool) -> Iterator[Part]:
    """Compare lists whose order says nothing. A name more in `required` asks more, a value more in `enum` asks less."""
    gained, lost = missing_from(old, new), missing_from(new, old)
    more_is_looser = word != "required"
    if not old or not new:
        says = f"{_text(new)} is new" if new else f"{_text(old)} is gone"
        yield _part(place, says, _way(not new, is_plain=is_plain))
        return
    if word == "type" and gained and lost:  # an integer is a number too
        yield _part(place, _instead(old, new))
        return
    if gained:
        yield _part(place, f"also {_text(gained)}", _way(more_is_looser, is_plain=is_plain))
    if lost:
        yield _part(place, f"no longer {_text(lost)}", _way(not more_is_looser, is_plain=is_plain))


def _lets_more(word: str, old: Json, new: Json) -> bool | None:
    if _is_number(old) and _is_number(new):
        if word in _UPPER:
            return new > old  # type: ignore[operator]
        if word in _LOWER:
            return new < old  # type: ignore[operator]
    if word in ("additionalProperties", "items", "uniqueItems"):
        return _is_more(old, new) if word != "uniqueItems" else not new
    return None


def _is_more(old: Json, new: Json) -> bool | None:
    """Tell whether a schema that is a plain truth value, or becomes one, asks less; None where it is not plain."""
    if new is True or old is False:
        return True
    return False if new is False or old is True else None


def _way(is_looser: bool | None, *, is_plain: bool) -> Way:  # noqa: FBT001 - three answers
    if is_looser is None or not is_plain:
        return Way.OTHER
    return Way.LOOSER if is_looser else Way.STRICTER


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_same(old: Json, new: Json) -> bool:
    """Tell whether two values are equal as JSON: Python holds `1` and `true` for equal."""
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def missing_from(some: list[Json], others: list[Json]) -> list[Json]:
    """Return those of `others` that are not among `some`, as JSON."""
    known = {json.dumps(each, sort_keys=True) for each in some}
    return [each for each in others if json.dumps(each, sort_keys=True) not in known]


def _part(place: Place, says: str, way: Way = Way.OTHER) -> Part:
    return Part(pointer=pointer_to(place), says=says, way=way)


def _text(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _instead(old: Json, new: Json) -> str:
    """Write one value instead of another; of long ones what stands around their first difference."""
    one, other = json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False)
    same = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    start = max(0, same - _BEFORE) if max(len(one), len(other)) > _MAX_SHOWN else 0
    return f"{_window(other, start)} instead of {_window(one, start)}"


def _window(text: str, start: int) -> str:
    head = "…" if start else ""
    return head + (text[start:] if len(text) - start <= _MAX_SHOWN else text[start : start + _MAX_SHOWN - 1] + "…")
