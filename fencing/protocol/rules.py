"""What a tool's definition asks of the fence and of the gateway, as the pure core's own values (T2 to T4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencing.protocol.fence import Rules
from fencing.protocol.intents import Retries
from fencing.protocol.policies import Policy
from fencing.protocol.tools import Mode

if TYPE_CHECKING:
    from fencing.protocol.tools import ToolDefinition


PUSH_MARGIN_S = 5


def rules_of(definition: ToolDefinition | None) -> Rules:
    """Say what a tool asks of the fence; the defaults while nobody told the tool."""
    if definition is None:
        policy = Policy()
        return Rules(grace_s=policy.grace_s, max_grant_ttl_s=policy.max_grant_ttl_s)
    policy = definition.policy
    return Rules(
        required_paths=policy.required_paths,
        trusted_path=policy.trusted_path,
        grace_s=policy.grace_s,
        is_read_only=definition.is_read_only,
        is_optimistic=definition.optimistic,
        has_advisory=bool(definition.advisory),
        grant_approvals=policy.grant_approvals,
        max_grant_ttl_s=policy.max_grant_ttl_s,
    )


def retries_of(definition: ToolDefinition | None) -> Retries:
    """Say how a tool may be tried again; an unknown tool is never tried again."""
    if definition is None:
        return Retries(is_idempotent=False)
    policy, lease_s = definition.policy, definition.policy.lease_s
    if definition.mode is Mode.PUSH:
        # A call that is still allowed to be under way must not be given to another worker.
        lease_s = max(lease_s, policy.timeout_s + PUSH_MARGIN_S)
    return Retries(is_idempotent=definition.idempotent, max_deliveries=policy.max_deliveries, lease_s=lease_s)


def deadline_of(definition: ToolDefinition | None, own_s: float | None, proposed_at: datetime) -> datetime:
    """Say when silence rejects: the planner's deadline, else the tool's (F1, T4)."""
    return proposed_at + timedelta(seconds=silence_of(definition) if own_s is None else own_s)


def silence_of(definition: ToolDefinition | None) -> float:
    """Say how many seconds of silence reject a step of this tool, where its planner named none (T4)."""
    return (Policy() if definition is None else definition.policy).deadline_s
