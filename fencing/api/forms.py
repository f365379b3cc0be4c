"""The form of what is sent: bodies and parameters against the dataclasses of the services, each fault by its code.

One machine for both. It is built when the module is imported, from the fields of a dataclass; per request it only
validates. The dataclasses stay plain: pydantic's strict dataclasses take no JSON objects, its strict TypedDicts do.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Generic, NotRequired, Required, TypeVar

from pydantic import ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict  # pydantic takes the one of `typing` only from Python 3.12

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pointers import pointer_to
from fencing.services.requests import Digest, Identifier

R = TypeVar("R")
# What a caller says freely goes to cold storage or is stored as the bytes that were hashed; the rest becomes text in
# the database, which has no place for U+0000.
FREE_MEMBERS: Final = frozenset({"action", "context", "response", "rationale", "body", "inputs"})
MAX_NAME_TOLD: Final = 300
BODY: Final = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True, regex_engine="python-re")
QUERY: Final = ConfigDict(extra="forbid", strict=False, arbitrary_types_allowed=True, regex_engine="python-re")


class Form(Generic[R]):
    """How one dataclass is read from a JSON object (`strict`), or from query parameters, which are all text."""

    def __init__(self, target: type[R], *, is_query: bool = False) -> None:
        self.target = target
        self.is_query = is_query
        fields = dataclasses.fields(target)  # type: ignore[arg-type]
        hints = typing.get_type_hints(target, include_extras=True)
        self._defaults = {each.name: each.default for each in fields if each.default not in (None, dataclasses.MISSING)}
        members = {each.name: _member(each, hints[each.name]) for each in fields}
        shape = TypedDict(target.__name__, members)  # type: ignore[misc]
        shape.__pydantic_config__ = QUERY if is_query else BODY  # type: ignore[attr-defined]
        self.names = tuple(members)
        self._adapter: TypeAdapter[Any] = TypeAdapter(shape)
        self._texts = tuple(name for name in members if name not in FREE_MEMBERS)

    def read(self, value: object) -> R | Refusal:
        """Make the request from what was sent, or tell the first thing that is wrong with it and where."""
        if isinstance(value, Refusal):
            return value
        if self._defaults and isinstance(value, dict) and any(value.get(name, 0) is None for name in self._defaults):
            value = {name: each for name, each in value.items() if each is not None or name not in self._defaults}
        try:
            members = self._adapter.validate_python(value)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            # A name that nobody knows explains a member that is missing better than the other way round (N8).
            first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
            return refusal_of(first, is_query=self.is_query)
        for name in self._texts:
            each = members.get(name)
            if each is None or (type(each) is str and "\0" not in each):
                continue
            if (at := _null_character(each, [name])) is not None:
                return Refusal(
                    code=Code.INVALID_VALUE, detail="U+0000 has no place in a text here.", pointer=pointer_to(at)
                )
        return self.target(**members)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the form, for the OpenAPI document."""
        schema: dict[str, Any] = _inlined(_in_ecma(self._adapter.json_schema()))
        schema["title"] = self.target.__name__
        return schema


def refusal_of(error: ErrorDetails, *, is_query: bool = False) -> Refusal:
    """Translate pydantic's error into the protocol's code for it (N1, N8, C2, C3)."""
    kind = error["type"]
    pattern = error.get("ctx", {}).get("pattern")
    name = ".".join(str(part) for part in error["loc"])[:MAX_NAME_TOLD] or "the body"
    if kind == "extra_forbidden":
        code, detail = Code.UNKNOWN_MEMBER, f"`{name}` is not a {'parameter' if is_query else 'member'} of this call."
    elif kind == "missing":
        code, detail = Code.INVALID_VALUE, f"`{name}` is missing."
    elif kind == "string_pattern_mismatch" and pattern == IDENTIFIER_PATTERN:
        code = Code.INVALID_IDENTIFIER
        detail = f"`{name}` must be 1 to 200 characters of A-Z a-z 0-9 . _ : @ -, the first a letter or digit."
    elif kind == "string_pattern_mismatch" and pattern == DIGEST_PATTERN:
        code, detail = Code.INVALID_DIGEST, f"`{name}` must be `sha256:` and 64 lower-case hexadecimal digits."
    else:
        code, detail = Code.INVALID_VALUE, f"`{name}`: {_in_words_of_json(error['msg'])}."
    if is_query:
        return Refusal(code=code, detail=detail, extras={"parameter": name})
    return Refusal(code=code, detail=detail, pointer=pointer_to(error["loc"]))


def _in_words_of_json(message: str) -> str:
    return message.replace("dictionary", "object").replace("tuple", "array").replace("mapping", "object")


def _pattern_in(hint: Any) -> str:
    found = (getattr(each, "pattern", None) for field in hint.__metadata__ for each in field.metadata)
    return next(str(pattern) for pattern in found if pattern)


IDENTIFIER_PATTERN: Final = _pattern_in(Identifier)
DIGEST_PATTERN: Final = _pattern_in(Digest)


def _member(field: dataclasses.Field[Any], hint: Any) -> Any:
    is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return Required[_lax_tuple(hint)] if is_required else NotRequired[_lax_tuple(hint)]


def _lax_tuple(hint: Any) -> Any:
    """Let a JSON array become a tuple, which strictness forbids; what is inside stays strict."""
    if typing.get_origin(hint) is Annotated and typing.get_origin(hint.__origin__) is tuple:
        return Annotated[(hint.__origin__, *hint.__metadata__, Strict(strict=False))]
    return hint


def _null_character(value: object, at: list[str | int]) -> list[str | int] | None:
    if isinstance(value, str):
        return at if "\0" in value else None
    if isinstance(value, Mapping):
        for name, each in value.items():
            if "\0" in name or _null_character(each, at) is not None:
                return [*at, name]
    elif isinstance(value, Sequence):
        for index, each in enumerate(value):
            if _null_character(each, at) is not None:
                return [*at, index]
    return None


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Put each inner object where it is used: the document has one place for names, and this is none of them."""
    inner = schema.pop("$defs", {})

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            return put(inner[name]) if name in inner else {key: put(each) for key, each in value.items()}
        return [put(each) for each in value] if isinstance(value, list) else value

    made: dict[str, Any] = put(schema)
    return made


def _in_ecma(schema: Any) -> Any:
    """Spell Python's end-of-text anchor as JSON Schema's dialect does, and leave our own marks out."""
    if isinstance(schema, dict):
        return {name: _in_ecma(each) for name, each in schema.items() if name != "kind"}
    if isinstance(schema, list):
        return [_in_ecma(each) for each in schema]
    return schema.replace(r"\Z", "$") if isinstance(schema, str) else schema
