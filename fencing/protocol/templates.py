"""Templates of compensating actions: what undoes an effect, built from the effect itself (T3, P2).

A template is the compensator's arguments with references in some places. A reference is an object with the members
`from` (`action` or `response`) and `pointer`, and perhaps `default`; every other value stands for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeGuard

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.members import Unfit
from fencing.protocol.pointers import ABSENT, is_pointer, parts_of, pointer_to, resolve

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

_REFERENCE_MEMBERS: Final = frozenset({"from", "pointer", "default"})
_ACTION_MEMBERS: Final = frozenset({"tool", "args"})


class Source(StrEnum):
    """What a reference of a template points into."""

    ACTION = "action"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensator:
    """How effects of a tool are undone: by a call of `tool` with `args`, a template."""

    tool: str
    args: dict[str, Json]


def check_template(args: dict[str, Json], *, at: str) -> None:
    """Raise `Unfit` at the first reference of a template that is malformed. `at` is the pointer to `args`."""
    for name, value in args.items():
        _check(value, at + pointer_to([name]))


def render(compensator: Compensator, action: Json, response: Json) -> Json | Refusal:
    """Return the exact action that undoes an effect, from that effect's `action` and the `response` of its tool (P2).

    Refuses with `invalid_value` where the template points at something that is not there and names no default: then
    nothing can be sent, and a person must act. The template must have passed `check_template`.
    """
    sources: dict[str, Json] = {Source.ACTION: action, Source.RESPONSE: response}
    try:
        args = {name: _filled(value, sources, pointer_to(["args", name])) for name, value in compensator.args.items()}
    except Unfit as unfit:
        return unfit.refusal
    return {"tool": compensator.tool, "args": args}


def _is_reference(value: Json) -> TypeGuard[dict[str, Json]]:
    """Whether `value` is meant as a reference, be it malformed: a slip must not turn one into a constant."""
    if not isinstance(value, dict) or "from" not in value:
        return False
    return "pointer" in value or value["from"] in list(Source)


def _check(value: Json, at: str) -> None:
    if _is_reference(value):
        detail = _fault_of_reference(value)
        if detail is not None:
            raise Unfit(Code.INVALID_TOOL, detail, at)
    elif isinstance(value, dict):
        check_template(value, at=at)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            _check(element, at + pointer_to([index]))


def _fault_of_reference(reference: dict[str, Json]) -> str | None:
    source, pointer = reference["from"], reference.get("pointer")
    if not reference.keys() <= _REFERENCE_MEMBERS:
        return "A reference has the members `from`, `pointer` and perhaps `default`, and no other."
    if source not in list(Source):
        return "`from` must be `action` or `response`."
    if not isinstance(pointer, str) or not is_pointer(pointer):
        return "`pointer` must be a JSON Pointer."
    parts = parts_of(pointer)
    if source == Source.ACTION and parts and parts[0] not in _ACTION_MEMBERS:
        return "An action has only `/tool` and `/args` to point at."
    return None


def _filled(value: Json, sources: dict[str, Json], at: str) -> Json:
    if _is_reference(value):
        return _found(value, sources, at)
    if isinstance(value, dict):
        return {name: _filled(inner, sources, at + pointer_to([name])) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, sources, at + pointer_to([index])) for index, inner in enumerate(value)]
    return value


def _found(reference: dict[str, Json], sources: dict[str, Json], at: str) -> Json:
    source, pointer = str(reference["from"]), str(reference["pointer"])
    found = resolve(sources[source], pointer)
    if found is not ABSENT:
        return found
    if "default" not in reference:
        detail = f"The effect's {source} has no {pointer}, and the template names no default for it."
        raise Unfit(Code.INVALID_VALUE, detail, at)
    return reference["default"]
