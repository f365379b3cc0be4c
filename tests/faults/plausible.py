"""Plausible calls, made from the OpenAPI document, so that a call that is built tomorrow is tried tomorrow.

Members have the value that is known for their name, or one that fits their schema. A call that names what nobody here
knows is made all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.stories import REFUND

PREFIX: Final = "/api/v1"
NOBODY: Final = "01a22b46-1853-7960-98fe-c35f1bdd7062"
DIGEST: Final = "sha256:" + "7" * 64
Schema = Mapping[str, Any]
Known = Mapping[str, Any]

# What every name means where nothing better is known. Names of objects are told by who asks for a call.
WORDS: Final[Known] = {
    "action": REFUND,
    "digest": DIGEST,
    "tool": "refund",
    "path": "production",
    "ttl_s": 60,
    "max_uses": 1,
    "reason": "The replica's host is down since 02:10.",
    "evidence": "Seen in the tool's own ledger.",
    "happened": True,
    "outcome": "succeeded",
    "response": {"refund_id": "r-1"},
    "labels": {"ticket": "4711"},
    "context": {"ticket": 4711},
    "abstain": "The model did not answer.",
    "key": "k-1",
    "external_id": "r-1",
    "deadline_s": 60,
    "thresholds": {},
    "branches": ["a", "b"],
    "winner": "a",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One call of the document."""

    method: str
    path: str
    schema: Schema | None
    has_bulk: bool

    @property
    def name(self) -> str:
        """Method and path, as the protocol writes them; names in the path are in braces."""
        return f"{self.method} {self.path}"

    def address(self, known: Known) -> str:
        """The path with its names filled in."""
        address = self.path
        for part in self.path.split("/"):
            if part.startswith("{"):
                address = address.replace(part, str(known.get(part[1:-1], NOBODY)))
        return address

    def bodies(self, known: Known) -> Iterator[dict[str, Any]]:
        """What could be sent: the members that are required, each other one beside them, and all of them."""
        if self.schema is None:
            return
        properties = self.schema.get("properties", {})
        made = {name: value_of(name, schema, {**WORDS, **known}) for name, schema in properties.items()}
        required = {name: made[name] for name in self.schema.get("required", ())}
        yield required
        for name in made.keys() - required.keys():
            yield {**required, name: made[name]}
        yield made


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """Every call of a document, in its order."""
    return [
        _operation(method.upper(), path.removeprefix(PREFIX), told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    if "requestBody" not in told:
        return Operation(method=method, path=path, schema=None, has_bulk=False)
    schema = told["requestBody"]["content"]["application/json"]["schema"]
    options = schema.get("anyOf", [schema])
    return Operation(method=method, path=path, schema=options[0], has_bulk=len(options) > 1)


def value_of(name: str, schema: Schema, known: Known) -> Any:
    """A value for a member: the one that is known for its name, else one that fits."""
    return known[name] if name in known else _fitting(schema, known)


def _fitting(schema: Schema, known: Known) -> Any:
    options = [option for option in schema.get("anyOf", schema.get("oneOf", ())) if option.get("type") != "null"]
    if options:
        return _fitting(options[0], known)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    plain: Known = {"integer": schema.get("minimum", 1), "number": schema.get("minimum", 1), "boolean": True}
    match schema.get("type"):
        case "object":
            inner = schema.get("properties", {})
            return {name: value_of(name, inner[name], known) for name in schema.get("required", ())}
        case "array":
            return [_fitting(schema.get("items", {}), known)]
        case kind:
            return plain.get(str(kind), "x")
