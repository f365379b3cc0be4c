"""Writing the registry: one version after the other, or a change that waits (T1). Under one lock, by one writer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import connection

from fencing.models import ToolChange, ToolVersion
from fencing.models.facts import read_clock
from fencing.models.tool_facts import definition_of
from fencing.protocol import tool_changes
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tools import ToolDefinition
from fencing.services.writes import Writes

# One writer at a time, so that ids are handed out in the order of commit: a version of the registry never changes.
REGISTRY_LOCK: Final = 0x66656E6365  # "fence"
KIND: Final = "tool"


def lock_registry() -> datetime:
    """Keep every other writer of the registry out until the transaction ends; give the database's clock after that."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [REGISTRY_LOCK])
    return read_clock()


def check_compensator(definition: ToolDefinition, known: Mapping[str, object]) -> Refusal | None:
    """Refuse a compensator that is no registered tool: nothing could be undone by it."""
    compensator = definition.compensator
    if compensator is None or compensator.tool in known:
        return None
    detail = f"The compensator {compensator.tool} of {definition.tool} is not registered: register it first."
    return Refusal(code=Code.INVALID_TOOL, detail=detail, pointer="/compensator/tool")


def add_version(
    definition: ToolDefinition,
    before: ToolVersion | None,
    writes: Writes,
    *,
    reason: str = "",
    change: ToolChange | None = None,
) -> ToolVersion:
    """Make a definition the current one of its tool. The registry must be locked, and what weakens approved."""
    weakens = () if before is None else definition.is_weaker_than(definition_of(before))
    row = ToolVersion.objects.create(
        tool=definition.tool,
        version=1 if before is None else before.version + 1,
        digest=definition.digest,
        weakens=list(weakens),
        change=change,
        # Whose will it is: the proposer's; who approved it stands with the change.
        person_id=writes.caller.person_id if change is None else change.proposer_id,
        reason=reason if change is None else change.reason,
        **_columns(definition),
    )
    writes.audit(
        "change_tool" if before is not None else "register_tool",
        KIND,
        definition.tool,
        before=None if before is None else _told(before),
        after=_told(row) | {"change": None if change is None else str(change.pk)},
        reason=row.reason,
    )
    return row


def propose_change(
    definition: ToolDefinition, base: ToolVersion, writes: Writes, now: datetime, *, reason: str, lookback: Any = None
) -> tuple[ToolChange, bool]:
    """Have a change that weakens the fence wait; give it, and whether it is new. The registry must be locked."""
    waiting = ToolChange.objects.filter(
        tool=base.tool, base=base, digest=definition.digest, closed_at__isnull=True, expires_at__gt=now
    ).first()
    if waiting is not None:
        return waiting, False
    proposer = writes.caller.person_id
    row = ToolChange.objects.create(
        tool=base.tool,
        base=base,
        definition=canonical_bytes(definition.as_json()),
        digest=definition.digest,
        weakens=list(definition.is_weaker_than(definition_of(base))),
        lookback=lookback,
        approvals_needed=tool_changes.approvals_needed(proposer),
        proposer_id=proposer,
        reason=reason,
        proposed_at=now,
        expires_at=tool_changes.expires_at(now),
    )
    after = {"change": str(row.pk), "digest": row.digest, "weakens": row.weakens, "until": row.expires_at.isoformat()}
    writes.audit("propose_tool_change", KIND, base.tool, before=_told(base), after=after, reason=reason)
    return row, True


def _told(row: ToolVersion) -> dict[str, Any]:
    return {"version": row.version, "registry": row.pk, "digest": row.digest, "weakens": row.weakens}


def _columns(definition: ToolDefinition) -> dict[str, Any]:
    policy = definition.policy
    return {
        "definition": canonical_bytes(definition.as_json()),
        "is_read_only": definition.is_read_only,
        "is_idempotent": definition.idempotent,
        "is_optimistic": definition.optimistic,
        "mode": str(definition.mode),
        "required_paths": list(policy.required_paths),
        "trusted_path": policy.trusted_path,
        "grant_approvals": policy.grant_approvals,
        "max_grant_ttl_s": policy.max_grant_ttl_s,
    }
