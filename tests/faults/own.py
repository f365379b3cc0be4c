"""An `up` that fault tests may disturb: its parts by name, its servers, and calls that are repeated."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import psycopg
import redis

from fencing.machine.folder import DataFolder
from fencing.machine.servers import database_urls, valkey_url
from tests.actors import player_for
from tests.cases.processes import below
from tests.length import long_or
from tests.live import TOP, LiveSystem, bare_environment
from tests.playing import Player, Reply, Step

# Enough for the cluster, its log and what a test stores; little enough to be filled.
DISK: Final = long_or("size=800m", long="size=4g")
PARTS: Final = {
    "fence": "manage.py work fence",
    "default": "manage.py work default",
    "web": "fencing.machine.web",
    "valkey": "valkey-server",
    "postgres": "bin/postgres -D",
}
PATIENCE_S: Final = 90.0
PAUSE_S: Final = 0.1
# What a client cannot tell from a service that is away.
AWAY: Final = (OSError, http.client.HTTPException)


@dataclass(kw_only=True)
class Own:
    """A running `up`, with everybody's keys."""

    live: LiveSystem
    player: Player
    disk: Path | None

    @classmethod
    @contextlib.contextmanager
    def start(cls, folder: Path) -> Iterator[Self]:
        """Start it with its data on a small disk of its own, where this process may mount one."""
        with small_disk(folder) as disk, LiveSystem.start(disk or folder) as live:
            yield cls(live=live, player=player_for(live), disk=disk)

    # ---- its parts ----

    def part(self, name: str) -> int:
        """The process of a part, 0 where there is none now."""
        return min(below(self.live.process.pid, PARTS[name]), default=0)

    def kill(self, name: str) -> bool:
        """Kill a part as nobody can catch it; False where it is not there."""
        pid = self.part(name)
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    @property
    def run(self) -> dict[str, Any]:
        """What `run.json` tells."""
        told: dict[str, Any] = json.loads((self.live.data / "run.json").read_text())
        return told

    def connect(self, role: str = "fence_owner", **options: Any) -> psycopg.Connection[Any]:
        """Open a connection to its database."""
        password = DataFolder(path=self.live.data).secret(role)
        return psycopg.connect(
            host=self.run["postgres"], dbname="fence", user=role, password=password, autocommit=True, **options
        )

    def valkey(self) -> redis.Redis:
        """Open a client of its Valkey."""
        return redis.Redis(unix_socket_path=self.run["valkey"])

    def environment(self, role: str) -> dict[str, str]:
        """What one more process of it has in its environment."""
        urls = database_urls(DataFolder(path=self.live.data), Path(self.run["postgres"]))
        variable = f"FENCE_DATABASE_URL_{role.upper()}"
        ours = {"FENCE_DATA": str(self.live.data), "FENCE_ROLE": role, variable: urls[variable]}
        return bare_environment() | ours | {"REDIS_URL": valkey_url(Path(self.run["valkey"]))}

    @contextlib.contextmanager
    def beside(self, *command: str, role: str = "fencer", **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run one more Python process of the system, and end it after the block."""
        environment = self.environment(role) | variables
        process = subprocess.Popen([sys.executable, *command], cwd=TOP, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # ---- calls ----

    def say(self, actor: str, call: str, **body: Any) -> Reply:
        """Send a call, again while the service is away or asks for it: at least once, as every client does (N2)."""
        step: Step = {"as": actor, "call": call, **({"body": body} if body else {})}
        until = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(*AWAY):
                reply = self.player.send(step)
                assert reply.status < 500 or (reply.status == 503 and int(reply.headers["retry-after"]) >= 1), reply
                if reply.status not in (429, 503):
                    return reply
            assert time.monotonic() < until, f"{call} was never answered"
            time.sleep(PAUSE_S)

    def recompute(self) -> str:
        """Prove that stored states are those that the facts tell."""
        return self.live.manage("recompute").stdout


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small disk below `folder`; None where this process may not."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", DISK, "fence", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def eventually(condition: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait until `condition` holds; an error of a connection counts as not yet."""
    until = time.monotonic() + within_s
    while True:
        with contextlib.suppress(*AWAY, psycopg.Error, redis.RedisError):
            if condition():
                return
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.05)
