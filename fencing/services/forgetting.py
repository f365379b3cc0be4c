"""Forgetting cold prose (U5): by age or by run, as an audited act. What was decided on it still verifies.

Prose lies outside the database, named by its SHA-256: deleting it changes no vote, no digest and no seal. The reference
stays, and a row tells that it was forgotten and not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from django.db import transaction
from django.db.models import Q

from fencing.models import Forgotten, SideLogRow, Step, Vote, cold
from fencing.models.forgetting import forgotten_refs
from fencing.protocol.callers import Caller
from fencing.services.writes import Writes

BATCH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be forgotten: of a run, or older than a moment, or both. `reason` stands in the audit."""

    run: str | None
    before: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How many texts are gone, how many were gone before, and how many stay because something newer says the same."""

    forgotten: int
    already: int
    kept: int


def forget(wanted: Wanted, caller: Caller, tell: Callable[[int], None] = lambda _count: None) -> Done:
    """Forget in batches, each in a transaction of its own with its row of the audit; safe to repeat after a crash.

    The row is written first: a text that could not be deleted is told as forgotten, and deleted by the repetition. By
    run, a text goes wherever else it was said. By age, one that was said again since stays.
    """
    forgotten = already = kept = 0
    for batch in _batches(wanted):
        refs = set(batch)
        spared = _said_since(refs, wanted.before) if wanted.run is None and wanted.before is not None else set()
        gone = set(forgotten_refs(refs))
        fresh = refs - spared - gone
        with transaction.atomic():
            Forgotten.objects.bulk_create([Forgotten(ref=ref) for ref in sorted(fresh)], ignore_conflicts=True)
            if fresh:
                _note(wanted, sorted(fresh), caller)
        for ref in refs - spared:
            cold.delete(ref)
        forgotten, already, kept = forgotten + len(fresh), already + len(gone - spared), kept + len(spared)
        tell(forgotten)
    return Done(forgotten=forgotten, already=already, kept=kept)


def _note(wanted: Wanted, refs: list[str], caller: Caller) -> None:
    writes = Writes(caller)
    before = None if wanted.before is None else wanted.before.isoformat()
    after = {"texts": len(refs), "before": before, "digests": [_digest(ref) for ref in refs]}
    writes.audit("forget_prose", "prose", wanted.run or "by age", run=wanted.run, after=after, reason=wanted.reason)
    writes.send()


def _batches(wanted: Wanted) -> Iterator[list[str]]:
    steps, votes, refused = Step.objects.all(), Vote.objects.all(), SideLogRow.objects.all()
    if wanted.run is not None:
        steps, votes = steps.filter(run__name=wanted.run), votes.filter(step__run__name=wanted.run)
        refused = refused.filter(run=wanted.run)
    if wanted.before is not None:
        steps, votes = steps.filter(opened_at__lt=wanted.before), votes.filter(received_at__lt=wanted.before)
        refused = refused.filter(recorded_at__lt=wanted.before)
    found = chain(
        steps.filter(context_ref__isnull=False).values_list("context_ref", flat=True).iterator(BATCH),
        votes.filter(rationale_ref__isnull=False).values_list("rationale_ref", flat=True).iterator(BATCH),
        refused.filter(body_ref__isnull=False).values_list("body_ref", flat=True).iterator(BATCH),
    )
    batch: list[str] = []
    for ref in found:
        batch.append(str(ref))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _said_since(refs: set[str], before: datetime) -> set[str]:
    """Texts that something younger refers to as well."""
    found = set(Step.objects.filter(context_ref__in=refs, opened_at__gte=before).values_list("context_ref", flat=True))
    found |= set(
        Vote.objects.filter(Q(rationale_ref__in=refs), received_at__gte=before).values_list("rationale_ref", flat=True)
    )
    found |= set(
        SideLogRow.objects.filter(body_ref__in=refs, recorded_at__gte=before).values_list("body_ref", flat=True)
    )
    return {ref for ref in found if ref}


def _digest(ref: str) -> str:
    return "sha256:" + ref.rpartition("/")[2].partition(".")[0]
