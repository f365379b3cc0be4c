"""Applying a schema to arguments, in an amount of work that no argument can raise without bound (T3).

The library's validator, with four differences: patterns are matched by RE2, whether items are unique and which members
are evaluated is told by sets instead of comparing everything with everything, and each step is counted. Where the
count runs out the arguments are not valid: the same arguments and the same schema always run out, or never do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator, ValidationError, validators

from fencing.protocol.patterns import compiled_pattern

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

MAX_WORK: Final = 500_000
"""Steps for one set of arguments; a step is a keyword at one place, about five microseconds."""

HURRIED: Final = 4_000
"""Steps that are taken where others wait meanwhile: about twenty milliseconds."""

_AT_LEAST: Final = 10_000
_FOR_A_CHARACTER: Final = 4

_MATCHED_A_STEP: Final = 200  # characters times program: what RE2 does at its slowest while a keyword is applied
_COMPARED_A_STEP: Final = 8  # values of an `enum`, names of a `required`
_WRITTEN_A_STEP: Final = 256  # characters: the library writes the value that it refuses into a sentence
_A_REFERENCE: Final = 3  # it is looked up each time

Keyword = Callable[[Any, Any, Any, Any], Any]


class TooMuchWork(Exception):
    """The arguments would take more work than is spent on any."""


class OutOfAllowance(Exception):
    """Whoever asked wanted to spend no more work: nothing is known of the arguments."""


@dataclass(slots=True)
class _Work:
    left: int

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


_work: Final[ContextVar[_Work]] = ContextVar("work")
_allowance: Final[ContextVar[_Work | None]] = ContextVar("allowance", default=None)


@contextmanager
def counted(most: int = MAX_WORK) -> Iterator[None]:
    """Count the work of what is validated inside, and raise `TooMuchWork` where there is too much of it.

    Raises `OutOfAllowance` where it is the allowance around it that ran out.
    """
    around = _allowance.get()
    work = _Work(most if around is None else min(most, around.left))
    given = work.left
    token = _work.set(work)
    try:
        yield
    except TooMuchWork:
        if given < most:
            raise OutOfAllowance from None
        raise
    finally:
        _work.reset(token)
        if around is not None:
            around.left -= given - max(work.left, 0)


class allowance:  # noqa: N801 - it is used as the function that it stands for, only quicker: each item asks for one
    """Spend at most so much work on all that is validated inside, and raise `OutOfAllowance` beyond.

    That tells nothing of the arguments: it is for whoever can hand over to somebody with more time, such as an event
    loop to a thread, or can stop and say how far they came.
    """

    __slots__ = ("_most", "_token")

    def __init__(self, most: int) -> None:
        self._most = most

    def __enter__(self) -> None:
        self._token = _allowance.set(_Work(self._most))

    def __exit__(self, *_: object) -> None:
        _allowance.reset(self._token)


def work_for(args: Json) -> int:
    """Say how much work a set of arguments may be: in proportion to what somebody took the trouble to send."""
    return min(MAX_WORK, _AT_LEAST + _FOR_A_CHARACTER * len(json.dumps(args)))


def _found(pattern: str, text: str) -> bool:
    compiled = compiled_pattern(pattern)
    _work.get().spend(1 + len(text) * compiled.programsize // _MATCHED_A_STEP)
    return compiled.search(text) is not None


# -- keywords that the library applies otherwise -----------------------------------------------------------------------


def _pattern(validator: Any, pattern: str, instance: Json, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not _found(pattern, str(instance)):
        yield ValidationError("The text does not match the pattern.")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Json, _schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, additional: Any, instance: Json, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in instance:
        if name in named or any(_found(pattern, name) for pattern in patterns):
            continue
        if additional is False:
            yield ValidationError("A member is not among those that are allowed.")
        else:
            yield from validator.descend(instance[name], additional, path=name)


def _unique_items(_validator: Any, is_asked: bool, instance: Json, _schema: Any) -> Iterator[ValidationError]:  # noqa: FBT001 - as the library calls it
    if not is_asked or not isinstance(instance, list):
        return
    _work.get().spend(len(instance))
    if len({json.dumps(item, sort_keys=True) for item in instance}) < len(instance):
        yield ValidationError("An item stands here twice.")


def _unevaluated(validator: Any, unevaluated: Any, instance: Json, schema: Any) -> Iterator[ValidationError]:
    """Judge what no other keyword said anything about: members of an object, or items of an array."""
    if not isinstance(instance, dict | list):
        return
    evaluated = _evaluated(validator, instance, schema)
    for place, value in _places(instance):
        if place not in evaluated and _first(validator.descend(value, unevaluated)) is not None:
            yield ValidationError("Something here is not among what is allowed.")


def _unevaluated_properties(validator: Any, unevaluated: Any, instance: Json, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        yield from _unevaluated(validator, unevaluated, instance, schema)


def _unevaluated_items(validator: Any, unevaluated: Any, instance: Json, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, list):
        yield from _unevaluated(validator, unevaluated, instance, schema)


def _places(instance: dict[str, Json] | list[Json]) -> Iterable[tuple[str | int, Json]]:
    return instance.items() if isinstance(instance, dict) else enumerate(instance)


def _evaluated(validator: Any, instance: dict[str, Json] | list[Json], schema: Any) -> set[str | int]:
    """Name the places that a schema says something about, itself or by the schemas that it applies in place."""
    _work.get().spend(1)
    if not isinstance(schema, dict):
        return set()
    found = (
        _of_object(validator, instance, schema)
        if isinstance(instance, dict)
        else _of_array(validator, instance, schema)
    )
    for reference in ("$ref", "$dynamicRef"):
        if reference in schema:
            resolved = validator._resolver.lookup(schema[reference])  # noqa: SLF001 - the library has no other way
            inner = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            found |= _evaluated(inner, instance, resolved.contents)
    for part in _in_place(validator, instance, schema):
        found |= _evaluated(validator, instance, part)
    return found


def _of_object(validator: Any, instance: dict[str, Json], schema: dict[str, Any]) -> set[str | int]:
    found: set[str | int] = set(schema.get("properties", {}).keys() & instance.keys())
    found |= {name for name in instance for pattern in schema.get("patternProperties", {}) if _found(pattern, name)}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            found |= {name for name, value in instance.items() if _holds(validator, value, schema[keyword])}
    return found


def _of_array(validator: Any, instance: list[Json], schema: dict[str, Any]) -> set[str | int]:
    if "items" in schema:
        return set(range(len(instance)))
    found: set[str | int] = set(range(min(len(instance), len(schema.get("prefixItems", [])))))
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema:
            found |= {index for index, item in enumerate(instance) if _holds(validator, item, schema[keyword])}
    return found


def _in_place(validator: Any, instance: dict[str, Json] | list[Json], schema: dict[str, Any]) -> Iterator[Any]:
    """Give the schemas inside a schema that hold for the same value."""
    for keyword in ("allOf", "oneOf", "anyOf"):
        yield from (part for part in schema.get(keyword, []) if _holds(validator, instance, part))
    if isinstance(instance, dict):
        yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in instance)
    if "if" in schema:
        holds = _holds(validator, instance, schema["if"])
        if holds:
            yield schema["if"]
        then = "then" if holds else "else"
        if then in schema:
            yield schema[then]


def _holds(validator: Any, value: Json, schema: Any) -> bool:
    return _first(validator.descend(value, schema)) is None


def _first(errors: Iterator[ValidationError]) -> ValidationError | None:
    return next(errors, None)


def _counting(name: str, keyword: Keyword) -> Keyword:
    own = _A_REFERENCE if name in ("$ref", "$dynamicRef") else 1

    def applied(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _work.get().spend(own + (len(value) // _COMPARED_A_STEP if isinstance(value, list) else 0))
        errors = keyword(validator, value, instance, schema)
        return errors if errors is None else _weighed(errors)

    return applied


def _weighed(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    for error in errors:
        _work.get().spend(len(error.message) // _WRITTEN_A_STEP)
        yield error


_OWN: Final[Mapping[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}
_KEYWORDS: Final = {**Draft202012Validator.VALIDATORS, **_OWN}

Validator: Final[Any] = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {name: _counting(name, keyword) for name, keyword in _KEYWORDS.items()}
)
"""JSON Schema 2020-12 without backtracking. It validates inside `counted()` alone."""
