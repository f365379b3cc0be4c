"""The ledger job: matches rows of ledgers that were uploaded or are fetched, a few seconds at a time (L8)."""

from __future__ import annotations

from fencing.gateway.ledger_reading import match_some
from fencing.models import Ledger
from fencing.services.wakeups import wake


def work() -> None:
    """Match for a few seconds, and hand on to the next wake-up."""
    if match_some():
        wake("ledger")


def sweep() -> None:
    """Find ledgers that wait, or whose worker died."""
    if Ledger.objects.filter(finished_at=None).exists():
        wake("ledger")
