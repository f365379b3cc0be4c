"""The registry of tools, as the API and the pages show it: lines, one tool with its versions, changes that wait."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q

from fencing.models import ToolChange, ToolChangeApproval, ToolVersion
from fencing.models.facts import read_clock
from fencing.models.tool_facts import current_of, definition_of, pending_of
from fencing.protocol.errors import Refusal
from fencing.protocol.objects import rfc3339
from fencing.protocol.tool_changes import Pending, State, state_of
from fencing.protocol.tools import ToolDefinition
from fencing.protocol.weakening import Change, changes
from fencing.queries.lookback import Lookback
from fencing.queries.overview import Waiting
from fencing.queries.pages import Filters, Page, keep

Object = dict[str, Any]
MAX_WAITING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """One tool of the list: its current version, who made it when, and how many changes of it wait."""

    tool: str
    version: int
    definition: ToolDefinition
    by: str
    at: datetime
    weakens: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLine:
    """One version of a tool. `approvers` are who approved the change that made it; `changes` tell what it changed."""

    version: int
    registry: int
    digest: str
    definition: ToolDefinition
    by: str
    at: datetime
    reason: str
    change: uuid.UUID | None
    approvers: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One administrator's word for a change."""

    person: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLine:
    """One change that waited or waits. `proposer` is empty where the command line asked."""

    id: uuid.UUID
    tool: str
    pending: Pending
    state: State
    digest: str
    weakens: tuple[str, ...]
    proposer: str
    reason: str
    proposed_at: datetime
    approvals: tuple[Approval, ...]
    closed_at: datetime | None
    closed_by: str
    close_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """A change with everything that whoever approves it has to read.

    `base` and `wanted` are the definitions between which it changes the tool, `current` the one of now; `since` is what
    changed meanwhile, where another version became current. `lookback` are the figures that its proposer saw.
    """

    now: datetime
    line: ChangeLine
    base: ToolDefinition
    wanted: ToolDefinition
    current: ToolDefinition
    changes: tuple[Change, ...]
    since: tuple[Change, ...]
    lookback: Lookback | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """One tool: its current version and the changes of it that wait."""

    line: VersionLine
    waiting: tuple[ChangeLine, ...]


def list_tools(filters: Filters, page: Page) -> tuple[list[Object], str | None] | Refusal:
    """The tools as they stand now, the one that was changed last first."""
    if (refusal := page.fits(at=None, number=True)) is not None:
        return refusal
    rows = ToolVersion.objects.filter(pk__in=_newest(), **keep(filters, {"tool": "tool"}))
    found, following = page.of(rows, at=None)
    return [tool_body(row) for row in found], following


def tool_body(row: ToolVersion) -> Object:
    """A tool's definition, and which version of it and of the registry that is."""
    return {
        **json.loads(bytes(row.definition)),
        "version": row.version,
        "registry": row.pk,
        "definition_digest": row.digest,
        "added_at": rfc3339(row.added_at),
    }


def list_tool_lines(filters: Filters, page: Page) -> tuple[list[ToolLine], str | None] | Refusal:
    """One page of the registry. Filters: `part` of the name, `effect`, `mode`; `waiting`: those with a change."""
    if (refusal := page.fits(at=None, number=True)) is not None:
        return refusal
    rows = ToolVersion.objects.filter(pk__in=_newest()).select_related("person")
    if "part" in filters:
        rows = rows.filter(tool__icontains=str(filters["part"]))
    if "effect" in filters:
        rows = rows.filter(is_read_only=filters["effect"] == "read_only")
    if "mode" in filters:
        rows = rows.filter(mode=filters["mode"])
    if "waiting" in filters:
        rows = rows.filter(tool__in=_open(read_clock()).values("tool"))
    found, following = page.of(rows, at=None)
    waiting: dict[str, int] = defaultdict(int)
    for tool in _open(read_clock()).filter(tool__in={row.tool for row in found}).values_list("tool", flat=True):
        waiting[tool] += 1
    lines = [
        ToolLine(
            tool=row.tool,
            version=row.version,
            definition=definition_of(row),
            by=_name(row.person),
            at=row.added_at,
            weakens=len(row.weakens),
            waiting=waiting[row.tool],
        )
        for row in found
    ]
    return lines, following


def count_tools() -> int:
    """How many tools are registered."""
    return int(_newest().count())


def is_registered(tools: Iterable[str]) -> frozenset[str]:
    """Name those of some tools that are registered."""
    return frozenset(ToolVersion.objects.filter(tool__in=list(tools)).values_list("tool", flat=True))


def current_definition(tool: str) -> tuple[int, ToolDefinition] | None:
    """The number and the definition of a tool's current version; None where it was never registered."""
    row = None if "\x00" in tool else current_of(tool)
    return None if row is None else (row.version, definition_of(row))


def read_tool_page(tool: str) -> ToolPage | None:
    """One tool with the changes of it that wait; None where it was never registered."""
    row = current_of(tool)
    if row is None:
        return None
    now = read_clock()
    waiting = list(_open(now).filter(tool=tool).order_by("proposed_at")[:MAX_WAITING])
    (line,) = _version_lines([row], _before(row))
    return ToolPage(line=line, waiting=tuple(_change_lines(waiting, now)))


def list_versions(tool: str, page: Page) -> tuple[list[VersionLine], str | None] | Refusal:
    """The versions of a tool with what each changed, the newest first."""
    if (refusal := page.fits(at=None, number=True)) is not None:
        return refusal
    found, following = page.of(ToolVersion.objects.filter(tool=tool).select_related("person"), at=None)
    return _version_lines(found, _before(found[-1]) if found else None), following


