"""The embedded Valkey: wake-ups and signals only, so it keeps nothing on the disk."""

import contextlib
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from fencing.machine.children import Child, Program
from fencing.machine.errors import ServerFailed
from fencing.machine.folder import DataFolder

START_S = 30.0
POLL_S = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Valkey:
    """The server of one data folder, on a socket in a private folder."""

    folder: DataFolder
    program: Path
    sockets: Path

    @property
    def socket(self) -> Path:
        """The socket's path."""
        return self.sockets / "valkey.sock"

    def child(self) -> Child:
        """Return the server as a child that is not started yet."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "dir": str(self.sockets),
            "maxmemory": "256mb",
            "maxmemory-policy": "noeviction",
        }
        command = [str(self.program), *(part for name, value in options.items() for part in (f"--{name}", value))]
        return Child(
            program=Program(
                name="valkey",
                command=command,
                log=self.folder.log("valkey"),
                environment=dict(os.environ),
                folder=self.folder.path,
                # There is nothing to save, and an orderly end would remove the socket of a successor.
                death_signal=signal.SIGKILL,
                stop_s=5.0,
            )
        )

    def wait(self, child: Child) -> None:
        """Return when the server answers.

        Raises:
            ServerFailed: it ended or did not come up in time.
        """
        until = time.monotonic() + START_S
        while not self._answers():
            if not child.is_running or time.monotonic() > until:
                raise ServerFailed(f"Valkey did not start. Its last words:\n{child.last_words()}")
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(1.0)
            connection.connect(str(self.socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False
