"""Locks between processes: held by an open file, so that the death of the holder frees them."""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Self

POLL_S = 0.05


class FileLock:
    """A lock on a file. The file stays; only the lock on it comes and goes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, *, shared: bool = False, wait_s: float = 0.0) -> bool:
        """Take the lock, for `wait_s` seconds at most, and return whether it is held now."""
        until = time.monotonic() + wait_s
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._descriptor, how)
                return True
            if time.monotonic() >= until:
                self.release()
                return False
            time.sleep(POLL_S)

    def release(self) -> None:
        """Free the lock; nothing happens where it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
