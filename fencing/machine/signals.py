"""Waiting for a signal, a dead child or a moment, whichever comes first."""

import contextlib
import os
import select
import signal
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalPipe:
    """Turns signals into something that can be waited for with a time limit, on every system.

    Handlers run between two instructions of any code; here they do nothing, and the loop that waits decides.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self.stop_signal: signal.Signals | None = None

    def listen(self) -> None:
        """Take over the signals that stop us, and the one of a child that ended."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for each in STOPPING:
            # `nohup` asks to outlive the terminal.
            if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, self._note)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or earlier when a signal came."""
        if self.stop_signal is None:
            select.select([self._read], [], [], max(0.0, seconds))
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 512):
                pass

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.stop_signal = signal.Signals(number)
