"""Tries for pages: the deliveries of an effect, and those of what undoes one, with everything that was told of each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Prefetch, QuerySet

from fencing.models import CompensationDelivery, CompensationOutcome, Delivery, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One delivery and how it ended. `outcomes` are in the order in which they were told.

    `round` is that of the approval behind a call that undoes something, 0 for the try of an effect.
    """

    number: int
    idempotency_key: str
    admitted_at: datetime
    lease_until: datetime
    by: str
    outcomes: tuple[Outcome | CompensationOutcome, ...]
    round: int = 0

    @property
    def effective(self) -> Outcome | CompensationOutcome | None:
        """What was told last of what counts; None while nobody told anything."""
        return next((each for each in reversed(self.outcomes) if each.is_effective), None)

    @property
    def outcome(self) -> str:
        """The outcome in effect; empty while nobody told one."""
        return "" if self.effective is None else self.effective.outcome

    @property
    def says(self) -> str:
        """What was said about it, the last word first."""
        return next((each.evidence for each in reversed(self.outcomes) if each.evidence), "") or ""

    @property
    def response(self) -> Any:
        """What the tool answered with the outcome in effect; None where it said nothing."""
        told = self.effective
        return None if told is None or told.response is None else json.loads(bytes(told.response))


def deliveries() -> QuerySet[Delivery]:
    """Deliveries of effects as `try_of` wants them, in order."""
    outcomes = Outcome.objects.order_by("recorded_at", "id").select_related("by", "person")
    return (
        Delivery.objects.order_by("number")
        .select_related("by")
        .prefetch_related(Prefetch("outcomes", queryset=outcomes))
    )


def try_of(delivery: Delivery | CompensationDelivery, *, of_round: int = 0) -> Try:
    """A delivery as pages show it."""
    return Try(
        number=delivery.number,
        idempotency_key=delivery.idempotency_key,
        admitted_at=delivery.admitted_at,
        lease_until=delivery.lease_until,
        by="" if delivery.by is None else delivery.by.name,
        outcomes=tuple(delivery.outcomes.all()),
        round=of_round,
    )


def tries_of_undoings(ids: Collection[Any]) -> dict[Any, tuple[Try, ...]]:
    """The calls that were made for these compensations, each with its own in order."""
    outcomes = CompensationOutcome.objects.order_by("recorded_at", "id").select_related("by", "person")
    rows = (
        CompensationDelivery.objects.filter(compensation__in=list(ids))
        .select_related("by", "release")
        .prefetch_related(Prefetch("outcomes", queryset=outcomes))
        .order_by("admitted_at", "id")
    )
    found = defaultdict[Any, list[Try]](list)
    for row in rows if ids else ():
        found[row.compensation_id].append(try_of(row, of_round=row.release.round))
    return {known: tuple(tries) for known, tries in found.items()}