def read_version(tool: str, version: int) -> VersionLine | None:
    """One version of a tool; None where there is none."""
    row = ToolVersion.objects.select_related("person").filter(tool=tool, version=version).first()
    return None if row is None else _version_lines([row], _before(row))[0]


def waiting_changes() -> list[ChangeLine]:
    """The changes of all tools that wait, the one that waits longest first."""
    now = read_clock()
    return _change_lines(list(_open(now).order_by("proposed_at")[:MAX_WAITING]), now)


def changes_waiting_for(person: int) -> Waiting:
    """How many changes wait for this administrator: of others, and not approved by them already."""
    rows = _open(read_clock()).exclude(proposer_id=person).exclude(approvals__person_id=person)
    found = rows.aggregate(count=Count("pk"), oldest=Min("proposed_at"))
    return Waiting(count=found["count"], oldest=found["oldest"])


def list_changes(filters: Filters, page: Page) -> tuple[list[ChangeLine], str | None] | Refusal:
    """Every change that ever waited, newest first. Filters: `tool`, `state`."""
    if (refusal := page.fits(at="proposed_at")) is not None:
        return refusal
    now = read_clock()
    rows = ToolChange.objects.select_related("base", "proposer", "closed_by").filter(**keep(filters, {"tool": "tool"}))
    if filters.get("state") == State.PENDING:
        rows = rows.filter(closed_at__isnull=True, expires_at__gt=now)
    elif filters.get("state") == State.EXPIRED:
        rows = rows.filter(Q(closed_as=State.EXPIRED) | Q(closed_at__isnull=True, expires_at__lte=now))
    elif "state" in filters:
        rows = rows.filter(closed_as=filters["state"])
    found, following = page.of(rows, at="proposed_at")
    return _change_lines(found, now), following


def read_change(change_id: str) -> ChangePage | None:
    """One change with all that its decision rests on; None where there is none."""
    row = ToolChange.objects.select_related("base", "proposer", "closed_by").filter(pk=_uuid(change_id)).first()
    if row is None:
        return None
    now = read_clock()
    (line,) = _change_lines([row], now)
    current = current_of(row.tool)
    base, wanted = definition_of(row.base), definition_of(row)
    latest = base if current is None else definition_of(current)
    return ChangePage(
        now=now,
        line=line,
        base=base,
        wanted=wanted,
        current=latest,
        changes=changes(base, wanted),
        since=changes(base, latest) if line.pending.is_stale and line.state is State.PENDING else (),
        lookback=None if row.lookback is None else Lookback.of_json(row.lookback),
    )


# -- rows to lines -----------------------------------------------------------------------------------------------------


def _newest() -> Any:
    return ToolVersion.objects.order_by("tool", "-pk").distinct("tool").values("pk")


def _open(now: datetime) -> Any:
    return ToolChange.objects.filter(closed_at__isnull=True, expires_at__gt=now).select_related(
        "base", "proposer", "closed_by"
    )


def _before(row: ToolVersion) -> ToolVersion | None:
    return ToolVersion.objects.filter(tool=row.tool, pk__lt=row.pk).order_by("-pk").first()


def _version_lines(rows: Sequence[ToolVersion], before: ToolVersion | None) -> list[VersionLine]:
    """Tell versions, newest first, each with what it changed; `before` is the one before the last of them."""
    approvers: dict[Any, list[str]] = defaultdict(list)
    wanted = [row.change_id for row in rows if row.change_id is not None]
    if wanted:
        found = ToolChangeApproval.objects.filter(change__in=wanted).select_related("person").order_by("approved_at")
        for each in found:
            approvers[each.change_id].append(each.person.get_username())
    olders = [*rows[1:], before]
    return [
        VersionLine(
            version=row.version,
            registry=row.pk,
            digest=row.digest,
            definition=definition_of(row),
            by=_name(row.person),
            at=row.added_at,
            reason=row.reason,
            change=row.change_id,
            approvers=tuple(approvers[row.change_id]),
            changes=() if older is None else changes(definition_of(older), definition_of(row)),
        )
        for row, older in zip(rows, olders, strict=True)
    ]


def _change_lines(rows: Sequence[ToolChange], now: datetime) -> list[ChangeLine]:
    approvals: dict[Any, list[ToolChangeApproval]] = defaultdict(list)
    currents: dict[str, ToolVersion] = {}
    if rows:
        found = ToolChangeApproval.objects.filter(change__in=rows).select_related("person").order_by("approved_at")
        for each in found:
            approvals[each.change_id].append(each)
        tools = {row.tool for row in rows}
        newest = ToolVersion.objects.filter(tool__in=tools).order_by("tool", "-pk").distinct("tool")
        currents = {row.tool: row for row in newest}
    return [_change_line(row, approvals[row.pk], currents.get(row.tool), now) for row in rows]


def _change_line(
    row: ToolChange, approvals: Sequence[ToolChangeApproval], current: ToolVersion | None, now: datetime
) -> ChangeLine:
    pending = pending_of(row, (each.person_id for each in approvals), current)
    return ChangeLine(
        id=row.pk,
        tool=row.tool,
        pending=pending,
        state=state_of(pending, now),
        digest=row.digest,
        weakens=tuple(row.weakens),
        proposer=_name(row.proposer),
        reason=row.reason,
        proposed_at=row.proposed_at,
        approvals=tuple(
            Approval(person=each.person.get_username(), at=each.approved_at, reason=each.reason) for each in approvals
        ),
        closed_at=row.closed_at,
        closed_by=_name(row.closed_by),
        close_reason=row.close_reason,
    )


def _name(person: Any) -> str:
    return "" if person is None else str(person.get_username())


def _uuid(text: str) -> uuid.UUID:
    """Read an id; one that is none is the id of nothing."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
