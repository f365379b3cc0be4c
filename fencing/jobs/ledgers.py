"""The ledger job: matches rows of ledgers that were uploaded or are fetched, a moment at a time (L8)."""

from __future__ import annotations

from fencing.gateway.ledger_intake import remove_strays
from fencing.gateway.ledger_reading import is_any_waiting, match_some
from fencing.services.wakeups import wake


def work() -> None:
    """Match for a moment, and hand on to the next wake-up."""
    if match_some():
        wake("ledger")
    else:
        remove_strays()


def sweep() -> None:
    """Find ledgers that wait, or whose worker died."""
    if is_any_waiting():
        wake("ledger")
