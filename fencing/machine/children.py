"""A process that this one started and answers for: started with a log, watched, stopped in time.

Start children from the main thread only: the kernel ties their life to the thread that made them.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fencing.machine.identity import Identity, launched

TAIL_LINES = 8
LOG_LIMIT = 10 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What is to run and how it ends.

    `death_signal` is what the kernel sends when this process dies without a chance to stop its children;
    `stop_signal` asks for an orderly end, which may take `stop_s` seconds. Without a `log` it speaks to the person.
    """

    name: str
    command: Sequence[str]
    log: Path | None
    environment: Mapping[str, str]
    folder: Path
    identity: Identity = Identity.PLAIN
    death_signal: signal.Signals = signal.SIGKILL
    stop_signal: signal.Signals = signal.SIGTERM
    stop_s: float = 10.0


@dataclass(kw_only=True, slots=True)
class Child:
    """A running (or ended) `program`."""

    program: Program
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Start the program; its output goes to the end of its log.

        Raises:
            OSError: the log cannot be written or the process not be made.
        """
        if self.process:
            # Collect the one that ended, or it stays a zombie.
            self.process.poll()
        with contextlib.ExitStack() as stack:
            output: IO[bytes] | None = None
            if self.program.log:
                trim_log(self.program.log)
                output = stack.enter_context(self.program.log.open("ab"))
            self.process = subprocess.Popen(
                launched(self.program.command, self.program.identity, self.program.death_signal),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.program.folder,
                env=dict(self.program.environment),
                # Its own session: Ctrl-C reaches this process alone, and the order of the end is ours.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self.process.pid if self.process else 0

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended: negative for a signal, None while it lives."""
        return self.process.poll() if self.process else None

    def ask_to_stop(self) -> None:
        """Ask for an orderly end and return at once."""
        if self.is_running and self.process:
            self.process.send_signal(self.program.stop_signal)

    def stop(self) -> bool:
        """Ask for an orderly end, wait for it, and kill what does not end; return whether it was orderly."""
        self.ask_to_stop()
        if self.process is None:
            return True
        try:
            self.process.wait(self.program.stop_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return False
        return True

    def last_words(self) -> str:
        """The end of the log."""
        return tail(self.program.log) if self.program.log else ""


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])


def trim_log(log: Path, limit: int = LOG_LIMIT) -> None:
    """Move a log of more than `limit` bytes aside; safe while a child appends to it. Without room it only grows on."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > limit:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)
