"""The embedded PostgreSQL: made once, then run as a foreground child.

A cluster is complete or not there: it is built beside its place and renamed at the end. Its three roles (and the
superuser `postgres`, for this module alone) exist from the first moment, with passwords out of the secrets folder.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fencing.machine.children import Child, Program
from fencing.machine.errors import DiskFull, ServerFailed
from fencing.machine.folder import ROLES, DataFolder
from fencing.machine.identity import Identity, launched
from fencing.machine.leftovers import clear_leftovers
from fencing.machine.places import Places, give_to

DATABASE = "fence"
START_S = 60.0
MAKE_S = 180.0
POLL_S = 0.01
READY_LINE = 7
SOCKET_PORT = 5432

# Small enough for a laptop, and durable: what a client was told is committed survives the power cut.
SETTINGS = {
    "listen_addresses": "",
    "port": str(SOCKET_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "40",
    "shared_buffers": "128MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "max_wal_size": "1GB",
    "min_wal_size": "80MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A statement in the log would carry what a caller sent.
    "log_min_error_statement": "panic",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}
# For throw-away data only: an operating system crash may lose it.
HASTY_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Postgres:
    """The server of one data folder. `durable=False` is for data that is thrown away."""

    folder: DataFolder
    places: Places
    durable: bool = True

    @property
    def is_made(self) -> bool:
        """Whether the cluster exists."""
        return (self.places.cluster / "PG_VERSION").exists()

    def make(self) -> None:
        """Build the cluster with its database and roles.

        Raises:
            ServerFailed: initdb or the first statements failed.
            DiskFull: there is no room.
        """
        draft = self.places.cluster.with_name(self.places.cluster.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            self._make_in(draft)
        except BaseException:
            # Half a cluster is of no use, and on a full disk it is in the way.
            shutil.rmtree(draft, ignore_errors=True)
            raise
        draft.rename(self.places.cluster)

    def _make_in(self, draft: Path) -> None:
        draft.mkdir(mode=0o700)
        give_to(draft, self.places.identity)
        password = self.places.sockets / "first-password"
        password.write_text(self.folder.secret("postgres") + "\n", encoding="ascii")
        give_to(password, self.places.identity)
        try:
            self._run(self._initdb(draft, password))
        finally:
            password.unlink()
        self._run(self._single(draft, "postgres"), self._roles_sql())

    def child(self) -> Child:
        """Return the server as a child that is not started yet."""
        return Child(
            program=Program(
                name="postgres",
                command=[self._binary("postgres"), "-D", str(self.places.cluster), *self._options()],
                log=self.folder.log("postgres"),
                environment=_environment(),
                folder=self.places.cluster.parent,
                identity=self.places.identity,
                # A fast shutdown either way: sessions end, everything committed is on the disk.
                death_signal=signal.SIGINT,
                stop_signal=signal.SIGINT,
                stop_s=30.0,
            )
        )

    def start(self, child: Child) -> None:
        """Start the server; `wait` tells when it can be used."""
        clear_leftovers(self.places.cluster)
        child.start()

    def wait(self, child: Child) -> None:
        """Return when the server takes connections.

        Raises:
            ServerFailed: it ended or did not come up in time.
            DiskFull: there is no room.
        """
        until = time.monotonic() + START_S
        while not self._is_ready(child.pid):
            if not child.is_running or time.monotonic() > until:
                raise self._failure("PostgreSQL did not start", child.last_words())
            time.sleep(POLL_S)

    def _is_ready(self, pid: int) -> bool:
        """Whether the server says so in its pid file (the file that `pg_ctl` waits for)."""
        try:
            lines = (self.places.cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > READY_LINE and lines[0].strip() == str(pid) and lines[READY_LINE].strip() == "ready"

    def _binary(self, name: str) -> str:
        return str(self.places.binaries / name)

    def _settings(self) -> dict[str, str]:
        return {
            **SETTINGS,
            **({} if self.durable else HASTY_SETTINGS),
            "unix_socket_directories": str(self.places.sockets),
        }

    def _options(self) -> list[str]:
        return [part for name, value in self._settings().items() for part in ("-c", f"{name}={value}")]

    def _initdb(self, cluster: Path, password: Path) -> list[str]:
        return [
            self._binary("initdb"),
            f"--pgdata={cluster}",
            "--username=postgres",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-locale",
            "--no-instructions",
            *([] if self.durable else ["--no-sync"]),
        ]

    def _single(self, cluster: Path, database: str) -> list[str]:
        return [
            self._binary("postgres"),
            "--single",
            "-D",
            str(cluster),
            *self._options(),
            "-c",
            "exit_on_error=on",
            database,
        ]

    def _roles_sql(self) -> str:
        """One statement a line: single-user mode ends a statement at the line's end."""
        lines = [f"CREATE ROLE {role} LOGIN PASSWORD '{self.folder.secret(role)}';" for role in ROLES]
        if not self.durable:
            # Tests make databases of their own.
            lines.append("ALTER ROLE fence_owner CREATEDB;")
        lines.append(f"CREATE DATABASE {DATABASE} OWNER fence_owner;")
        lines.append(f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC;")
        lines.append(f"GRANT CONNECT ON DATABASE {DATABASE} TO fence_app, fence_fencer;")
        return "\n".join(lines) + "\n"

    def _run(self, command: list[str], text: str = "") -> None:
        result = subprocess.run(
            launched(command, self.places.identity, signal.SIGKILL),
            input=text,
            capture_output=True,
            text=True,
            timeout=MAKE_S,
            check=False,
            cwd=self.places.cluster.parent,
            env=_environment(),
        )
        if result.returncode != 0:
            # The statements hold passwords, and single-user mode repeats none of them on standard error.
            raise self._failure(f"{Path(command[0]).name} failed", "\n".join(result.stderr.strip().splitlines()[-8:]))

    def _failure(self, what: str, words: str) -> ServerFailed | DiskFull:
        if "No space left on device" in words:
            return DiskFull(self.places.cluster)
        return ServerFailed(f"{what}. Its last words ({self.folder.log('postgres')}):\n{words}")


def _environment() -> Mapping[str, str]:
    """PostgreSQL's own variables (PGDATA, PGOPTIONS, …) of the caller must not reach this server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def identity_note(identity: Identity) -> str:
    """Return a few words on as whom the server runs, empty where there is nothing special."""
    match identity:
        case Identity.NAMESPACE:
            return " (in a user name space of its own)"
        case Identity.NOBODY:
            return " (as nobody, since PostgreSQL refuses root)"
        case Identity.PLAIN:
            return ""
