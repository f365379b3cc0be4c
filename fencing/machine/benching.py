"""`manage.py bench`: measures the system, against an `up` of its own that is thrown away. Lives in `tests/bench`."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fencing.machine.identity import Identity, launched

TOP = Path(__file__).resolve().parent.parent.parent
INTERRUPT = 2
END_S = 90.0


def main(arguments: Sequence[str]) -> int:
    """Run the bench with its output on this terminal and return its exit code."""
    command = [sys.executable, "-m", "tests.bench", *arguments]
    process = subprocess.Popen(
        launched(command, Identity.PLAIN, INTERRUPT), stdin=subprocess.DEVNULL, cwd=TOP, env=dict(os.environ)
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached it as well; it stops its servers and removes their folder.
        return process.wait(END_S)
