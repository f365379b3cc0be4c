"""Which members of actions are sensitive, and actions as those may read them who may not see everything (U5)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from fencing.models import ToolVersion
from fencing.protocol.callers import Caller, Role
from fencing.protocol.masking import mask

MAX_VERSIONS: Final = 500
# Who proposed an action knows it, and who carries it out has to.
KNOW_IT: Final = frozenset({Role.PLANNER, Role.GATEWAY})


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
    if caller.role in KNOW_IT:
        return given
    members = sensitive_members({str(action["tool"]) for action in given if action is not None})
    return [
        action if action is None else mask(action, sorted(members.get(str(action["tool"]), ()))) for action in given
    ]
