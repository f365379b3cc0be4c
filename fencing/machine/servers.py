"""The two embedded servers of a data folder: who runs them, who may use them, and the environment that finds them.

One process holds `servers.lock` and runs the servers: `up` for as long as it lives, another command for its own
duration. Other commands find them through `run.json`. A command that lends its servers waits for the borrowers
(`users.lock`) before it stops them; `up` does not.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fencing.machine.binaries import find_postgres, find_valkey
from fencing.machine.children import Child
from fencing.machine.errors import FolderInUse, from_os_error
from fencing.machine.folder import ROLES, DataFolder
from fencing.machine.locks import POLL_S, FileLock
from fencing.machine.places import find_places, made_by, remove_short_sockets
from fencing.machine.postgres import DATABASE, Postgres
from fencing.machine.valkey import Valkey

DATABASE_VARIABLES = ("DATABASE_URL", "FENCE_DATABASE_URL_APP", "FENCE_DATABASE_URL_FENCER")
BORROW_S = 60.0


class Kind(StrEnum):
    """Who runs the servers."""

    UP = "up"
    COMMAND = "command"


@dataclass(kw_only=True, slots=True)
class Servers:
    """The servers of `folder`, run by this process. Either is left out where the environment names another one."""

    folder: DataFolder
    postgres: Postgres | None
    valkey: Valkey | None
    children: list[Child] = field(default_factory=list)

    @classmethod
    def plan(cls, folder: DataFolder, environment: Mapping[str, str], *, durable: bool = True) -> "Servers":
        """Find programs and places for what `environment` does not give.

        Raises:
            MachineError: a program is missing, or its folder cannot be used.
        """
        postgres = None
        sockets = folder.sockets
        if not is_given(environment):
            places = find_places(folder, find_postgres(made_by(folder)))
            postgres = Postgres(folder=folder, places=places, durable=durable)
            sockets = places.sockets
        valkey = None
        if not environment.get("REDIS_URL"):
            valkey = Valkey(folder=folder, program=find_valkey(), sockets=sockets)
        return cls(folder=folder, postgres=postgres, valkey=valkey)

    def start(self) -> None:
        """Start both beside each other and wait for both.

        Raises:
            MachineError: one of them does not come up; the other one is stopped.
        """
        try:
            if self.valkey:
                self.children.append(self.valkey.child())
                self.children[-1].start()
            if self.postgres:
                if not self.postgres.is_made:
                    self.postgres.make()
                self.children.append(self.postgres.child())
                self.postgres.start(self.children[-1])
            self.wait()
        except OSError as error:
            self.stop()
            raise from_os_error(error, self.folder.path) or error from error
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Return when every server can be used (also after a restart of one).

        Raises:
            MachineError: one does not come up.
        """
        for child in self.children:
            if self.valkey and child.program.name == "valkey":
                self.valkey.wait(child)
            if self.postgres and child.program.name == "postgres":
                self.postgres.wait(child)

    def restart(self, child: Child) -> None:
        """Start a server again that ended by itself, after what is left of it is gone."""
        if self.postgres and child.program.name == "postgres":
            self.postgres.start(child)
        else:
            child.start()

    def stop(self) -> None:
        """Stop the database last, since the others may still write to it."""
        for child in self.children:
            child.stop()
        self.children.clear()
        if self.postgres:
            remove_short_sockets(self.postgres.places.sockets)

    def environment(self) -> dict[str, str]:
        """Return the variables through which the other parts find these servers."""
        found = {"FENCE_DATA": str(self.folder.path)}
        if self.postgres:
            found |= database_urls(self.folder, self.postgres.places.sockets)
        if self.valkey:
            found["REDIS_URL"] = valkey_url(self.valkey.socket)
        return found

    def describe(self, kind: Kind, **more: Any) -> dict[str, Any]:
        """Return what `run.json` says of them."""
        return {
            "kind": kind,
            "pid": os.getpid(),
            "postgres": str(self.postgres.places.sockets) if self.postgres else None,
            "valkey": str(self.valkey.socket) if self.valkey else None,
            **more,
        }


