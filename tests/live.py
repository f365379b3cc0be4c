"""A whole system as a person starts it: `manage.py up` in a process tree of its own."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
START_S = 150.0
OURS = re.compile(r"^(FENCE_|DATABASE_URL$|REDIS_URL$|DJANGO_|PYTEST_|COV_)")


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bare_environment() -> dict[str, str]:
    """Return this process's environment without anything that would point a command at the test run's servers."""
    return {name: value for name, value in os.environ.items() if not OURS.match(name)}


def open_to_tools() -> dict[str, str]:
    """Return a bare environment in which push tools on this machine may be called."""
    return {**bare_environment(), "FENCE_TOOL_HOSTS": "127.0.0.1"}


@dataclass(kw_only=True, slots=True)
class LiveSystem:
    """A running `up` with its `base_url` and data folder `data`."""

    base_url: str
    data: Path
    process: subprocess.Popen[bytes]
    output: Path

    @classmethod
    @contextlib.contextmanager
    def start(cls, folder: Path, *options: str, port: int = 0) -> Iterator["LiveSystem"]:
        """Start `up` with its data in `folder`/data, yield it when it answers, and stop it at the end."""
        port = port or free_port()
        output = folder / "up.log"
        command = [sys.executable, "manage.py", "up", "--no-demo", "--port", str(port), "--data", str(folder / "data")]
        with output.open("wb") as log:
            process = subprocess.Popen([*command, *options], cwd=TOP, env=open_to_tools(), stdout=log, stderr=log)
        system = cls(base_url=f"http://127.0.0.1:{port}", data=folder / "data", process=process, output=output)
        try:
            system.wait_until_it_says(r"^ready ")
            yield system
        finally:
            system.stop()

    def wait_until_it_says(self, pattern: str, within_s: float = START_S) -> None:
        """Return when a line of its output matches `pattern`."""
        until = time.monotonic() + within_s
        while not re.search(pattern, self.said(), re.MULTILINE):
            assert self.process.poll() is None, f"up ended:\n{self.said()}"
            assert time.monotonic() < until, f"up did not say {pattern!r}:\n{self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        """Return everything that `up` has printed."""
        return self.output.read_text(encoding="utf-8")

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run another command of manage.py beside it, as a person would: told the data folder and nothing else."""
        return manage(self.data, arguments, check=check)

    def stop(self) -> int:
        """Stop it as Ctrl-C does and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def manage(data: Path, arguments: Sequence[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py on the data folder `data`, in an environment that says nothing of servers."""
    command = [sys.executable, "manage.py", *arguments, "--data", str(data)]
    result = subprocess.run(
        command, cwd=TOP, env=bare_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)} failed:\n{result.stdout}\n{result.stderr}")
    return result
