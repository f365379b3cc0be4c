"""Workers, tickers and the web process killed at random points while hundreds of steps are under way (N5, N6).

Allowed end of each step: the one that its votes ask for, decided once, with its effect out once; nothing that was
acknowledged is missing, and stored states are those that the facts tell.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from tests.cases.processes import below, kill
from tests.factories import fresh
from tests.faults.clients import Client, Ledger, look_at_what_is_left
from tests.faults.own import Own
from tests.length import long_or

STEPS: Final = long_or(500, long=20_000)
CLIENTS: Final = 8
TOGETHER: Final = 16
# `up` waits longer from death to death of a part: these may die so often, the workers of the nursery at any moment.
DEATHS: Final = {"web": long_or(1, long=40), "fence": long_or(1, long=40), "default": long_or(1, long=40)}
OF_NURSERY: Final = long_or(6, long=100)
SHARE: Final = long_or(0.6, long=0.4)


@dataclass(kw_only=True)
class Killer:
    """Kills at random moments until the work is done."""

    own: Own
    chance: random.Random
    is_over: threading.Event = field(default_factory=threading.Event)
    is_satisfied: bool = False
    deaths: Counter[str] = field(default_factory=Counter)

    def go(self, nursery: int) -> None:
        """Kill a fencing worker of the nursery each time, and with it now and then another part of `up`."""
        left = [part for part, deaths in DEATHS.items() for _ in range(deaths)]
        self.chance.shuffle(left)
        while not self.is_over.wait(self.chance.uniform(0.1, 1.0)):
            born = below(nursery, "nursery")
            kill(born)
            self.deaths["nursery"] += len(born)
            if left and self.chance.random() < SHARE and self.own.kill(left[-1]):
                self.deaths[left.pop()] += 1
            self.is_satisfied = not left and self.deaths["nursery"] >= OF_NURSERY
            if self.chance.random() < SHARE:
                # What the dead one left in Valkey stands for others for a few seconds, or is gone as well.
                self.own.valkey().flushdb()
                self.deaths["memory"] += 1


def test_whatever_is_killed_no_step_is_lost_and_none_decided_twice(own: Own) -> None:
    seed = random.randrange(10**6)  # noqa: S311 - a test's dice
    print(f"seed {seed}")  # noqa: T201 - shown where the test fails
    chance, ledger, run = random.Random(seed), Ledger(), fresh("run")  # noqa: S311 - as above
    assert own.say("planner", "POST /runs", run=run).status == 201
    clients = [Client(own=own, ledger=ledger, chance=random.Random(seed + n), run=run) for n in range(CLIENTS)]  # noqa: S311
    killer = Killer(own=own, chance=chance)
    with own.beside("-m", "tests.faults.nursery") as nursery, ThreadPoolExecutor(CLIENTS + 1) as threads:
        killing = threads.submit(killer.go, nursery.pid)
        takes = [threads.submit(worked, client, number, killer) for number, client in enumerate(clients)]
        try:
            for take in takes:
                take.result(STEPS)
        finally:
            killer.is_over.set()
            killing.result(30)
    print(f"deaths {dict(killer.deaths)}, effects asked for {ledger.calls.total()}")  # noqa: T201 - as above
    assert sum(len(client.wanted) for client in clients) >= STEPS
    look_at_what_is_left(own, run, clients, ledger)


def worked(client: Client, number: int, killer: Killer) -> None:
    """Take steps until that were enough, and until enough died meanwhile: a fast machine plays more of them."""
    for first in itertools.count(0, TOGETHER):
        if first * CLIENTS >= STEPS and killer.is_satisfied:
            return
        client.take([f"s{number}.{step}" for step in range(first, first + TOGETHER)])
