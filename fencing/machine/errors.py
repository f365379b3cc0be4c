"""What can go wrong with the machine, each as an error whose message a person can act upon."""

import errno
from pathlib import Path


class MachineError(Exception):
    """The machine lacks something or something is in the way; the message says what to do."""


class PortTaken(MachineError):
    """Another process listens where the web server should."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"port {port} on {host} is taken by another program; choose a free one with --port N")


class FolderInUse(MachineError):
    """Another process runs the servers of this data folder."""


class DiskFull(MachineError):
    """The disk of a folder has no room."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the disk that holds {path} is full; free some space, or choose another folder with --data DIR"
        )


class ServerMissing(MachineError):
    """Neither a wheel nor the system has the program of a server."""


class ServerFailed(MachineError):
    """A server did not start; the message ends with the last lines of its log."""


def from_os_error(error: OSError, path: Path) -> MachineError | None:
    """Return the error that a person understands for `error` at `path`, or None where there is no better one."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return MachineError(
            f"{error.filename or path} cannot be written ({error.strerror}); choose another folder with --data DIR"
        )
    return None
