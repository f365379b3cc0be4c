"""Changes of tools by administrators: at once, or with the word of a second one where they weaken the fence (T1)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from fencing.models import ToolChange, ToolChangeApproval, ToolVersion
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.models.tool_facts import current_of, definition_of, pending_of
from fencing.protocol import grants, tool_changes
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import SYSTEM, Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.protocol.tool_changes import Pending, State
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.services.tool_versions import (
    KIND,
    add_version,
    check_compensator,
    lock_registry,
    propose_change,
)
from fencing.services.writes import Writes, in_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTool:
    """A definition that a tool shall have from now on.

    `seen` is the number of the version that the person saw (0 for a tool that is new), `digest` that of the definition
    whose consequences they read, `lookback` what it would have changed in the last week, as they saw it.
    """

    definition: object
    seen: int
    digest: str
    reason: str
    lookback: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideChange:
    """A decision on a change that waits. `digest` is that of the definition that was shown."""

    digest: str
    reason: str


def change_tool(request: ChangeTool, caller: Caller) -> Result:
    """Register a tool, or change one; a change that weakens the fence waits for a second administrator (T1)."""
    return in_transaction(lambda: _change_tool(request, caller))


def approve_change(change_id: str, request: DecideChange, caller: Caller) -> Result:
    """Approve another administrator's change. With the last approval that it needs it becomes current."""
    return in_transaction(lambda: _decide(change_id, request, caller, _approve))


def refuse_change(change_id: str, request: DecideChange, caller: Caller) -> Result:
    """Refuse another administrator's change: it never becomes current."""
    return in_transaction(lambda: _decide(change_id, request, caller, _refuse))


def withdraw_change(change_id: str, request: DecideChange, caller: Caller) -> Result:
    """Take back a change that one proposed oneself."""
    return in_transaction(lambda: _decide(change_id, request, caller, _withdraw))


def why_not_administrator(caller: Caller) -> Refusal | None:
    """Refuse whoever does not act as an administrator by name."""
    if caller.role is Role.ADMINISTRATOR and caller.person_id is not None:
        return None
    return Refusal(code=Code.FORBIDDEN_ROLE, detail="Tools are changed by administrators.")


# -- proposing ---------------------------------------------------------------------------------------------------------


def _change_tool(request: ChangeTool, caller: Caller) -> Result:
    writes = Writes(caller)
    definition = read_tool(request.definition, plain_http_hosts=settings.FENCE_TOOL_HOSTS)  # type: ignore[arg-type]
    result: Result
    if isinstance(definition, Refusal):
        result = definition
    else:
        result = why_not_administrator(caller) or grants.check_readable(request.reason) or _check_digest(
            request, definition
        ) or _changed(request, definition, lock_registry(), writes)  # fmt: skip
    if isinstance(result, Refusal):
        tool = None if isinstance(definition, Refusal) else definition.tool
        writes.refuse(result, KIND, tool=tool, digest=request.digest or None)
    writes.send()
    return result


def _check_digest(request: ChangeTool, definition: ToolDefinition) -> Refusal | None:
    if request.digest == definition.digest:
        return None
    detail = "What was read is another definition than what was sent: look at it again."
    return Refusal(code=Code.DIGEST_MISMATCH, detail=detail, pointer="/digest", extras={"digest": definition.digest})


def _changed(request: ChangeTool, definition: ToolDefinition, now: datetime, writes: Writes) -> Result:
    before = current_of(definition.tool)
    if before is not None and before.digest == definition.digest:
        writes.count("duplicates")
        return Answer(status=OK, body={**_version_body(before), "duplicate": True})
    seen = 0 if before is None else before.version
    if seen != request.seen:
        return _moved(definition.tool, request.seen, before)
    refusal = check_compensator(definition, {**registry_at(current_registry()), definition.tool: definition})
    if refusal is not None:
        return refusal
    if before is None or not definition.is_weaker_than(definition_of(before)):
        return Answer(
            status=CREATED, body=_version_body(add_version(definition, before, writes, reason=request.reason))
        )
    row, is_new = propose_change(
        definition, before, writes, now, reason=request.reason, lookback=request.lookback
    )  # fmt: skip
    body = {"change": str(row.pk), "tool": row.tool, "digest": row.digest, "weakens": row.weakens, "state": "pending"}
    return Answer(status=CREATED if is_new else OK, body=body if is_new else {**body, "duplicate": True})


