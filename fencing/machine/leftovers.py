"""What a supervisor that was killed leaves behind: servers that still end, pid files of servers that ended.

Called by the one process that holds the lock of the data folder, so whatever runs on the cluster is nobody's.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from fencing.machine.errors import FolderInUse

PROCESSES = Path("/proc")
# Seconds until the leftovers are asked to end, told to end, and until we give up.
ASK_S, TELL_S, PATIENCE_S = 0.0, 10.0, 20.0
POLL_S = 0.02


def clear_leftovers(cluster: Path) -> None:
    """Wait until no server process works in `cluster`, then remove the pid file that would stop the next one.

    PostgreSQL trusts a pid file whose process lives, and after a restart of the machine another program may have
    that number. That no PostgreSQL process has its working folder in the cluster is the better proof.

    Raises:
        FolderInUse: a server there does not end.
    """
    if not (PROCESSES / "self" / "cwd").exists():
        return  # No Linux: PostgreSQL's own check has to do.
    started = time.monotonic()
    steps = [(ASK_S, signal.SIGINT), (TELL_S, signal.SIGQUIT)]
    while found := _servers_in(cluster):
        waited = time.monotonic() - started
        if waited > PATIENCE_S:
            raise FolderInUse(f"a PostgreSQL (process {min(found)}) runs in {cluster} and does not end; stop it first")
        if steps and waited >= steps[0][0]:
            _signal_heads(found, steps.pop(0)[1])
        time.sleep(POLL_S)
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def _servers_in(cluster: Path) -> dict[int, int]:
    """The PostgreSQL processes whose working folder is `cluster`, each with its parent."""
    found = {}
    place = str(cluster.resolve())
    for entry in PROCESSES.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if str((entry / "cwd").readlink()) == place and (entry / "comm").read_text().strip() == "postgres":
                    # The name stands in brackets and may hold spaces; state and parent follow it.
                    found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _signal_heads(found: dict[int, int], what: signal.Signals) -> None:
    """Signal the servers themselves; they end the processes below them."""
    for process, parent in found.items():
        if parent not in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, what)
