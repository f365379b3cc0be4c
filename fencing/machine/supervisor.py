"""Keeps the children of `up` alive: looks after each, starts again what died, and stops all in order."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fencing.machine.backoff import BackOff
from fencing.machine.children import Child, trim_log
from fencing.machine.console import say
from fencing.machine.signals import SignalPipe

LOOK_S = 1.0
CHORES_EVERY_S = 30.0


class After(StrEnum):
    """What the end of a child means."""

    RESTART = "restart"
    DONE = "done"


@dataclass(kw_only=True, slots=True)
class Watched:
    """A child under watch. `start` starts it (again); `after` says what its end means."""

    child: Child
    start: Callable[[], None]
    after: After = After.RESTART
    back_off: BackOff = field(default_factory=BackOff)
    started_at: float = 0.0
    due_at: float | None = None
    is_done: bool = False

    def begin(self) -> None:
        """Start it now."""
        self.started_at = time.monotonic()
        self.due_at = None
        self.start()


@dataclass(kw_only=True, slots=True)
class Supervisor:
    """Watches children until a signal to stop comes, and does its `chores` now and then."""

    signals: SignalPipe
    watched: list[Watched] = field(default_factory=list)
    chores: list[Callable[[], None]] = field(default_factory=list)

    def add(self, watched: Watched, *, is_started: bool = False) -> None:
        """Watch a child, and start it unless it runs already."""
        self.watched.append(watched)
        if is_started:
            watched.started_at = time.monotonic()
        else:
            watched.begin()

    def run(self) -> None:
        """Look after the children until a signal to stop comes."""
        chores_at = time.monotonic()
        while self.signals.stop_signal is None:
            for each in self.watched:
                self.look_after(each)
            if time.monotonic() - chores_at > CHORES_EVERY_S:
                chores_at = time.monotonic()
                for chore in (self._trim_logs, *self.chores):
                    chore()
            self.signals.wait(self._next_look_s())

    def look_after(self, watched: Watched) -> None:
        """Notice that a child ended, and start it again when its time has come."""
        if watched.is_done or watched.child.is_running:
            return
        now = time.monotonic()
        if watched.due_at is None:
            self._note_end(watched, now)
        elif watched.due_at <= now:
            self._begin_again(watched)

    def stop(self, names: Sequence[str]) -> None:
        """Stop the children called `names`, beside each other, and say which of them had to be killed."""
        chosen = [each.child for each in self.watched if each.child.program.name in names]
        for child in chosen:
            child.ask_to_stop()
        for child in chosen:
            if not child.stop():
                say(f"{child.program.name} did not end in time and was killed")

    def _trim_logs(self) -> None:
        for each in self.watched:
            if each.child.program.log:
                trim_log(each.child.program.log)

    def _begin_again(self, watched: Watched) -> None:
        """Start a part again; what cannot be started now is tried again, later each time: a full disk may pass."""
        name = watched.child.program.name
        try:
            watched.begin()
        except OSError as error:
            self._wait_before_start(watched, lived_s=0.0)
            reason = error.strerror or error
            say(f"{name} cannot be started ({reason}); trying again in {watched.back_off.delay_s:g} s")
        else:
            say(f"{name} is started again")

    def _wait_before_start(self, watched: Watched, *, lived_s: float) -> None:
        watched.back_off = watched.back_off.after_death(lived_s)
        watched.due_at = time.monotonic() + watched.back_off.delay_s

    def _note_end(self, watched: Watched, now: float) -> None:
        name, code = watched.child.program.name, watched.child.exit_code
        if watched.after is After.DONE:
            watched.is_done = True
            if code:
                say(f"{name} ended with code {code}")
            return
        self._wait_before_start(watched, lived_s=now - watched.started_at)
        reason = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
        say(f"{name} ended unexpectedly ({reason}); starting it again in {watched.back_off.delay_s:g} s")
        if "No space left on device" in watched.child.last_words():
            say(f"the disk that holds {watched.child.program.log} is full; free some space")

    def _next_look_s(self) -> float:
        due = [each.due_at - time.monotonic() for each in self.watched if each.due_at is not None]
        return min([LOOK_S, *due])
