"""How far the audit is sealed: what pages, metrics and notifications tell (U2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fencing.models import AuditEvent, Seal, Verification, Witness
from fencing.models.facts import read_clock

MOST_COUNTED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SealLine:
    """The newest seal."""

    number: int
    last: int
    sealed_at: datetime
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealingState:
    """Rows without a seal (`is_capped`: at least so many), for how long the oldest has waited, and the newest seal."""

    now: datetime
    unsealed: int
    is_capped: bool
    lag_s: float
    last: SealLine | None


def has_unsealed() -> bool:
    """Tell whether a row waits for its seal."""
    return AuditEvent.objects.filter(pk__gt=_last_sealed()).exists()


def sealing_state() -> SealingState:
    """Read how far sealing is, in four bounded queries."""
    newest = Seal.objects.order_by("-number").values("number", "last", "sealed_at", "hash").first()
    after = 0 if newest is None else newest["last"]
    waiting = AuditEvent.objects.filter(pk__gt=after)
    oldest = waiting.order_by("pk").values_list("at", flat=True).first()
    count = waiting[: MOST_COUNTED + 1].count() if oldest is not None else 0
    now = read_clock()
    return SealingState(
        now=now,
        unsealed=min(count, MOST_COUNTED),
        is_capped=count > MOST_COUNTED,
        lag_s=0.0 if oldest is None else max(0.0, (now - oldest).total_seconds()),
        last=None if newest is None else SealLine(**newest),
    )


def last_verifications(limit: int = 10) -> list[Verification]:
    """The newest verifications, whatever became of them."""
    return list(Verification.objects.order_by("-asked_at", "-id")[:limit])


def last_finished() -> Verification | None:
    """The newest verification that has ended."""
    return Verification.objects.filter(finished_at__isnull=False).order_by("-asked_at", "-id").first()


def witnesses() -> list[Witness]:
    """Whom heads are sent to, and how far each of them is."""
    return list(Witness.objects.order_by("url"))


def _last_sealed() -> int:
    return Seal.objects.order_by("-number").values_list("last", flat=True).first() or 0


def seal_of_row(row: int) -> Seal | None:
    """Find the seal that covers a row; None where it waits for one."""
    found = Seal.objects.filter(last__gte=row, after__lt=row).defer("entries", "facets")
    return found.order_by("last").first()
