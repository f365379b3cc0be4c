"""Planners of the load: each plays fenced steps, six durable facts a step, alone or many in one call."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.bench import bodies
from tests.bench.bodies import Place
from tests.bench.wire import WAIT_S, Line, Unexpected, expect, text_of

RUNS_AT_ONCE: Final = 100
# How far the actions of two planners lie apart, and how far those of two jobs.
APART: Final = 10_000_000
JOBS_APART: Final = 64 * APART


class Places:
    """Steps to come, in runs that are opened a hundred at a time."""

    def __init__(self, planner: Line, number: int, mark: str) -> None:
        self._planner = planner
        self._name = f"{mark}-{number}"
        self._first = int(mark, 16) * JOBS_APART + number * APART
        self._given = 0
        self._runs: list[bytes] = []

    def take(self) -> Place:
        """The next step."""
        at, step = divmod(self._given, bodies.STEPS_OF_A_RUN)
        while at >= len(self._runs):
            self._open()
        place = Place(run=self._runs[at], step=b"step-%d" % step, number=self._first + self._given)
        self._given += 1
        return place

    def _open(self) -> None:
        first = len(self._runs)
        names = [f"{self._name}-{number}".encode() for number in range(first, first + RUNS_AT_ONCE)]
        answer = self._planner.post(b"/runs", bodies.items([b'{"run":"%b"}' % name for name in names]), 200)
        if answer.replace(b" ", b"").count(b'"status":201') != len(names):
            raise Unexpected(f"runs were not opened: {answer[:300].decode(errors='replace')}")
        self._runs += names


class Playing:
    """What planners have in common: their lines, the facts that they brought about, and how long each call took."""

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, items: int, mark: str) -> None:
        self.items = items
        self.facts = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.planner = Line(base_url, keys["planners"][number])
        self.paths = {path: Line(base_url, keys[path]) for path in ("replica", "production")}
        self.gateway = Line(base_url, keys["gateway"])
        self.places = Places(self.planner, number, mark)

    def timed(self, name: str, call: Callable[[], bytes]) -> bytes:
        """Make a call that brings a fact for each item, and remember how long it took."""
        began = time.perf_counter()
        answer = call()
        self.seconds[name].append(time.perf_counter() - began)
        self.facts += self.items
        return answer

    def close(self) -> None:
        """End the connections."""
        for line in (self.planner, self.gateway, *self.paths.values()):
            line.close()


class Planner(Playing):
    """One step after the other, six requests each; the decision is awaited by a waiting read."""

    def play(self) -> None:
        """Play one step."""
        place = self.places.take()
        self.timed("propose", lambda: self.planner.post(b"/steps", bodies.proposal(place), 201))
        for path, line in self.paths.items():
            self.timed("vote", lambda path=path, line=line: line.post(b"/votes", bodies.vote(place, path), 201))  # type: ignore[misc]
        read = bodies.WAITING % (place.run, place.step, WAIT_S)
        decided = self.timed("decision", lambda: self.planner.get(read))
        token = text_of(decided, b"token")
        ask = bodies.admission(place, token)
        admitted = self.timed("admit", lambda: self.gateway.post(b"/gateway/admissions", ask, 200))
        expect(admitted, b'"admit":true')
        told = bodies.outcome(place, text_of(admitted, b"intent"), text_of(admitted, b"delivery"))
        settled = self.timed("outcome", lambda: self.gateway.post(b"/gateway/outcomes", told, 200))
        expect(settled, b'"state":"succeeded"')


class PacedPlanner(Planner):
    """A planner that begins a step at set moments, however long the one before took: the load of a working day."""

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, every_s: float, mark: str) -> None:
        super().__init__(base_url, keys, number, 1, mark)
        self.every_s = every_s
        # Planners that begin together would come in waves.
        self._next = time.monotonic() + every_s * random.random()  # noqa: S311 - no secret

    def play(self) -> None:
        """Wait for the moment, and play one step; moments that have passed meanwhile are let go."""
        now = time.monotonic()
        time.sleep(max(0.0, self._next - now))
        self._next = max(self._next, now) + self.every_s
        super().play()


class BulkPlanner(Playing):
    """Many steps in each call (H3); the decisions are read out of the planner's feed."""

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, items: int, mark: str) -> None:
        super().__init__(base_url, keys, number, items, mark)
        self._cursor = b""
        # What an earlier window decided is nobody's news.
        while self._page(wait_s=0):
            pass

    def play(self) -> None:
        """Play one bulk of steps."""
        places = [self.places.take() for _ in range(self.items)]
        self._all("propose", self.planner, b"/steps", [bodies.proposal(place) for place in places], b'"status":201')
        for path, line in self.paths.items():
            votes = [bodies.vote(place, path) for place in places]
            self._all("vote", line, b"/votes", votes, b'"status":201')
        tokens = self._tokens(len(places))
        asks = [bodies.admission(place, tokens[place.run, place.step]) for place in places]
        admitted = self._all("admit", self.gateway, b"/gateway/admissions", asks, b'"admit":true')
        results = json.loads(admitted)["results"]
        told = [
            bodies.outcome(place, result["intent"].encode(), result["delivery"].encode())
            for place, result in zip(places, results, strict=True)
        ]
        self._all("outcome", self.gateway, b"/gateway/outcomes", told, b'"state":"succeeded"')

    def _all(self, name: str, line: Line, path: bytes, each: list[bytes], proof: bytes) -> bytes:
        """Send many bodies in one call, and see that every one of them was taken."""
        body = bodies.items(each)
        answer = self.timed(name, lambda: line.post(path, body, 200))
        if (seen := answer.replace(b" ", b"").count(proof)) < len(each):
            raise Unexpected(f"{name}: {seen} of {len(each)} were taken: {answer[:400].decode(errors='replace')}")
        return answer

    def _tokens(self, wanted: int) -> dict[tuple[bytes, bytes], bytes]:
        """Read decisions until as many have come as this bulk holds."""
        began = time.perf_counter()
        found: dict[tuple[bytes, bytes], bytes] = {}
        while len(found) < wanted:
            for item in self._page(wait_s=WAIT_S):
                step = item["step"]
                found[step["run"].encode(), step["step"].encode()] = step["commit"]["token"].encode()
        self.seconds["decisions"].append(time.perf_counter() - began)
        self.facts += wanted
        return found

    def _page(self, wait_s: int) -> list[Any]:
        """Read on in the feed."""
        after = b"&after=" + self._cursor if self._cursor else b""
        page = json.loads(self.planner.get(b"/events?limit=500&wait=%d%b" % (wait_s, after)))
        self._cursor = page["next"].encode()
        items: list[Any] = page["items"]
        return items


class BareOne(Playing):
    """The six requests of `Planner` against a handler that writes one row for each and decides nothing."""

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, items: int, mark: str) -> None:
        super().__init__(base_url, keys, number, items, mark)
        self._number = number * APART

    def play(self) -> None:
        """Send the six requests of one step."""
        self._number += 1
        place = Place(run=b"bare-%d" % (self._number // 10), step=b"step-%d" % (self._number % 10), number=self._number)
        self.timed("propose", lambda: self.planner.post(b"/steps", bodies.proposal(place), 200))
        for path, line in self.paths.items():
            self.timed("vote", lambda path=path, line=line: line.post(b"/votes", bodies.vote(place, path), 200))  # type: ignore[misc]
        read = bodies.WAITING % (place.run, place.step, WAIT_S)
        token = text_of(self.timed("decision", lambda: self.planner.get(read)), b"token")
        ask = bodies.admission(place, token)
        admitted = self.timed("admit", lambda: self.gateway.post(b"/gateway/admissions", ask, 200))
        told = bodies.outcome(place, text_of(admitted, b"intent"), text_of(admitted, b"delivery"))
        self.timed("outcome", lambda: self.gateway.post(b"/gateway/outcomes", told, 200))
