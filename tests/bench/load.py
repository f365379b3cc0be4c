"""The load generator: a process of its own, lean, that plays planners, paths and a gateway over kept-open connections.

`python -m tests.bench.load` reads a `Job` as one JSON line, warms up, says `begin`, says `end` with what it counted,
and ends. It ends with status 1 and a sentence at the first answer that is not what a fenced step gets.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tests.bench.crowd import Crowd, Voter
from tests.bench.planners import BareOne, BulkPlanner, PacedPlanner, Planner
from tests.bench.probes import Probe

END_S: Final = 60.0
LOOK_S: Final = 0.05
# A proposal, two votes, a decision, an admission, an outcome. The window counts facts: it is no multiple of a bulk.
FACTS_OF_A_STEP: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to play: `kind` is one of `KINDS`, `planners` how many at once.

    `items` is what that kind takes: how many steps a bulk call holds, seconds between two steps, how many wait.
    A window of no length (`window_s` is 0) lasts until a line comes.
    """

    kind: str
    base_url: str
    keys: Mapping[str, Any] = field(repr=False)  # one planner's key for each planner, and one of each other role
    planners: int
    items: float = 1
    warm_s: float = 2.0
    window_s: float = 10.0
    mark: str


class Playing(Protocol):
    """Somebody who plays step after step. `facts` is how many facts of them are there, `seconds` what calls took."""

    facts: int
    seconds: dict[str, list[float]]

    def play(self) -> None:
        """Play on by one step, or by one bulk of steps."""

    def close(self) -> None:
        """End the connections."""


KINDS: Final[Mapping[str, Any]] = {
    "one_by_one": Planner,
    "paced": PacedPlanner,
    "bulk": BulkPlanner,
    "bare": BareOne,
    "probe": Probe,
    "voters": Voter,
    "crowd": Crowd,
}


class Thread(threading.Thread):
    """One planner's thread: plays until it is told to stop, and keeps the fault that ended it."""

    def __init__(self, playing: Playing, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self.playing = playing
        self.stopping = stopping
        self.fault: BaseException | None = None

    def run(self) -> None:
        """Play."""
        try:
            while not self.stopping.is_set():
                self.playing.play()
        except BaseException as fault:  # noqa: BLE001 - told by the main thread
            self.fault = fault
            self.stopping.set()
        finally:
            self.playing.close()


def main() -> int:
    """Play one job."""
    job = Job(**json.loads(sys.stdin.readline()))
    stopping = threading.Event()
    threads = [
        Thread(KINDS[job.kind](job.base_url, job.keys, number, job.items, job.mark), stopping)
        for number in range(job.planners)
    ]
    for thread in threads:
        thread.start()
    stopping.wait(job.warm_s)
    before, calls, cpu, began = _facts(threads), _calls(threads), time.process_time(), time.perf_counter()
    say(at="begin")
    if job.window_s:
        stopping.wait(job.window_s)
        wait_for_facts(threads, before, stopping)
    else:
        sys.stdin.readline()
    took, cpu, after = time.perf_counter() - began, time.process_time() - cpu, _facts(threads)
    steps, times = (after - before) / FACTS_OF_A_STEP, _between(calls, _calls(threads), threads)
    say(at="end", steps=steps, seconds=took, cpu=cpu, calls=times)
    stopping.set()
    for thread in threads:
        thread.join(END_S)
    return _faults(threads)


def wait_for_facts(threads: list[Thread], before: int, stopping: threading.Event) -> None:
    """Prolong a window in which nothing came to its end: a slow machine shows a low figure, and none at all never."""
    until = time.perf_counter() + END_S
    while _facts(threads) == before and time.perf_counter() < until:
        if stopping.wait(LOOK_S):
            return


def say(**told: object) -> None:
    """Tell whoever started this process, as one line of JSON."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _facts(threads: list[Thread]) -> int:
    return sum(thread.playing.facts for thread in threads)


def _calls(threads: list[Thread]) -> list[dict[str, int]]:
    return [{name: len(times) for name, times in thread.playing.seconds.items()} for thread in threads]


def _between(
    before: list[dict[str, int]], after: list[dict[str, int]], threads: list[Thread]
) -> dict[str, dict[str, float]]:
    """Median and 99th percentile of each kind of call in the window, in milliseconds."""
    times: dict[str, list[float]] = {}
    for first, last, thread in zip(before, after, threads, strict=True):
        for name, seconds in thread.playing.seconds.items():
            times.setdefault(name, []).extend(seconds[first.get(name, 0) : last.get(name, 0)])
    return {name: quantiles(found) for name, found in times.items() if found}


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Median, 99th percentile and longest of durations, in milliseconds, and how many they are."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "median_ms": 1000 * ordered[last // 2],
        "p99_ms": 1000 * ordered[min(last, int(0.99 * len(ordered)))],
        "max_ms": 1000 * ordered[last],
    }


def _faults(threads: list[Thread]) -> int:
    faults = [thread.fault for thread in threads if thread.fault is not None]
    for fault in faults[:3]:
        sys.stderr.write(f"{type(fault).__name__}: {fault}\n")
    return 1 if faults or any(thread.is_alive() for thread in threads) else 0


if __name__ == "__main__":
    sys.exit(main())