def _moved(tool: str, seen: int, now: ToolVersion | None) -> Refusal:
    if now is None:
        return Refusal(code=Code.CHANGED, detail=f"There is no tool {tool} any more that could be changed.")
    by = now.person.get_username() if now.person else "the command line"
    what = f"{tool} was registered" if not seen else f"{tool} was changed to version {now.version}"
    detail = f"{what} by {by} since you looked: nothing was changed."
    extras = {"decided_by": by, "decided_at": rfc3339(now.added_at), "current": now.version}
    return Refusal(code=Code.CHANGED, detail=detail, extras=extras)


def _version_body(row: ToolVersion) -> dict[str, Any]:
    return {
        "tool": row.tool,
        "version": row.version,
        "registry": row.pk,
        "digest": row.digest,
        "weakens": row.weakens,
        "state": "current",
    }


# -- deciding ----------------------------------------------------------------------------------------------------------

Act = Callable[[ToolChange, Pending, DecideChange, datetime, Writes], Result]


def _decide(change_id: str, request: DecideChange, caller: Caller, act: Act) -> Result:
    writes = Writes(caller)
    result = why_not_administrator(caller) or grants.check_readable(request.reason) or _found(
        change_id, request, writes, act
    )  # fmt: skip
    if isinstance(result, Refusal):
        tool = ToolChange.objects.filter(pk=_uuid(change_id)).values_list("tool", flat=True).first()
        writes.refuse(result, KIND, tool=tool)
    writes.send()
    return result


def _found(change_id: str, request: DecideChange, writes: Writes, act: Act) -> Result:
    now = lock_registry()
    row = (
        ToolChange.objects.select_for_update(of=("self",), no_key=True)
        .select_related("base", "proposer", "closed_by")
        .filter(pk=_uuid(change_id))
        .first()
    )
    if row is None:
        return Refusal(code=Code.NOT_FOUND, detail="There is no such change.")
    approvers = frozenset(ToolChangeApproval.objects.filter(change=row).values_list("person_id", flat=True))
    return act(row, pending_of(row, approvers, current_of(row.tool)), request, now, writes)


def _approve(row: ToolChange, change: Pending, request: DecideChange, now: datetime, writes: Writes) -> Result:
    person = _person(writes)
    if person in change.approvers and change.closed_as in (None, State.APPROVED):
        writes.count("duplicates")
        return Answer(status=OK, body={**_change_body(row, change, now), "duplicate": True})
    refusal = tool_changes.check_approval(change, person=person, digest=request.digest, now=now)
    if refusal is not None:
        return _told_who(refusal, row)
    ToolChangeApproval.objects.create(
        change=row, person_id=person, digest=request.digest, reason=request.reason, approved_at=now
    )
    after = {"change": str(row.pk), "digest": row.digest}
    writes.audit("approve_tool_change", KIND, row.tool, after=after, reason=request.reason)
    change = pending_of(row, change.approvers | {person}, current_of(row.tool))
    if change.missing:
        return Answer(status=OK, body=_change_body(row, change, now))
    version = add_version(definition_of(row), row.base, writes, change=row)
    _close(row, State.APPROVED, person, request.reason, now)
    return Answer(
        status=OK,
        body={**_change_body(row, change, now), "version": version.version, "registry": version.pk},
    )


