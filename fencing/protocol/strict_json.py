"""Strict JSON: what arrives is read exactly, or refused with the place of the culprit (C3).

Here is the quick reader: the C scanner of the standard library, with hooks that stop at anything doubtful. It answers
for nearly every body. What it leaves goes to `json_faults`, which tells what is no JSON at all from what is JSON and
refused all the same, and where the fault lies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fencing.protocol.canonical import MAX_DEPTH
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.json_faults import (
    Doubled,
    Fault,
    depth_of,
    first_fault,
    marked_value,
    pairs_of,
    real_number,
    refusal_for,
    whole_number,
)
from fencing.protocol.pointers import pointer_to

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_ITEMS: Final = 1000
"""How many items one bulk body may carry (H3)."""

BODY_DEPTH: Final = MAX_DEPTH + 1
"""Depth of a body, or of one item of a bulk body: itself, and its members (the action, say) of `MAX_DEPTH` each."""

_BULK_DEPTH: Final = BODY_DEPTH + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A body that may carry one object or many (H3): what it holds, each judged alone, in order.

    `is_bulk` tells `{"items": […]}` from a single object, which stands as the only one of `items`.
    Pointers in a refusal start at the item.
    """

    is_bulk: bool
    items: tuple[Json | Refusal, ...]


def parse(raw: bytes) -> Json | Refusal:
    """Read a body as one JSON value, or say what is wrong with it and where (C3).

    Numbers with an integer value come back as `int`, also when written `1.0` or `-0` (C4). Never raises.
    """
    text = _text_of(raw)
    value = _quick(text, raw, BODY_DEPTH)
    if not isinstance(value, Refusal):
        return value
    try:
        marked = marked_value(text)
    except ValueError:
        return refusal_for(Code.BAD_JSON)
    # Where the two looks do not agree, the text is refused: never taken on the word of one of them.
    return first_fault(marked, BODY_DEPTH) or refusal_for(Code.BAD_JSON)


def parse_items(raw: bytes) -> Parsed | Refusal:
    """Read a body of a call that has a bulk form (H3); each item is judged alone, by the rules of `parse`.

    A refusal of the whole is given only where it is no JSON at all, or where the envelope around the items is at fault.
    """
    text = _text_of(raw)
    value = _quick(text, raw, _BULK_DEPTH)
    if isinstance(value, dict) and "items" in value:
        return _bulk_of(value)
    if not isinstance(value, Refusal) and depth_of(raw) <= BODY_DEPTH:
        return Parsed(is_bulk=False, items=(value,))
    try:
        return _judged(marked_value(text))
    except ValueError:
        return refusal_for(Code.BAD_JSON)


def explain(value: object, limit: int = MAX_DEPTH) -> Refusal:
    """Say why a Python value that did not come from `parse` has no canonical form, or is too deep, and where."""
    try:
        marked = marked_value(json.dumps(value))
    except RecursionError:
        return refusal_for(Code.TOO_DEEP, "")
    except (TypeError, ValueError):
        return _NOT_A_VALUE
    return first_fault(marked, limit) or _NOT_A_VALUE


def _text_of(raw: bytes) -> str:
    """Return the text of a body; an empty one, which is not JSON either, for bytes that are not UTF-8."""
    try:
        return raw.decode("utf-8").strip(" \t\n\r")
    except UnicodeDecodeError:
        return ""


def _quick(text: str, raw: bytes, limit: int) -> Json | Refusal:
    """Read with the C scanner; the refusal that it gives is only a sign to look closer."""
    if depth_of(raw) > limit:
        return _LOOK_CLOSER
    try:
        value, end = _decoder.raw_decode(text)
    except ValueError:
        return _LOOK_CLOSER
    if end != len(text) or ((b"\\ud" in raw or b"\\uD" in raw) and _has_lone_surrogate(value)):
        return _LOOK_CLOSER
    return value  # type: ignore[no-any-return]  # JSON, by the hooks of the decoder


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Fault(Code.DUPLICATE_NAME)
    return members


def _constant(_word: str) -> Json:
    raise Fault(Code.NOT_FINITE)


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=whole_number, parse_float=real_number, parse_constant=_constant
)
_LOOK_CLOSER: Final = refusal_for(Code.BAD_JSON)
_NOT_A_VALUE: Final = Refusal(code=Code.INVALID_VALUE, detail="This is not a JSON value.", pointer="")


def _has_lone_surrogate(value: Json) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _judged(marked: Any) -> Parsed | Refusal:
    """Judge a body that the quick reader left: the envelope first, if it has one, then each item by itself."""
    members = pairs_of(marked)
    if all(name != "items" for name, _ in members):
        return Parsed(is_bulk=False, items=(first_fault(marked, BODY_DEPTH) or _LOOK_CLOSER,))
    # The envelope is judged with nothing in its items, so that their faults are not its own.
    bare = [(name, [] if name == "items" and isinstance(inner, list) else inner) for name, inner in members]
    fault = first_fault(Doubled(bare), _BULK_DEPTH)
    bulk = fault or _bulk_of(dict(members))
    if isinstance(bulk, Refusal):
        return bulk
    return Parsed(is_bulk=True, items=tuple(first_fault(item, BODY_DEPTH) or item for item in bulk.items))


def _bulk_of(value: dict[str, Json]) -> Parsed | Refusal:
    items = value["items"]
    stranger = next((name for name in value if name != "items"), None)
    if stranger is not None:
        detail = "A bulk body holds `items` and nothing beside it."
        return Refusal(code=Code.UNKNOWN_MEMBER, detail=detail, pointer=pointer_to([stranger]))
    if not isinstance(items, list) or not items:
        detail = f"`items` must be an array of 1 to {MAX_ITEMS} items."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/items")
    if len(items) > MAX_ITEMS:
        detail = f"{len(items)} items are too many for one call: send at most {MAX_ITEMS}."
        return Refusal(code=Code.TOO_MANY_ITEMS, detail=detail, pointer="/items")
    return Parsed(is_bulk=True, items=tuple(items))
