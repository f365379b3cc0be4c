"""Which members of actions are sensitive, and actions as those may read them who may not see everything (U5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fencing.models import ToolVersion
from fencing.protocol.callers import Caller, Role
from fencing.protocol.masking import mask
from fencing.protocol.objects import Object

MAX_VERSIONS: Final = 500


def definitions_of(tools: Iterable[str]) -> list[ToolVersion]:
    """Every version of some tools, the oldest first."""
    return list(ToolVersion.objects.filter(tool__in=sorted(tools)).order_by("id")[:MAX_VERSIONS])


def sensitive_members(tools: Iterable[str]) -> dict[str, frozenset[str]]:
    """The members that any version of some tools calls sensitive, by tool: what was masked once stays masked."""
    found: dict[str, frozenset[str]] = {}
    for version in definitions_of(tools):
        pointers = frozenset(json.loads(bytes(version.definition)).get("sensitive", ()))
        if pointers:
            found[version.tool] = found.get(version.tool, frozenset()) | pointers
    return found


def mask_for(caller: Caller, actions: Iterable[Any]) -> list[Any]:
    """Give actions as a key may read them: what any version of their tools calls sensitive is masked for most."""
    given = list(actions)
    hidden = {str(each["tool"]) for each in given if each is not None and not _knows(caller, each)}
    members = sensitive_members(hidden) if hidden else {}
    return [each if each is None else mask(each, sorted(members.get(str(each["tool"]), ()))) for each in given]


def masked_for(caller: Caller, bodies: Sequence[Object]) -> list[Object]:
    """Give objects that have an `action` as a key may read them."""
    shown = mask_for(caller, (body["action"] for body in bodies))
    return [{**body, "action": action} for body, action in zip(bodies, shown, strict=True)]


def _knows(caller: Caller, action: Any) -> bool:
    """Whether a key knows an action whole: who proposed it does, and who carries its tool's effects out has to."""
    if caller.role is Role.GATEWAY:
        return caller.tools is None or str(action["tool"]) in caller.tools
    return caller.role is Role.PLANNER
