"""A worker's jobs on a host whose clock may be wrong: each line of standard input has everything done that is due."""

from __future__ import annotations

import os
import sys
import time

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "fencing.settings"
django.setup()

from fencing.gateway.outcomes import sweep_intents  # noqa: E402 - Django must be set up before its models are imported
from fencing.services.fencing import decide_due  # noqa: E402
from fencing.services.grants import expire_grants  # noqa: E402

MOST_BATCHES = 20


def work() -> None:
    """Do what is due, and tell what this host takes the time to be."""
    for _line in sys.stdin:
        expire_grants()
        sweep_intents()
        for _ in range(MOST_BATCHES):
            if not decide_due():
                break
        sys.stdout.write(f"{time.time()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    work()
