"""Raises fencing workers to be killed: one at a time, born ready, so that a death costs no loading of code."""

from __future__ import annotations

import os
import signal
import sys

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "fencing.settings"
django.setup()

from fencing.jobs.worker import run_worker  # noqa: E402 - Django must be set up before its models are imported
from fencing.machine.launch import die_with_parent  # noqa: E402


def raise_workers(queue: str) -> None:
    """Fork a worker, wait for its death, and fork the next, until this process is told to end."""
    mother = os.getpid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        child = os.fork()
        if child == 0:
            die_with_parent(mother, signal.SIGKILL)
            run_worker([queue])
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    raise_workers(sys.argv[1] if len(sys.argv) > 1 else "fence")
