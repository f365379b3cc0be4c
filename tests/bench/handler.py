"""Serving the bare handler as a web process is served: granian, one worker, and eight threads as ours has."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from tests.bench.bare import TABLE
from tests.bench.system import Measured
from tests.bench.wire import Line
from tests.live import TOP, bare_environment, free_port

THREADS: Final = 8
START_S: Final = 30.0


@contextlib.contextmanager
def serving(measured: Measured) -> Iterator[tuple[str, int]]:
    """Yield address and process of a bare handler that writes into the measured system's own database server."""
    with measured.connect() as connection:
        connection.execute(TABLE.encode())
    port = free_port()
    command = [
        *(sys.executable, "-m", "granian", "--host", "127.0.0.1", "--port", str(port), "--no-ws"),
        *("--interface", "wsgi", "--workers", "1", "--blocking-threads", str(THREADS), "--log-level", "error"),
        "tests.bench.bare:application",
    ]
    environment = {**bare_environment(), "BARE_DATABASE_URL": measured.urls["DATABASE_URL"]}
    with subprocess.Popen(command, cwd=TOP, env=environment) as process:
        try:
            _wait(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            process.wait(START_S)
            with measured.connect() as connection:
                connection.execute("DROP SCHEMA IF EXISTS bare_handler CASCADE")


def _wait(base_url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError):
            line = Line(base_url, "none")
            line.get(b"/ready")
            line.close()
            return
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the bare handler did not start")
        time.sleep(0.05)
