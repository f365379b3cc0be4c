"""Entry points of the background jobs, and their net.

A job is a wake-up: it carries nothing, may be lost, doubled or late, and takes its work from the database. Two things
start one: `wake` after a commit, and `tick` each second from every worker process, which finds what no wake-up told.
"""

from __future__ import annotations

import time

from fencing.services import beats
from fencing.services.wakeups import wake

__all__ = ["tick", "wake"]


def tick() -> None:
    """Find what is due and was not told: steps, leases, grants. Several tickers beside each other are harmless."""
    # Models are ready only once Django is.
    from fencing.jobs import fence, grades, ledgers, notify, seal, verify  # noqa: PLC0415

    took: dict[str, tuple[float, str]] = {}
    for each in (fence, seal, verify, notify, ledgers, grades):
        name, started = f"sweep {each.__name__.rpartition('.')[2]}", time.monotonic()
        try:
            each.sweep()
        except Exception as error:
            beats.note({**took, name: (time.monotonic() - started, type(error).__name__)})
            raise
        took[name] = (time.monotonic() - started, "")
    beats.note(took)
