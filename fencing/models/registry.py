"""The registry of tools as of a version: read once, kept in the process, for a version never changes (T1)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from django.db.models import Max

from fencing.models.tools import ToolVersion
from fencing.protocol.fence import Rules
from fencing.protocol.rules import rules_of
from fencing.protocol.tools import ToolDefinition, stored_tool

ASK_AGAIN_S: Final = 1.0
# Who looks ahead (`hear_registry`) asks first; others ask where nobody did.
LATEST_S: Final = 5.0
# The newest version that this process has heard of, and when it asked.
_heard: list[tuple[int, float]] = [(0, -LATEST_S)]


def current_registry() -> int:
    """The newest version of the registry; 0 while no tool is registered."""
    return ToolVersion.objects.aggregate(newest=Max("id"))["newest"] or 0


def newest_registry() -> int:
    """The newest version of the registry that this process has heard of; asked anew after a moment.

    Only for what tells the database which version it was read by, and is done again where that is not the newest.
    """
    version, asked_at = _heard[0]
    if time.monotonic() - asked_at > LATEST_S:
        version = hear_registry()
    return version


def hear_registry() -> int:
    """Ask for the newest version now, and read it."""
    _heard[0] = (current_registry(), time.monotonic())
    registry_at(_heard[0][0])
    return _heard[0][0]


def is_registry_heard() -> bool:
    """Whether the newest version was asked for a moment ago, so that nobody has to wait for it now."""
    return time.monotonic() - _heard[0][1] <= ASK_AGAIN_S


@lru_cache(maxsize=64)
def registry_at(version: int) -> Mapping[str, ToolDefinition]:
    """The tools by name, as they were at a version of the registry."""
    newest = ToolVersion.objects.filter(id__lte=version).order_by("tool", "-id").distinct("tool")
    return MappingProxyType({row.tool: stored_tool(bytes(row.definition)) for row in newest})


@lru_cache(maxsize=256)
def known_rules(definition: ToolDefinition | None) -> Rules:
    """What a registered tool asks of the fence, worked out once: its digest stands for all of it."""
    return rules_of(definition)
