"""Compensations, as the API and the pages show them."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from django.db.models import QuerySet

from fencing.models import Claim, Compensation, CompensationApproval
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.queries.pages import Filters, Page, keep
from fencing.queries.sensitive import masked_for

Object = dict[str, Any]
COLUMNS: Final = {"state": "state", "cause": "cause", "run": "run__name", "tool": "tool"}


def list_compensations(filters: Filters, page: Page, caller: Caller) -> tuple[list[Object], str | None] | Refusal:
    """One page of compensations, newest first; a planner sees those of its group's runs (H1)."""
    if (refusal := page.fits(at="proposed_at")) is not None:
        return refusal
    rows = _seen_by(caller).filter(**keep(filters, COLUMNS))
    if "resource" in filters:
        rows = rows.filter(resources__contains=[filters["resource"]])
    found, following = page.of(rows, at="proposed_at")
    return masked_for(caller, compensation_bodies(found)), following


def get_compensation(compensation_id: str, caller: Caller) -> Object | Refusal:
    """One compensation."""
    try:
        row = _seen_by(caller).filter(pk=uuid.UUID(compensation_id)).first()
    except ValueError:
        row = None
    if row is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no compensation {compensation_id}.")
    return masked_for(caller, compensation_bodies([row]))[0]


def compensation_bodies(found: Sequence[Compensation]) -> list[Object]:
    """The objects of compensations. `action` is null where a person has to do it by hand (P6)."""
    approvals = _approvals(found)
    held = _held_by(found)
    return [
        {
            "id": str(row.id),
            "run": row.run.name if row.run else None,
            "intent": None if row.intent_id is None else str(row.intent_id),
            "effect": None if row.effect_id is None else str(row.effect_id),
            "incident": None if row.incident_id is None else str(row.incident_id),
            "state": row.state,
            "cause": row.cause,
            "tool": row.tool,
            "action": None if row.payload is None else json.loads(bytes(row.payload.canonical)),
            "digest": row.payload_id,
            "approvals": approvals[row.pk],
            "needed": row.needed,
            "resources": row.resources,
            "proposed_at": rfc3339(row.proposed_at),
            "decided_by": row.decider.get_username() if row.decider else None,
            "decided_at": rfc3339(row.decided_at),
            "held_by": held.get(row.intent_id) if row.state == Compensation.State.HELD else None,
        }
        for row in found
    ]


def _approvals(found: Sequence[Compensation]) -> dict[Any, list[Object]]:
    """Who approved, in the round that is open or that decided."""
    told: dict[Any, list[Object]] = defaultdict(list)
    rounds = {row.pk: row.round for row in found}
    rows = CompensationApproval.objects.filter(compensation__in=found).select_related("person")
    for each in rows.order_by("approved_at", "id"):
        if rounds[each.compensation_id] == each.round:
            by, at = each.person.get_username(), rfc3339(each.approved_at)
            told[each.compensation_id].append({"by": by, "at": at, "reason": each.reason, "digest": each.digest})
    return told


def _held_by(found: Sequence[Compensation]) -> dict[Any, str]:
    """The step whose open claim holds an undoing, by intent (P4)."""
    held = [row.intent_id for row in found if row.state == Compensation.State.HELD and row.intent_id is not None]
    if not held:
        return {}
    claims = Claim.objects.filter(intent_id__in=held, state="open").order_by("claimed_at")
    return dict(claims.values_list("intent_id", "step__name"))


def compensation_body(compensation_id: str | uuid.UUID, caller: Caller) -> Object:
    """The object of one that is there, as it stands, for whom it is shown to."""
    return masked_for(caller, compensation_bodies(list(rows_to_show().filter(pk=compensation_id))))[0]


def rows_to_show() -> QuerySet[Compensation]:
    """Compensations with what their objects are made of."""
    return Compensation.objects.select_related("run", "payload", "decider")


def _seen_by(caller: Caller) -> QuerySet[Compensation]:
    rows = rows_to_show()
    return rows.filter(run__owner_group=caller.group) if caller.role is Role.PLANNER else rows
