"""Incidents, as the API and the pages show them."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.db.models import Count, Q, QuerySet

from fencing.models import Incident
from fencing.models.bodies import incident_bodies
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.queries.pages import Filters, Page, keep

Object = dict[str, Any]
COLUMNS: Final = {
    "state": "state",
    "kind": "kind",
    "run": "run__name",
    "step": "step__name",
    "epoch": "step__epoch",
    "lane": "lane",
}


def list_incidents(filters: Filters, page: Page, caller: Caller) -> tuple[list[Object], str | None] | Refusal:
    """One page of incidents, newest first; a planner sees those of its group's runs (H1)."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    rows = _seen_by(caller).filter(**keep(filters, COLUMNS))
    if "tool" in filters:
        rows = rows.filter(Q(intent__tool=filters["tool"]) | Q(effect__tool=filters["tool"]))
    if "resource" in filters:
        rows = rows.filter(resources__contains=[filters["resource"]])
    found, following = page.of(rows)
    return [incident_body(row) for row in found], following


DANGEROUS: Final = frozenset({"landed_escape", "doubled"})


def list_incident_rows(filters: Filters, page: Page) -> tuple[list[Incident], str | None] | Refusal:
    """One page of incidents for people, newest first."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    rows = Incident.objects.select_related("run", "step", "owner", "effect", "intent").filter(**keep(filters, COLUMNS))
    if "resource" in filters:
        rows = rows.filter(resources__contains=[filters["resource"]])
    return page.of(rows)


def read_incident_row(incident_id: uuid.UUID) -> Incident | None:
    """One incident for its page."""
    rows = Incident.objects.select_related("run", "step", "owner", "resolved_by", "effect", "intent")
    return rows.filter(pk=incident_id).first()


def open_counts() -> tuple[int, int]:
    """How many incidents are open, and how many of them are of effects that should not be there."""
    kinds = list(Incident.objects.filter(state="open").values_list("kind").annotate(count=Count("id")).order_by("kind"))
    return sum(count for _, count in kinds), sum(count for kind, count in kinds if kind in DANGEROUS)


def get_incident(incident_id: str, caller: Caller) -> Object | Refusal:
    """One incident."""
    try:
        row = _seen_by(caller).filter(pk=uuid.UUID(incident_id)).first()
    except ValueError:
        row = None
    if row is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no incident {incident_id}.")
    return incident_body(row)


def incident_body(row: Incident) -> Object:
    """An incident as the protocol names its members, and how it ended."""
    return {
        **incident_bodies([row])[0],
        "epoch": row.step.epoch if row.step else None,
        "opened_at": rfc3339(row.opened_at),
        "resolved_at": rfc3339(row.resolved_at),
        "resolved_by": row.resolved_by.get_username() if row.resolved_by else None,
        "resolution": row.resolution,
    }


def _seen_by(caller: Caller) -> QuerySet[Incident]:
    rows = Incident.objects.select_related("run", "step", "owner", "resolved_by")
    return rows.filter(run__owner_group=caller.group) if caller.role is Role.PLANNER else rows
