"""The sealing job, and the one that tells witnesses: short, and started anew by each tick that finds work (U2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from django.conf import settings

from fencing.queries.sealing import has_unsealed
from fencing.services.heads import BadHead
from fencing.services.sealing import HeadsAhead, seal_audit
from fencing.services.verifications import note_found
from fencing.services.wakeups import has_ended, wake
from fencing.services.witnesses import are_behind, tell_witnesses

log = structlog.get_logger(__name__)

RUN_S = 2.0


def drain() -> int:
    """Seal what can be sealed, for two seconds at most; give how many rows it was."""
    with once("seal"):
        try:
            sealed = seal_audit(RUN_S)
        except HeadsAhead as fault:
            log.critical("sealing_stopped", why=str(fault))
            note_found(fault.kind, str(fault), row=fault.head.after + 1, seal=fault.head.number)
            return 0
        except (BadHead, OSError) as fault:
            # Rows wait, their number is shown, and each tick tries again.
            log.critical("sealing_stopped", why=str(fault))
            return 0
    if sealed.rows and settings.FENCE_WITNESSES:
        wake("witness")
    return sealed.rows


def tell() -> int:
    """Send the heads of new seals to the witnesses."""
    with once("witness"):
        return tell_witnesses()


def sweep() -> None:
    """Find what no wake-up announced: rows without a seal, heads that a witness does not have."""
    if has_unsealed():
        wake("seal")
    if are_behind():
        wake("witness")


@contextmanager
def once(job: str) -> Iterator[None]:
    """Let the next one be enqueued as soon as this one has ended."""
    try:
        yield
    finally:
        has_ended(job)
