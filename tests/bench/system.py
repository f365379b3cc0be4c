"""The measured system: an `up` with a data folder of its own that is thrown away, and durable as in earnest."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from fencing.machine.folder import DataFolder
from fencing.machine.servers import database_urls, secret_key, valkey_url
from tests.live import TOP, LiveSystem, bare_environment

DURABLE: Final = ("fsync", "synchronous_commit", "full_page_writes")
SHOWN: Final = (*DURABLE, "server_version", "shared_buffers", "max_wal_size", "wal_sync_method")
KEYS_S: Final = 120.0
# So many planners' keys are issued at once.
KEYS: Final = 96
# From so many steps on, who waits is told how far it is.
LONG: Final = 100_000
OF_ROLES: Final = """
SELECT count(*) FROM pg_db_role_setting CROSS JOIN LATERAL unnest(setconfig) AS setting
WHERE setting ~ '^(fsync|synchronous_commit|full_page_writes)='
"""
WHOLE_DAYS: Final = 36_500.0
# Rows of the audit that no seal holds yet. A history that was filled in at once is sealed afterwards, and that work
# beside the system's own is something that months of use never see.
UNSEALED: Final = """
SELECT coalesce((SELECT max(id) FROM fencing_auditevent), 0) - coalesce((SELECT max(last) FROM fencing_seal), 0)
"""
FEW: Final = 10_000
SEALED_S: Final = 7200.0


class NotDurable(Exception):
    """A figure of a database that may forget what it acknowledged would be no figure of this system."""


@dataclass(kw_only=True, slots=True)
class Measured:
    """A running system under measurement: its data folder, the process of `up`, and where it answers."""

    folder: DataFolder
    up: int
    base_url: str
    _planners: list[str] = field(default_factory=list, repr=False)
    _others: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    @contextlib.contextmanager
    def start(cls, *, steps: int = 0, audit_days: float = 0.0) -> Iterator[Measured]:
        """Start one, with a history of so many steps, and remove every trace of it at the end."""
        with tempfile.TemporaryDirectory(prefix="fence-bench-") as folder:
            if steps:
                _fill(Path(folder) / "data", steps, audit_days or WHOLE_DAYS)
            with LiveSystem.start(Path(folder)) as live:
                measured = cls.running(live.data)
                measured.wait_until_sealed()
                yield measured

    @classmethod
    def running(cls, data: Path) -> Measured:
        """Take one that runs with the data folder `data`. Raises `NotDurable`, or `LookupError` where none runs."""
        folder = DataFolder(path=data.absolute())
        run = folder.read_run()
        if run.get("kind") != "up":
            raise LookupError(f"no `up` runs with {data}")
        measured = cls(folder=folder, up=int(run["pid"]), base_url=str(run["address"]))
        measured.check_durable()
        return measured

    @property
    def urls(self) -> Mapping[str, str]:
        """The addresses of its database, by the variable of each role."""
        return database_urls(self.folder, Path(self.folder.read_run()["postgres"]))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a command that works as its owner."""
        run = self.folder.read_run()
        return {
            **bare_environment(),
            **self.urls,
            **secret_key(self.folder, {}),
            "FENCE_DATA": str(self.folder.path),
            "FENCE_ROLE": "owner",
            "REDIS_URL": valkey_url(Path(run["valkey"])),
            "DJANGO_SETTINGS_MODULE": "fencing.settings",
        }

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection as the owner, each statement a transaction."""
        return psycopg.connect(self.urls["DATABASE_URL"], autocommit=True)

    def settings(self) -> dict[str, str]:
        """What the database says of itself."""
        with self.connect() as connection:
            return {name: str(_one(connection.execute(f"SHOW {name}"))) for name in SHOWN}

    def check_durable(self) -> None:
        """Refuse to measure a database that gives up durability for speed. Raises `NotDurable`."""
        found = self.settings()
        off = [name for name in DURABLE if found[name] != "on"]
        # A role or a database may have settings of its own, which a session of the owner does not show.
        if off or self.one(OF_ROLES):
            raise NotDurable(f"{', '.join(off or DURABLE)} must be on, for every role: else a figure means nothing")

    def keys(self, planners: int) -> dict[str, Any]:
        """Keys that nobody has used: of so many planners, each in a group of its own, and of every other role."""
        if len(self._planners) < planners:
            command = [sys.executable, "-m", "tests.bench.keys", str(KEYS)]
            done = subprocess.run(
                command, cwd=TOP, env=self.environment, stdout=subprocess.PIPE, text=True, timeout=KEYS_S, check=True
            )
            self._others = json.loads(done.stdout.splitlines()[-1])
            self._planners = list(self._others.pop("planners"))
        taken, self._planners = self._planners[:planners], self._planners[planners:]
        return {**self._others, "planners": taken}

    def wait_until_sealed(self) -> None:
        """Wait until the audit of its history is sealed. Raises `TimeoutError` where that does not come to an end."""
        end = time.monotonic() + SEALED_S
        while self.one(UNSEALED) > FEW:
            if time.monotonic() > end:
                raise TimeoutError("the audit was not sealed")
            time.sleep(0.5)

    def one(self, statement: str) -> Any:
        """The one value that a statement gives."""
        with self.connect() as connection:
            return _one(connection.execute(statement.encode()))


def _fill(data: Path, steps: int, audit_days: float) -> None:
    """Fill a database before anybody uses it: the session that loads holds every table for itself."""
    quiet = ["--quiet"] if steps < LONG else []
    for words in (["prepare"], ["fill", f"--steps={steps}", f"--audit-days={audit_days}", *quiet]):
        command = [sys.executable, "manage.py", *words, "--data", str(data)]
        subprocess.run(command, cwd=TOP, env=bare_environment(), stdout=subprocess.DEVNULL, check=True)


def _one(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    return None if row is None else row[0]
