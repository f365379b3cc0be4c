"""The servers of a test run: real ones, in a temporary folder, started by the first test that needs them."""

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path

from fencing.machine.folder import DataFolder
from fencing.machine.locks import FileLock
from fencing.machine.servers import Servers, secret_key

PREFIX, LOCK = "fence-tests-", "alive.lock"
# A folder this young may not be held yet by the run that has just made it.
YOUNG_S = 60.0


class ThrowAway:
    """Servers whose addresses are known before they run, so that Django's settings can hold them from the start."""

    def __init__(self) -> None:
        sweep_away()
        self.folder = DataFolder(path=Path(tempfile.mkdtemp(prefix=PREFIX)))
        self._alive = FileLock(self.folder.path / LOCK)
        self._alive.take()
        atexit.register(self.end)
        self.folder.prepare()
        self._servers = Servers.plan(self.folder, os.environ, durable=False)
        self._is_started = False

    @property
    def has_postgres(self) -> bool:
        """Whether the database server is ours, and not one that the environment names."""
        return self._servers.postgres is not None

    def announce(self) -> None:
        """Put the addresses into the environment of this process."""
        # Asked before the update: afterwards the environment names a database, ours.
        variables = self._servers.environment() | secret_key(self.folder, os.environ)
        os.environ.update(variables)

    def start(self) -> None:
        """Start them, once."""
        if not self._is_started:
            self._is_started = True
            self._servers.start()

    def end(self) -> None:
        """Stop them and remove every trace."""
        self._servers.stop()
        shutil.rmtree(self.folder.path, ignore_errors=True)


def sweep_away() -> None:
    """Remove what test runs that were killed left behind: folders that nobody holds any more."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), FileLock(left / LOCK) as lock:
            if time.time() - left.stat().st_mtime > YOUNG_S and lock.take():
                shutil.rmtree(left, ignore_errors=True)


@cache
def throw_away() -> ThrowAway:
    """Return the one instance of this process."""
    return ThrowAway()
