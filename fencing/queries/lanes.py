"""Lanes, as the API and the pages show them."""

from __future__ import annotations

from typing import Any, Final

from fencing.models import Lane
from fencing.models.grade_facts import lane_bodies
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Filters, Page, keep

Object = dict[str, Any]
COLUMNS: Final = {"lane": "name", "state": "state"}


def list_lanes(filters: Filters, page: Page) -> tuple[list[Object], str | None] | Refusal:
    """One page of lanes, newest first."""
    if (refusal := page.fits(at="made_at")) is not None:
        return refusal
    found, following = page.of(Lane.objects.filter(**keep(filters, COLUMNS)), at="made_at")
    return lane_bodies(found), following
