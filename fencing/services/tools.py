"""Loading the registry of tools from a file (T1). Every change is a new version; what is there already is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction

from fencing.models import ToolChange, ToolVersion
from fencing.models.deployment import is_production
from fencing.models.registry import current_registry, registry_at
from fencing.models.tool_facts import current_of
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.services.tool_versions import (
    REGISTRY_LOCK,
    add_version,
    check_compensator,
    lock_registry,
    propose_change,
)
from fencing.services.writes import Writes

__all__ = ["REGISTRY_LOCK", "LoadReport", "LoadedTool", "WaitingTool", "load_definitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTool:
    """One tool that got a new version. `weakens` tells, as sentences, in what it fences less than before."""

    tool: str
    version: int
    registry: int
    digest: str
    weakens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTool:
    """One tool of which a change waits for administrators, since it weakens the fence. `id` names the change."""

    tool: str
    id: str
    digest: str
    approvals_needed: int
    weakens: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What loading changed, what waits, and the version of the registry after it."""

    registry: int
    changes: tuple[LoadedTool, ...]
    waiting: tuple[WaitingTool, ...] = ()


def load_definitions(
    definitions: Sequence[object], caller: Caller, *, reason: str = "", plain_http_hosts: frozenset[str] | None = None
) -> LoadReport | Refusal:
    """Register tools, all of them or none.

    Refuses a definition that is not valid, a tool named twice and a compensator that is not registered. In production
    a change that weakens the fence waits for administrators; the others of the same file are current at once.
    `plain_http_hosts` are those that the operator allows, unless they are named.
    """
    wanted = _read(definitions, settings.FENCE_TOOL_HOSTS if plain_http_hosts is None else plain_http_hosts)
    if isinstance(wanted, Refusal):
        return wanted
    with transaction.atomic():
        now = lock_registry()
        known = registry_at(current_registry())
        changed = {name: each for name, each in wanted.items() if known.get(name) != each}
        after = {**known, **changed}
        for definition in changed.values():
            refusal = check_compensator(definition, after)
            if refusal is not None:
                return refusal
        waits = _waiting(changed, known) if is_production() else frozenset[str]()
        writes = Writes(caller)
        changes, waiting = [], []
        for name, definition in changed.items():
            before = current_of(name)
            if name in waits and before is not None:
                waiting.append(_told_waiting(*propose_change(definition, before, writes, now, reason=reason)))
            else:
                changes.append(_told(add_version(definition, before, writes, reason=reason)))
        writes.send()
        return LoadReport(registry=current_registry(), changes=tuple(changes), waiting=tuple(waiting))


def _read(definitions: Sequence[object], hosts: frozenset[str]) -> dict[str, ToolDefinition] | Refusal:
    found: dict[str, ToolDefinition] = {}
    for index, value in enumerate(definitions):
        definition = read_tool(value, plain_http_hosts=hosts)  # type: ignore[arg-type]
        if isinstance(definition, Refusal):
            return replace(definition, pointer=f"/{index}{definition.pointer or ''}")
        if definition.tool in found:
            detail = f"The tool {definition.tool} stands in the list twice."
            return Refusal(code=Code.INVALID_TOOL, detail=detail, pointer=f"/{index}")
        found[definition.tool] = definition
    return found


def _waiting(changed: Mapping[str, ToolDefinition], known: Mapping[str, ToolDefinition]) -> frozenset[str]:
    """Name the tools whose change weakens the fence. A first version is no change (T1)."""
    return frozenset(name for name, each in changed.items() if name in known and each.is_weaker_than(known[name]))


def _told(row: ToolVersion) -> LoadedTool:
    return LoadedTool(
        tool=row.tool, version=row.version, registry=row.pk, digest=row.digest, weakens=tuple(row.weakens)
    )


def _told_waiting(row: ToolChange, is_new: bool) -> WaitingTool:  # noqa: FBT001 - as `propose_change` gives them
    return WaitingTool(
        tool=row.tool,
        id=str(row.pk),
        digest=row.digest,
        approvals_needed=row.approvals_needed,
        weakens=tuple(row.weakens),
        is_new=is_new,
    )
