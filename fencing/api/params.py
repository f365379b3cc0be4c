"""Query parameters, as values with the same checks as bodies. All of them are text in the address (H5, H6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.counting import CountedAs
from fencing.protocol.errors import Refusal
from fencing.protocol.moments import in_utc
from fencing.queries.pages import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, Cursor, Page
from fencing.queries.walks import MAX_WALK
from fencing.services.requests import MAX_NUMBER, Epoch, Identifier

MAX_WAIT_S: Final = 30

Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
CursorText = Annotated[str, Field(min_length=1, max_length=MAX_CURSOR)]
Wait = Annotated[float, Field(ge=0, le=MAX_WAIT_S)]
Text = Annotated[str, Field(min_length=1, max_length=450)]
Moment = Annotated[AwareDatetime, AfterValidator(in_utc)]
Phase = Literal["idle", "proposed", "agreed", "fenced", "committed", "rejected", "exempt"]
GrantState = Literal["pending", "live", "used_up", "expired", "revoked", "void"]
FreezeState = Literal["standing", "lifted"]
IntentState = Literal["held", "ready", "in_flight", "succeeded", "failed", "in_doubt", "cancelled"]
IncidentKind = Literal["landed_escape", "late_divergence", "doubled", "missing", "outcome_conflict", "lane_halted"]
CompensationState = Literal["proposed", "held", "approved", "in_flight", "done", "in_doubt", "waived", "withdrawn"]
CompensationCause = Literal["landed_escape", "doubled", "branch_lost", "requested"]
LaneState = Literal["running", "halted"]
IncidentState = Literal["open", "resolved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A call without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """Which part of a list is wanted (H6)."""

    limit: Limit = DEFAULT_LIMIT
    cursor: CursorText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsQuery(ListOf):
    """`GET /runs`."""

    run: Identifier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuery:
    """`GET /runs/{run}/steps/{step}`: which epoch, and what to wait for (H5)."""

    epoch: Epoch | None = None
    wait: Wait = 0.0
    phase: Phase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkList:
    """Which part of a list of work is wanted: all that one answer may hold, for who asks means to do it."""

    wait: Wait = 0.0
    limit: Limit = MAX_LIMIT
    cursor: CursorText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedQuery(WorkList):
    """`GET /votes/wanted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayWantedQuery(WorkList):
    """`GET /gateway/wanted`."""

    tool: Identifier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsQuery:
    """`GET /events`: what came after a cursor, oldest first."""

    after: CursorText | None = None
    wait: Wait = 0.0
    limit: Limit = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantsQuery(ListOf):
    """`GET /grants`."""

    run: Identifier | None = None
    step: Identifier | None = None
    epoch: Epoch | None = None
    tool: Identifier | None = None
    path: Identifier | None = None
    state: GrantState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezesQuery(ListOf):
    """`GET /freezes`."""

    run: Identifier | None = None
    tool: Identifier | None = None
    state: FreezeState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityQuery:
    """`GET /authority`: at which moment, with its zone; by default now."""

    at: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentsQuery(ListOf):
    """`GET /intents`."""

    run: Identifier | None = None
    step: Identifier | None = None
    epoch: Epoch | None = None
    tool: Identifier | None = None
    key: Identifier | None = None
    state: IntentState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentsQuery(ListOf):
    """`GET /incidents`."""

    run: Identifier | None = None
    step: Identifier | None = None
    epoch: Epoch | None = None
    lane: Identifier | None = None
    tool: Identifier | None = None
    kind: IncidentKind | None = None
    state: IncidentState | None = None
    resource: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationsQuery(ListOf):
    """`GET /compensations`."""

    run: Identifier | None = None
    tool: Identifier | None = None
    state: CompensationState | None = None
    cause: CompensationCause | None = None
    resource: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLogFilters:
    """What is looked for in the side log. Names are any text here: what was refused may have had any."""

    run: Text | None = None
    step: Text | None = None
    epoch: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] | None = None
    path: Text | None = None
    attempt: Text | None = None
    seq: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] | None = None
    lane: Text | None = None
    tool: Text | None = None
    reason: Text | None = None
    kind: Text | None = None
    resource: Text | None = None
    by: Text | None = None
    since: Moment | None = None
    until: Moment | None = None
    counted_as: CountedAs | None = None
    acknowledged: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLogQuery(SideLogFilters):
    """`GET /side-log`. Its cursor remembers what was still being written (`fencing.queries.walks`)."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Annotated[str, Field(min_length=1, max_length=MAX_WALK)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLogExport(SideLogFilters):
    """`GET /side-log/export`: in which form."""

    format: Literal["csv", "ndjson"] = "ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery(ListOf):
    """`GET /audit`. Moments with their zone."""

    resource: Text | None = None
    since: Moment | None = None
    until: Moment | None = None
    run: Text | None = None
    kind: Text | None = None
    subject: Text | None = None
    verb: Text | None = None
    actor: Text | None = None
    role: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesQuery(ListOf):
    """`GET /lanes`."""

    lane: Identifier | None = None
    state: LaneState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuery:
    """`GET /lanes/{lane}/gate`: for how long to wait until it says something else than `wait`."""

    wait: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsQuery(ListOf):
    """`GET /tools`."""

    tool: Identifier | None = None


_NO_FILTERS: Final = frozenset({"limit", "cursor", "wait", "format"})
Found = tuple[list[dict[str, Any]], str | None]


def filters_of(asked: ListOf | SideLogFilters) -> dict[str, object]:
    """The filters that were given, by the names of the members."""
    named = ((field.name, getattr(asked, field.name)) for field in fields(asked) if field.name not in _NO_FILTERS)
    return {name: value for name, value in named if value is not None}


def page_of(asked: ListOf | WorkList) -> Page | Refusal:
    """The page that was asked for, or that its cursor is none."""
    cursor = None if asked.cursor is None else Cursor.decode(asked.cursor)
    return cursor if isinstance(cursor, Refusal) else Page(limit=asked.limit, cursor=cursor)


def worked_off(asked: WorkList, find: Callable[[Page], Result]) -> Result:
    """Answer with one page of a list of work."""
    page = page_of(asked)
    return page if isinstance(page, Refusal) else find(page)


def listed(asked: ListOf, find: Callable[[Mapping[str, object], Page], Found | Refusal]) -> Result:
    """Answer with one page of a list."""
    page = page_of(asked)
    if isinstance(page, Refusal):
        return page
    found = find(filters_of(asked), page)
    if isinstance(found, Refusal):
        return found
    items, following = found
    return Answer(status=OK, body={"items": items, "next": following})
