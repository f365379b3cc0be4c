"""The tools that a fence, a grant or a freeze can be about, as they stand now."""

from __future__ import annotations

from collections.abc import Mapping

from fencing.models.registry import current_registry, registry_at
from fencing.protocol.tools import ToolDefinition


def current_tools() -> Mapping[str, ToolDefinition]:
    """Every tool by its name, in one query while this process knows the newest registry."""
    return registry_at(current_registry())


def side_effecting_tools() -> list[str]:
    """The names of those that act, in order."""
    return sorted(tool.tool for tool in current_tools().values() if not tool.is_read_only)
