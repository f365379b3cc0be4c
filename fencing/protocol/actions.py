"""Actions: a tool call as data, with the two digests by which everything else knows it (C1 to C7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from fencing.protocol.canonical import MAX_CANONICAL, MAX_DEPTH, NoCanonicalForm, canonical_bytes, digest_of
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.json_faults import depth_of
from fencing.protocol.pointers import ABSENT, resolve, without
from fencing.protocol.strict_json import explain

if TYPE_CHECKING:
    # Not at run time: the client reads actions, and needs no JSON Schema for that.
    from fencing.protocol.strict_json import Json
    from fencing.protocol.tools import ToolDefinition

ToolLookup: TypeAlias = "Callable[[str], ToolDefinition | None]"
"""How the reader of an action learns what its tool declares; None for a tool that is not registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A tool call that has a canonical form (C1, C2).

    `canonical` are the bytes that are stored, hashed and sent, never the caller's spelling (C7). `payload_digest` is
    made over all of them; `fence_digest`, by which votes are compared, leaves the tool's advisory members out (C6).
    """

    tool: str
    args: dict[str, Json]
    canonical: bytes
    payload_digest: str
    fence_digest: str


def no_tools(_tool: str) -> ToolDefinition | None:
    """Look up no tool at all: for readers of actions without a registry, to whom nothing is advisory (C6)."""
    return None


def read_action(value: Json, tools: ToolLookup = no_tools, *, at: str = "") -> Action | Refusal:
    """Read a parsed JSON value as an action, or say why it is none.

    `tools` tells what is advisory; a tool that it does not know declares nothing. (Whether such a tool may act is not
    asked here.) `at` is the pointer to the action in the body, put before the pointers of a refusal.
    Refuses with `invalid_action` (C1), `too_deep`, `too_large` or, for values that did not come from the strict parser,
    any other code of C3. Never raises.
    """
    members = _members_of(value)
    if isinstance(members, Refusal):
        return _moved(members, at)
    tool, args = members
    try:
        canonical = canonical_bytes(value)
    except NoCanonicalForm:
        return _moved(explain(value), at)
    if len(canonical) > MAX_CANONICAL:
        detail = f"The canonical action has {len(canonical)} bytes; at most {MAX_CANONICAL} are taken."
        return Refusal(code=Code.TOO_LARGE, detail=detail, pointer=at)
    if depth_of(canonical) > MAX_DEPTH:
        return _moved(explain(value), at)
    payload, advisory = digest_of(canonical), _advisory_of(tools(tool))
    fence = fence_digest(tool, args, advisory) if advisory else payload
    return Action(tool=tool, args=args, canonical=canonical, payload_digest=payload, fence_digest=fence)


def fence_digest(tool: str, args: Mapping[str, Json], advisory: Sequence[str]) -> str:
    """Return the digest of an action without its advisory members, given as JSON Pointers into `args` (C6).

    Raises `NoCanonicalForm` for arguments that have none.
    """
    return digest_of(canonical_bytes({"tool": tool, "args": without(dict(args), advisory)}))


def resources_of(args: Mapping[str, Json], pointers: Sequence[str]) -> tuple[str, ...]:
    """Return what an action touches, as text, each thing once and in the order of the pointers (T3).

    A string stands for itself, any other value as its canonical text; a pointer that leads nowhere is left out.
    """
    found = (resolve(dict(args), pointer) for pointer in pointers)
    return tuple(dict.fromkeys(_text_of(value) for value in found if value is not ABSENT))


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()


def _members_of(value: Json) -> tuple[str, dict[str, Json]] | Refusal:
    if not isinstance(value, dict) or value.keys() != {"tool", "args"}:
        return _invalid("An action is an object with exactly the members `tool` and `args`.", "")
    tool, args = value["tool"], value["args"]
    if not is_identifier(tool):
        return _invalid("`tool` must be an identifier.", "/tool")
    if not isinstance(args, dict):
        return _invalid("`args` must be an object.", "/args")
    return tool, args


def _advisory_of(definition: ToolDefinition | None) -> Sequence[str]:
    return definition.advisory if definition is not None else ()


def _invalid(detail: str, pointer: str) -> Refusal:
    return Refusal(code=Code.INVALID_ACTION, detail=detail, pointer=pointer)


def _moved(refusal: Refusal, at: str) -> Refusal:
    return replace(refusal, pointer=at + (refusal.pointer or ""))
