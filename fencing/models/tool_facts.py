"""The registry's rows as values of the pure core."""

from __future__ import annotations

from collections.abc import Iterable

from fencing.models.tools import ToolChange, ToolVersion
from fencing.protocol.tool_changes import Pending
from fencing.protocol.tools import ToolDefinition, stored_tool


def current_of(tool: str) -> ToolVersion | None:
    """The current version of a tool; None where it was never registered."""
    return ToolVersion.objects.select_related("person").filter(tool=tool).order_by("-pk").first()


def definition_of(row: ToolVersion | ToolChange) -> ToolDefinition:
    """The definition that a row holds."""
    return stored_tool(bytes(row.definition))


def pending_of(row: ToolChange, approvers: Iterable[int], current: ToolVersion | None) -> Pending:
    """A change as facts; `row.base` must be there, `current` is the tool's version now."""
    return Pending(
        tool=row.tool,
        base=row.base.version,
        current=row.base.version if current is None else current.version,
        digest=row.digest,
        proposer=row.proposer_id,
        approvers=frozenset(approvers),
        approvals_needed=row.approvals_needed,
        expires_at=row.expires_at,
        closed_as=row.closed_as,
    )
