"""The pieces that JSON Schemas of answers are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
TRUTH: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
ANYTHING: Final[Schema] = {}
PROBLEM: Final[Schema] = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/problem"}}}


def ref(name: str) -> Schema:
    """Refer to an object by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    """A member that is null where it does not apply."""
    return {"anyOf": [schema, {"type": "null"}]}


def array(of: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": of}


def shape(members: Mapping[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """An object whose members are all there, but for the optional ones. More of them may be added in time."""
    return {
        "type": "object",
        "properties": dict(members),
        "required": [name for name in members if name not in optional],
    }
