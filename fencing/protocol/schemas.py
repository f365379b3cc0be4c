"""JSON Schemas for the arguments of tools (T3): checked when a tool is registered, compiled once, applied often.

A schema is an administrator's; the arguments are anybody's. So a schema may ask nothing that hostile arguments could
make slow: patterns are RE2's, and the work of each check is counted (`matching`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.matching import OutOfAllowance, TooMuchWork, Validator, counted, work_for
from fencing.protocol.patterns import fault_of_pattern
from fencing.protocol.pointers import pointer_to

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCES: Final = ("$ref", "$dynamicRef")
_SHOWN: Final = 200

# What a pattern may be is asked of RE2, and not of Python's engine.
_NO_FORMATS: Final = FormatChecker(formats=())
# Without this registry jsonschema would fetch what a `$ref` names; with it, nothing outside the schema is found.
_NOTHING_ELSE: Final[Registry[Any]] = Registry()


def fault_of_schema(schema: dict[str, Json], *, at: str, is_stored: bool = False) -> Refusal | None:
    """Say why `schema` cannot be registered: no JSON Schema 2020-12, or one that refers to what is outside it.

    `at` is the pointer to the schema, put before the pointer of the refusal. One that was stored before a rule came is
    not asked by that rule: a pattern of it that RE2 cannot match lets no arguments through.
    """
    if schema.get("$schema", _DIALECT) != _DIALECT:
        return _refusal("The schema must be written in JSON Schema 2020-12.", at + "/$schema")
    try:
        Draft202012Validator.check_schema(schema, format_checker=_NO_FORMATS)
        parts = _Parts(schema)
        fault = _fault_of_references(DRAFT202012.create_resource(schema), parts)
        if fault is None and not is_stored:
            place_and_fault = parts.fault()
            if place_and_fault is not None:
                return _refusal(place_and_fault[1], at + place_and_fault[0])
        if fault is None:
            with counted():
                list(compiled(schema).iter_errors({}))
    except SchemaError as error:
        place = at + pointer_to(error.absolute_path)
        return _refusal(f"This is no JSON Schema: the rule `{error.validator}` does not hold here.", place)
    except Exception as trouble:  # noqa: BLE001 - a schema that refers to itself without end, say
        fault = f"The schema cannot be applied ({type(trouble).__name__})."
    return None if fault is None else _refusal(fault, at)


def compiled(schema: dict[str, Json]) -> Draft202012Validator:
    """Return the validator of a schema, to be kept: making one costs far more than using it."""
    # Where a schema names its dialect, the library would go on with its own validator of that dialect, and its engine.
    bare = {name: value for name, value in schema.items() if name != "$schema"}
    validator: Draft202012Validator = Validator(bare, registry=_NOTHING_ELSE)
    return validator


def fault_of_args(validator: Draft202012Validator, args: Json, *, at: str) -> Refusal | None:
    """Say why `args` do not fit the schema, with `invalid_args` and the place; None where they fit (T3).

    `at` is the pointer to the arguments. No value of them stands in the refusal: some are secret (U5). Never raises,
    but for `OutOfAllowance` inside `allowance()`.
    """
    try:
        with counted(work_for(args)):
            error = next(iter(validator.iter_errors(args)), None)
    except OutOfAllowance:
        raise
    except TooMuchWork:
        detail = "The arguments are more work to check against the tool's schema than is done for any."
        return Refusal(code=Code.INVALID_ARGS, detail=detail, pointer=at)
    except Exception as trouble:  # noqa: BLE001 - whatever a foreign schema makes the library do, the answer is no
        detail = f"The arguments could not be checked against the tool's schema ({type(trouble).__name__})."
        return Refusal(code=Code.INVALID_ARGS, detail=detail, pointer=at)
    if error is None:
        return None
    return Refusal(code=Code.INVALID_ARGS, detail=_sentence(error), pointer=at + pointer_to(error.absolute_path))


def _sentence(error: ValidationError) -> str:
    asked: Any = error.validator_value
    if error.validator == "required" and isinstance(error.instance, dict):
        missing = [name for name in asked if name not in error.instance]
        return _shortened(f"Missing by the tool's schema: {', '.join(missing)}")
    return _shortened(f"Not as the tool's schema asks here: {error.validator} {json.dumps(asked)}")


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= _SHOWN else sentence[: _SHOWN - 1] + "…"


def _refusal(detail: str, pointer: str) -> Refusal:
    return Refusal(code=Code.INVALID_TOOL, detail=detail, pointer=pointer)


class _Parts:
    """The schemas inside a schema that are looked at, each with the pointer to it."""

    def __init__(self, schema: dict[str, Json]) -> None:
        self._whole = schema
        self._seen: list[dict[str, Json]] = []

    def see(self, part: dict[str, Json]) -> None:
        """Note one that will be applied."""
        self._seen.append(part)

    def fault(self) -> tuple[str, str] | None:
        """Find what cannot be applied in linear work, or not as this dialect: the pointer to it, and why."""
        for part in self._seen:
            if part is not self._whole and "$schema" in part:
                return self._place(part, "$schema"), "`$schema` may stand only at the top of the schema."
            for pattern, inside in _patterns_of(part):
                detail = fault_of_pattern(pattern)
                if detail is not None:
                    return self._place(part, *inside), detail
        return None

    def _place(self, part: dict[str, Json], *inside: str) -> str:
        """Give the pointer to something in a part: a tree that was parsed holds each object once."""
        waiting: list[tuple[Json, tuple[str | int, ...]]] = [(self._whole, ())]
        while waiting:
            value, place = waiting.pop()
            if value is part:
                return pointer_to((*place, *inside))
            children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            waiting.extend((child, (*place, name)) for name, child in children)
        return ""


def _patterns_of(part: dict[str, Json]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give the patterns of one schema, each with the way to it."""
    asked, named = part.get("pattern"), part.get("patternProperties")
    if isinstance(asked, str):
        yield asked, ("pattern",)
    if isinstance(named, dict):
        yield from ((name, ("patternProperties", name)) for name in named)


def _fault_of_references(schema: SchemaResource, parts: _Parts) -> str | None:
    """Follow every reference of a schema: each must lead to a schema, and to one inside this very schema."""
    resolver = _NOTHING_ELSE.with_resource("", schema).resolver()
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part.contents) in seen or not isinstance(part.contents, dict):
            continue
        seen.add(id(part.contents))
        parts.see(part.contents)
        waiting.extend(part.subresources())
        if part.contents is not schema.contents and "$id" in part.contents:
            return "`$id` may stand only at the top of the schema."
        for reference in (part.contents[name] for name in _REFERENCES if name in part.contents):
            if not reference.startswith("#"):
                return "`$ref` may point only inside the schema itself (`#…`)."
            try:
                target = resolver.lookup(reference).contents
                # It may lead where no schema is looked for, so that nobody has checked yet what stands there.
                Draft202012Validator.check_schema(target, format_checker=_NO_FORMATS)
            except Unresolvable:
                return f"`$ref` points at nothing: {reference[:_SHOWN]}"
            except SchemaError:
                return f"`$ref` points at what is no schema: {reference[:_SHOWN]}"
            waiting.append(DRAFT202012.create_resource(target))
    return None
