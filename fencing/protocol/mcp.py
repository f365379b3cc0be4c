"""Tools as a Model Context Protocol server lists them: names, schemas, and hints that nobody has to believe (T2).

A listing may fill a form. Nothing is ever set by it: whoever wrote it may be wrong, or may want to be believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pointers import pointer_to

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

MAX_LISTED: Final = 500
# What the annotations of a tool say, in words: where they claim something, and where they claim the opposite.
CLAIMS: Final = {
    "readOnlyHint": ("it only reads", "it changes something"),
    "destructiveHint": ("it may destroy something", "it only adds"),
    "idempotentHint": ("calling it again changes nothing more", "each call has an effect of its own"),
    "openWorldHint": ("it reaches the world outside", "it stays inside its own system"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One tool of a listing. `hints` is its whole entry but for the schema, as it stood there."""

    name: str
    input_schema: dict[str, Json] | None
    hints: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing that hints say. `contradicts` is what the definition says instead; empty where it does not."""

    word: str
    says: str
    contradicts: str = ""


def read_listing(value: Json) -> tuple[Listed, ...] | Refusal:
    """Read the answer of `tools/list`, its `result`, its `tools`, or one tool alone; tell where it is none."""
    at: tuple[str | int, ...] = ()
    for member in ("result", "tools"):
        if isinstance(value, dict) and member in value:
            value, at = value[member], (*at, member)
    if isinstance(value, dict):
        value, is_list = [value], False
    else:
        is_list = True
    if not isinstance(value, list):
        return _refusal("This is no listing of tools: an object with `tools`, or a list of them, is.", at)
    if not value:
        return _refusal("The listing holds no tool.", at)
    if len(value) > MAX_LISTED:
        return _refusal(f"The listing holds {len(value)} tools; paste at most {MAX_LISTED}.", at)
    found = []
    for index, entry in enumerate(value):
        here = (*at, index) if is_list else at
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            return _refusal("A tool of a listing is an object with a `name`.", here)
        schema = entry.get("inputSchema")
        if schema is not None and not isinstance(schema, dict):
            return _refusal("The schema of a tool is an object.", (*here, "inputSchema"))
        hints = {name: each for name, each in entry.items() if name != "inputSchema"}
        found.append(Listed(name=str(entry["name"]), input_schema=schema, hints=hints))
    return tuple(found)


def claims_of(hints: Json, *, is_read_only: bool | None = None, is_idempotent: bool | None = None) -> tuple[Claim, ...]:
    """Tell what hints say that stands in MCP's annotations, and where the definition says something else."""
    if not isinstance(hints, dict):
        return ()
    annotations = hints.get("annotations", hints)
    if not isinstance(annotations, dict):
        return ()
    said = {"readOnlyHint": (is_read_only, "read-only"), "idempotentHint": (is_idempotent, "idempotent")}
    found = []
    for word, (yes, no) in CLAIMS.items():
        claim = annotations.get(word)
        if isinstance(claim, bool):
            own, what = said.get(word, (None, ""))
            differs = own is not None and own is not claim
            against = f"registered as {'' if own else 'not '}{what}" if differs else ""
            found.append(Claim(word=word, says=yes if claim else no, contradicts=against))
    return tuple(found)


def _refusal(detail: str, at: tuple[str | int, ...]) -> Refusal:
    return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer=pointer_to(at))
