"""A thousand planners that wait, and voters that work meanwhile."""

from __future__ import annotations

import selectors
from collections.abc import Mapping
from typing import Any, Final

from tests.bench import bodies
from tests.bench.bodies import Place
from tests.bench.planners import Places, Playing
from tests.bench.wire import WAIT_S, Line, Unexpected

PROPOSED_AT_ONCE: Final = 200
LOOK_S: Final = 0.2


class Voter(Playing):
    """Both paths vote on steps that were proposed before, as fast as they can."""

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, items: int, mark: str) -> None:
        super().__init__(base_url, keys, number, items, mark)
        self._ready: list[Place] = []

    def play(self) -> None:
        """Vote on one step by both paths."""
        if not self._ready:
            self._ready = propose(self.planner, self.places, PROPOSED_AT_ONCE)
        place = self._ready.pop()
        for path, line in self.paths.items():
            self.timed("vote", lambda path=path, line=line: line.post(b"/votes", bodies.vote(place, path), 201))  # type: ignore[misc]


class Crowd(Playing):
    """`items` readers in one thread, each waiting for a step of its own on which nobody votes."""

    def __init__(self, base_url: str, keys: Mapping[str, Any], number: int, items: int, mark: str) -> None:
        super().__init__(base_url, keys, number, items, mark)
        self._selector = selectors.DefaultSelector()
        key = keys["planners"][number]
        for place in propose(self.planner, self.places, items):
            line = Line(base_url, key)
            path = bodies.WAITING % (place.run, place.step, WAIT_S)
            line.ask(path)
            self._selector.register(line.fileno(), selectors.EVENT_READ, (line, path))

    def play(self) -> None:
        """Ask again for those whose time is over."""
        for ready, _ in self._selector.select(LOOK_S):
            line, path = ready.data
            line.answer(path)
            line.ask(path)
            self.facts += 1

    def close(self) -> None:
        """End the connections."""
        super().close()
        for each in list(self._selector.get_map().values()):
            each.data[0].close()


def propose(planner: Line, places: Places, count: int) -> list[Place]:
    """Propose steps in bulk."""
    made: list[Place] = []
    while len(made) < count:
        new = [places.take() for _ in range(min(PROPOSED_AT_ONCE, count - len(made)))]
        answer = planner.post(b"/steps", bodies.items([bodies.proposal(place) for place in new]), 200)
        if answer.replace(b" ", b"").count(b'"status":201') != len(new):
            raise Unexpected(f"not all were proposed: {answer[:300].decode(errors='replace')}")
        made += new
    return made
