"""Readings of tools' ledgers, for pages."""

from __future__ import annotations

from fencing.models import Ledger
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Page


def list_ledgers(page: Page) -> tuple[list[Ledger], str | None] | Refusal:
    """One page of readings, newest first."""
    if (refusal := page.fits(at="asked_at")) is not None:
        return refusal
    return page.of(Ledger.objects.select_related("person"), at="asked_at")
