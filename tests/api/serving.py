"""A web process of its own on the test database: the real server, the real shell, over real HTTP."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from django.db import connection

from tests.live import TOP, free_port
from tests.throwaway import throw_away

START_S = 30.0
AS_UP = ("-m", "fencing.machine.web")
# Without its net only signals wake reads that wait: what answers one before its time is a signal that came.
WITHOUT_NET = (
    "-c",
    """
import runpy
from fencing.api import hub
hub.NET_S = 3600.0
runpy.run_module("fencing.machine.web", run_name="__main__", alter_sys=True)
""",
)


@dataclass(kw_only=True)
class Web:
    """A running web process."""

    base_url: str
    process: subprocess.Popen[bytes]
    output: Path

    @classmethod
    @contextlib.contextmanager
    def start(cls, folder: Path, program: Sequence[str] = AS_UP, /, **variables: str) -> Iterator[Web]:
        """Start the web server as `up` does, with `variables` in its environment, and stop it at the end."""
        port = free_port()
        output = folder / f"web-{port}.log"
        ours = {"DJANGO_SETTINGS_MODULE": "fencing.settings", "FENCE_ROLE": "app"}
        ours |= {"DATABASE_URL": database_url(), "FENCE_DATABASE_URL_APP": database_url("fence_app")}
        ours |= {"FENCE_DATA": str(throw_away().folder.path)}
        command = [sys.executable, *program, "--host", "127.0.0.1", "--port", str(port)]
        with output.open("wb") as log:
            process = subprocess.Popen(command, cwd=TOP, env=os.environ | ours | variables, stdout=log, stderr=log)
        web = cls(base_url=f"http://127.0.0.1:{port}", process=process, output=output)
        try:
            web.wait_until_it_answers()
            yield web
        finally:
            web.stop()

    def wait_until_it_answers(self) -> None:
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.base_url}/healthz").status_code == 200:
                    return
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < until, self.output.read_text()
            time.sleep(0.05)

    def client(self, key: str, **options: Any) -> httpx.Client:
        """A client that speaks with a key."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.base_url}/api/v1", headers=headers, timeout=40, **options)

    def stop(self) -> None:
        """Stop it as `up` does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def database_url(role: str = "fence_owner") -> str:
    """The address of the database that this test run uses, as one of its roles."""
    known = connection.settings_dict
    user = f"{role}:{quote(throw_away().folder.secret(role))}"
    return f"postgresql://{user}@/{known['NAME']}?host={quote(known['HOST'], safe='')}&port={known['PORT'] or 5432}"