def _refuse(row: ToolChange, change: Pending, request: DecideChange, now: datetime, writes: Writes) -> Result:
    check = tool_changes.check_refusal(change, person=_person(writes), now=now)
    return _ended(check, State.REFUSED, row, change, request, now, writes)


def _withdraw(row: ToolChange, change: Pending, request: DecideChange, now: datetime, writes: Writes) -> Result:
    check = tool_changes.check_withdrawal(change, person=_person(writes), now=now)
    return _ended(check, State.WITHDRAWN, row, change, request, now, writes)


def _ended(
    refusal: Refusal | None,
    state: State,
    row: ToolChange,
    change: Pending,
    request: DecideChange,
    now: datetime,
    writes: Writes,
) -> Result:
    person = _person(writes)
    if row.closed_as == state.value and row.closed_by_id == person:
        writes.count("duplicates")
        return Answer(status=OK, body={**_change_body(row, change, now), "duplicate": True})
    if refusal is not None:
        return _told_who(refusal, row)
    if request.digest != row.digest:
        detail = "The definition that you were shown is not the one that waits: read it again."
        return Refusal(code=Code.CHANGED, detail=detail, pointer="/digest", extras={"digest": row.digest})
    _close(row, state, person, request.reason, now)
    verb = "refuse_tool_change" if state is State.REFUSED else "withdraw_tool_change"
    writes.audit(verb, KIND, row.tool, after={"change": str(row.pk), "digest": row.digest}, reason=request.reason)
    return Answer(status=OK, body=_change_body(row, pending_of(row, change.approvers, None), now))


def _close(row: ToolChange, state: State, person: int | None, reason: str, now: datetime) -> None:
    row.closed_at, row.closed_as, row.closed_by_id, row.close_reason = now, state.value, person, reason
    row.save(update_fields=["closed_at", "closed_as", "closed_by", "close_reason"])


def _change_body(row: ToolChange, change: Pending, now: datetime) -> dict[str, Any]:
    state = State(row.closed_as) if row.closed_as else tool_changes.state_of(change, now)
    return {
        "change": str(row.pk),
        "tool": row.tool,
        "digest": row.digest,
        "state": state.value,
        "missing": change.missing,
    }


def _told_who(refusal: Refusal, row: ToolChange) -> Refusal:
    """Say who ended a change that no longer waits, and when (H2)."""
    if refusal.code is not Code.ALREADY_DECIDED or row.closed_at is None:
        return refusal
    by = row.closed_by.get_username() if row.closed_by else "the clock"
    detail = f"The change no longer waits: it was {row.closed_as} by {by}."
    return Refusal(
        code=refusal.code, detail=detail, extras={"decided_by": by, "decided_at": rfc3339(row.closed_at)}
    )  # fmt: skip


def _person(writes: Writes) -> int:
    person = writes.caller.person_id
    assert person is not None  # noqa: S101 - `why_not_administrator` was asked first
    return person


def _uuid(text: str) -> uuid.UUID:
    """Read an id; one that is none is the id of nothing."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)


# -- the clock ---------------------------------------------------------------------------------------------------------


def expire_changes(limit: int = 200) -> int:
    """Write down that changes are over which nobody decided in time. Called by the sweep; safe to repeat."""
    due = ToolChange.objects.filter(closed_at__isnull=True, expires_at__lte=read_clock()).order_by("expires_at")
    found = list(due.values_list("pk", flat=True)[:limit])
    for change_id in found:
        with transaction.atomic():
            _expire(change_id)
    return len(found)


def _expire(change_id: uuid.UUID) -> None:
    row = (
        ToolChange.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(pk=change_id, closed_at__isnull=True)
        .first()
    )
    if row is None:
        return
    writes = Writes(SYSTEM)
    _close(row, State.EXPIRED, None, "", read_clock())
    writes.audit("expire_tool_change", KIND, row.tool, after={"change": str(row.pk), "digest": row.digest})
    writes.send()
