"""How long a decision takes: from the moment that the second vote is acknowledged until a waiting reader has it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from tests.bench import bodies
from tests.bench.planners import Playing
from tests.bench.wire import WAIT_S, Line, expect

# So long a reader is given to be waiting before the vote comes.
SETTLE_S: Final = 0.02
AWAKE_S: Final = 0.05
ASLEEP_S: Final = 1.2
ASLEEP: Final = 0.1


class Probe(Playing):
    """Plays steps up to their decision, with a reader that waits on a connection and in a thread of its own.

    Most pauses between two steps are short, and every tenth is so long that whoever lingers for work has gone to sleep.
    """

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, items: int, mark: str) -> None:
        super().__init__(base_url, keys, number, items, mark)
        self._reader = Line(base_url, keys["planners"][number])

    def play(self) -> None:
        """Measure one decision."""
        asleep_s = ASLEEP_S if random.random() < ASLEEP else 0.0  # noqa: S311 - no secret
        time.sleep(asleep_s + AWAKE_S * random.random())  # noqa: S311
        place = self.places.take()
        self.planner.post(b"/steps", bodies.proposal(place), 201)
        self.paths["replica"].post(b"/votes", bodies.vote(place, "replica"), 201)
        reading = Reading(self._reader, bodies.WAITING % (place.run, place.step, WAIT_S))
        reading.start()
        time.sleep(SETTLE_S)
        self.paths["production"].post(b"/votes", bodies.vote(place, "production"), 201)
        acknowledged = time.perf_counter()
        decided = reading.end()
        self.seconds["decided"].append(max(0.0, decided - acknowledged))
        self.facts += 4

    def close(self) -> None:
        """End the connections."""
        super().close()
        self._reader.close()


class Reading(threading.Thread):
    """A read that waits for a decision, and the moment at which it came."""

    def __init__(self, line: Line, path: bytes) -> None:
        super().__init__(daemon=True)
        self._line = line
        self._path = path
        self._at = 0.0
        self._fault: BaseException | None = None

    def run(self) -> None:
        """Wait for the answer."""
        try:
            answer = self._line.get(self._path)
            self._at = time.perf_counter()
            expect(answer, b'"phase":"committed"')
        except BaseException as fault:  # noqa: BLE001 - raised again in `end`
            self._fault = fault

    def end(self) -> float:
        """Give the moment of the answer, or raise what came instead."""
        self.join()
        if self._fault is not None:
            raise self._fault
        return self._at
