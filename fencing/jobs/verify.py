"""The job that verifies the audit: a slice at a time, so that sealing and notices get their turn in between (U3)."""

from __future__ import annotations

from fencing.jobs.seal import once
from fencing.services.verifications import ask_if_due, is_wanted, work_on
from fencing.services.wakeups import wake

RUN_S = 3.0


def work() -> bool:
    """Work for a few seconds at the verification that somebody asked for; True where there is more to do."""
    with once("verify"):
        has_more = work_on(RUN_S)
    if has_more:
        wake("verify")
    return has_more


def sweep() -> None:
    """Find one that waits, or is due by the calendar."""
    ask_if_due()
    if is_wanted():
        wake("verify")
