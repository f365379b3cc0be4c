"""Playing a job of the load generator against a system, and what it cost each group of processes."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.bench import groups
from tests.live import TOP, bare_environment

SLACK_S: Final = 120.0


class LoadFailed(Exception):
    """The load met an answer that no figure may be made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a job counted. `cpu` is processor seconds by group, `calls` the times of each kind of call."""

    steps: float
    seconds: float
    cpu: Mapping[str, float]
    calls: Mapping[str, Mapping[str, float]]

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self.steps / self.seconds

    @classmethod
    def together(cls, parts: Sequence[Played]) -> Played:
        """What several windows counted in all. Times of calls are those of the last one."""
        cpu = {group: sum(part.cpu.get(group, 0.0) for part in parts) for group in parts[-1].cpu}
        steps, seconds = sum(part.steps for part in parts), sum(part.seconds for part in parts)
        return cls(steps=steps, seconds=seconds, cpu=cpu, calls=parts[-1].calls)

    @property
    def cpu_ms_per_step(self) -> dict[str, float]:
        """Processor milliseconds for each step, by group and in all."""
        found = {group: 1000 * used / max(0.01, self.steps) for group, used in self.cpu.items()}
        return {**found, "all": sum(found.values())}


class Player:
    """A job under way in a process of its own. Raises `LoadFailed` with the load's own words where it met a fault."""

    def __init__(
        self, up: int, base_url: str, kind: str, keys: Mapping[str, Any], *, handler: int = 0, **job: Any
    ) -> None:
        self._up = up
        self._handler = handler
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.load"],
            cwd=TOP,
            env=bare_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        order = {"kind": kind, "base_url": base_url, "keys": keys, "mark": secrets.token_hex(2), **job}
        self._say(json.dumps(order))

    def begin(self) -> None:
        """Wait until it has warmed up."""
        self._heard("begin")
        self._before = groups.cpu_seconds(self._up, self._handler)

    def stop(self) -> None:
        """End its window, where that is open until then (`window_s` is 0)."""
        self._say("stop")

    def end(self) -> Played:
        """Wait for the end of its window and give what it counted."""
        told = self._heard("end")
        cpu = groups.spent(self._before, groups.cpu_seconds(self._up, self._handler))
        if self._process.wait(SLACK_S) != 0:
            raise LoadFailed("the load met what it must not; its words stand above")
        cpu["load"] = told["cpu"]
        return Played(steps=told["steps"], seconds=told["seconds"], cpu=cpu, calls=told["calls"])

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _heard(self, at: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {}
        if told.get("at") != at:
            raise LoadFailed("the load ended early; its words stand above")
        return told


def play(up: int, base_url: str, kind: str, keys: Mapping[str, Any], **job: Any) -> Played:
    """Run the load generator for one window and look at the processes below `up` (a process id) at both its ends."""
    with contextlib.closing(Player(up, base_url, kind, keys, **job)) as player:
        player.begin()
        return player.end()


@contextlib.contextmanager
def beside(up: int, base_url: str, kind: str, keys: Mapping[str, Any], **job: Any) -> Iterator[list[Played]]:
    """Let a job run beside what happens inside the `with`; what it counted stands in the list afterwards."""
    counted: list[Played] = []
    with contextlib.closing(Player(up, base_url, kind, keys, **job, window_s=0)) as player:
        player.begin()
        yield counted
        player.stop()
        counted.append(player.end())
