"""Workers on the test database that may be killed: a mother of each queue raises one after the death of the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.api.serving import database_url
from tests.cases.processes import below, kill
from tests.live import TOP
from tests.throwaway import throw_away


@contextmanager
def nursery(queue: str) -> Iterator[subprocess.Popen[bytes]]:
    """Raise workers of a queue; they may call tools on this machine."""
    ours = {"FENCE_ROLE": "fencer", "FENCE_DATA": str(throw_away().folder.path), "FENCE_TOOL_HOSTS": "127.0.0.1"}
    ours |= {"DATABASE_URL": database_url(), "FENCE_DATABASE_URL_FENCER": database_url("fence_fencer")}
    command = [sys.executable, "-m", "tests.faults.nursery", queue]
    process = subprocess.Popen(command, cwd=TOP, env=os.environ | ours, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        kill(below(process.pid, "nursery"))
        process.send_signal(signal.SIGKILL)
        process.wait(10)
