"""Votes while a thousand planners wait, and how many database connections that takes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tests.bench import jobs
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured

VOTERS = 4
WAITING = 1000
LOOK_S = 0.25
# Of the system alone: the bench's own session is none of it, and of what other roles do only names are shown.
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND usename IS NOT NULL"
)


def measure(measured: Measured, scale: Scale) -> Found:
    """Measure the rate of votes without and with those who wait, in turns, so that both see the same machine."""
    crowd = max(1, round(WAITING * scale.size))
    keys = measured.keys(VOTERS + 1)
    waiting = {**keys, "planners": keys["planners"][VOTERS:]}
    before = _votes(measured, keys, scale)
    with (
        jobs.beside(measured.up, measured.base_url, "crowd", waiting, planners=1, items=crowd),
        _watched(measured) as seen,
    ):
        during = _votes(measured, keys, scale)
    after = _votes(measured, keys, scale)
    alone = (before.votes + after.votes) / 2
    name = f"votes while {crowd:,} planners wait"
    figures = [
        Figure(
            name=f"{name}, of the rate without them",
            value=100 * during.votes / alone,
            unit="%",
            least=80,
            aim=95,
            note=f"before {before.votes:.0f}, after {after.votes:.0f} votes/s",
        ),
        Figure(name=name, value=during.votes, unit="votes/s", raws=[Raw(what="without them", value=alone)]),
        Figure(name="database connections in all meanwhile", value=max(seen), unit="", least=20, aim=20, is_cost=True),
    ]
    more = {
        "alone": before.calls,
        "beside": during.calls,
        "cpu_ms_per_vote alone": before.cpu_ms,
        "cpu_ms_per_vote beside": during.cpu_ms,
    }
    return Found(figures=figures, more=more)


class Votes:
    """What voters did in a window: votes a second, and how long one took."""

    def __init__(self, played: jobs.Played) -> None:
        # The load counts facts and gives sixths of a step; here each fact was one vote.
        self.votes = 6 * played.rate
        self.calls = played.calls["vote"]
        self.cpu_ms = {group: used / 6 for group, used in played.cpu_ms_per_step.items()}


def _votes(measured: Measured, keys: Mapping[str, Any], scale: Scale) -> Votes:
    return Votes(
        jobs.play(
            measured.up,
            measured.base_url,
            "voters",
            keys,
            planners=VOTERS,
            warm_s=scale.warm_s,
            window_s=scale.window_s / 2,
        )
    )


@contextlib.contextmanager
def _watched(measured: Measured) -> Iterator[list[int]]:
    """Count the system's database connections now and then; the list holds each count."""
    seen: list[int] = []
    over = threading.Event()

    def look() -> None:
        with measured.connect() as connection:
            while True:
                row = connection.execute(CONNECTIONS).fetchone()
                seen.append(0 if row is None else row[0])
                if over.wait(LOOK_S):
                    return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()
