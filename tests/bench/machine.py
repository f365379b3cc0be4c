"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.live import TOP

TURNS: Final = 5_000_000


def describe(settings: Mapping[str, str]) -> dict[str, str]:
    """Tell machine, date and the database's settings, as words for a person."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "load": f"{os.getloadavg()[0]:.2f} runnable before the first figure",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "code": _commit(),
        "PostgreSQL": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }


def pace() -> float:
    """Nanoseconds of processor time for one turn of an empty loop: what the machine gives at this moment.

    The same processor gives half of it while its other thread is busy. Figures of two runs are alike where this is.
    """
    began = time.process_time()
    for _ in range(TURNS):
        pass
    return (time.process_time() - began) * 1e9 / TURNS


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