def database_urls(folder: DataFolder, sockets: Path) -> dict[str, str]:
    """Return the addresses of the embedded database for each role, by variable."""
    host = quote(str(sockets), safe="")
    return {
        name: f"postgresql://{role}:{folder.secret(role)}@/{DATABASE}?host={host}"
        for name, role in zip(DATABASE_VARIABLES, ROLES, strict=True)
    }


def valkey_url(socket: Path) -> str:
    """Return the address of the embedded Valkey."""
    return f"unix://{quote(str(socket))}?db=0"


def runs_servers(run: Mapping[str, Any]) -> bool:
    """Whether `run` (of `run.json`) tells of servers that run: not of a process that was killed."""
    return bool(run) and Path("/proc", str(run["pid"])).exists() is Path("/proc/self").exists()


def clear_previous(folder: DataFolder) -> None:
    """Forget the servers of a process that was killed; only for the holder of the lock."""
    previous = folder.read_run().get("postgres")
    if previous:
        remove_short_sockets(Path(previous))
    folder.run_file.unlink(missing_ok=True)


def is_given(environment: Mapping[str, str]) -> bool:
    """Whether `environment` names a database."""
    return any(environment.get(name) for name in DATABASE_VARIABLES)


def is_production(environment: Mapping[str, str]) -> bool:
    """Whether nothing may be made that an operator has to give."""
    return environment.get("FENCE_MODE") == "production"


def secret_key(folder: DataFolder, environment: Mapping[str, str]) -> dict[str, str]:
    """Return Django's key for `folder`, unless the environment has one or is to be refused for having none."""
    if environment.get("FENCE_SECRET_KEY") or is_production(environment):
        return {}
    return {"FENCE_SECRET_KEY": folder.secret("django")}


@contextlib.contextmanager
def servers_for_command(folder: DataFolder, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Give a command the servers of `folder`: those that run, else its own for its duration.

    Yields:
        The variables to add to the environment.

    Raises:
        MachineError: they do not come up.
    """
    if is_production(environment) or (is_given(environment) and environment.get("REDIS_URL")):
        # Production makes nothing by itself: the settings say what is missing.
        yield {}
        return
    folder.prepare()
    more = secret_key(folder, environment)
    with FileLock(folder.path / "servers.lock") as running, FileLock(folder.path / "users.lock") as using:
        if _borrow(folder, running, using):
            yield {**more, **_borrowed_environment(folder, environment)}
            return
        clear_previous(folder)
        servers = Servers.plan(folder, environment)
        servers.start()
        try:
            folder.write_run(servers.describe(Kind.COMMAND))
            yield {**more, **servers.environment()}
        finally:
            _end_lending(folder, using)
            servers.stop()


def _borrow(folder: DataFolder, running: FileLock, using: FileLock) -> bool:
    """Return True with servers of another process that will stay, False with the right to run them ourselves."""
    until = time.monotonic() + BORROW_S
    while True:
        if running.take():
            return False
        if using.take(shared=True):
            if runs_servers(folder.read_run()):
                return True
            using.release()
        if time.monotonic() > until:
            raise FolderInUse(f"another process is starting or stopping the servers of {folder.path} and does not end")
        time.sleep(POLL_S)


def _borrowed_environment(folder: DataFolder, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that find the servers that another process runs."""
    run = folder.read_run()
    found = {"FENCE_DATA": str(folder.path)}
    if run.get("postgres") and not is_given(environment):
        found |= database_urls(folder, Path(run["postgres"]))
    if run.get("valkey") and not environment.get("REDIS_URL"):
        found["REDIS_URL"] = valkey_url(Path(run["valkey"]))
    return found


def _end_lending(folder: DataFolder, using: FileLock) -> None:
    """Wait for the borrowers; a new one finds that there is nothing to borrow."""
    if not using.take():
        print("another command still uses the servers of this one; waiting for it", file=sys.stderr)
        while not using.take(wait_s=BORROW_S):
            pass
    folder.run_file.unlink(missing_ok=True)
