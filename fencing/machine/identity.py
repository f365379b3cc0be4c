"""As whom PostgreSQL runs: it refuses root, and a checkout below a 0700 folder is closed to everybody else.

- `PLAIN`: this user, where it is not root and has a name (PostgreSQL looks for one).
- `NAMESPACE`: this user, inside a user name space that calls it by another id. Files and folders keep their owner,
  and the server can enter what this user can. The usual case of a container.
- `NOBODY`: where name spaces are forbidden. The server, its files and a copy of its programs have to be where
  `nobody` can enter (`places.py`).
"""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from fencing.machine.errors import ServerFailed
from fencing.machine.launch import FORBIDDEN, nobody

LAUNCH = Path(__file__).with_name("launch.py")
PROBE_S = 30.0
TRIES = 3


class Identity(StrEnum):
    """As whom a program is started."""

    PLAIN = "plain"
    NAMESPACE = "namespace"
    NOBODY = "nobody"

    @property
    def owner(self) -> tuple[int, int]:
        """User and group, seen from outside, that own the files of a program with this identity."""
        return nobody() if self is Identity.NOBODY else (os.geteuid(), os.getegid())


def launched(command: Sequence[str], identity: Identity, death_signal: int) -> list[str]:
    """Return the command that starts `command` as `identity` and lets it die with this process."""
    # -I and -S keep the start at a few milliseconds and out of reach of the environment.
    return [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), str(int(death_signal)), identity, *command]


def works(command: Sequence[str], identity: Identity) -> bool:
    """Return whether `command` ends well when it is started as `identity`."""
    return _probe(command, identity).returncode == 0


def choose_identity(program: Path) -> Identity:
    """Return as whom `program` (PostgreSQL's server) can run here, by trying it.

    Raises:
        ServerFailed: a user name space is allowed, and yet the program does not run in it. `NOBODY` would move the
            cluster, which a passing trouble must not do.
    """
    is_root = os.geteuid() == 0
    if not is_root and _has_name(os.geteuid()):
        return Identity.PLAIN
    words = ""
    for _ in range(TRIES):
        result = _probe([str(program), "--version"], Identity.NAMESPACE)
        if result.returncode == 0:
            return Identity.NAMESPACE
        if result.returncode == FORBIDDEN:
            return Identity.NOBODY if is_root else Identity.PLAIN
        words = f"code {result.returncode}, {result.stderr.decode(errors='replace').strip()}"
    raise ServerFailed(f"{program} does not run in a user name space: {words}")


def _probe(command: Sequence[str], identity: Identity) -> subprocess.CompletedProcess[bytes]:
    probe = launched(command, identity, signal.SIGKILL)
    return subprocess.run(probe, capture_output=True, timeout=PROBE_S, check=False, cwd="/")


def _has_name(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True
