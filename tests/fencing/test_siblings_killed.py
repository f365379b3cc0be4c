"""Requests with three siblings each, retries, tool faults and people who decide as they like, while workers are killed.

At rest the tool's own ledger equals what the winners' standing commits want, less what people undid and plus what they
let stand: nothing extra, nothing missing, nothing doubled (I3).
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pytest
from django.db import connections
from pytest_django import Settings

from fencing.models import Claim, Compensation, CompensationOutcome, Intent, Outcome
from fencing.services.recompute import Tallied, find_faults
from tests.cases.processes import below, kill
from tests.factories import fresh
from tests.fencing.siblings import Planner, Request, Reviewers, balance, is_at_rest, tools
from tests.length import long_or
from tests.pushing import LOCAL, Serving, serving
from tests.raising import nursery
from tests.stories import register

REQUESTS: Final = long_or(500, long=5000)
WAVE: Final = 100
DEATHS: Final = long_or(8, long=80)
WITHIN_S: Final = long_or(180, long=2400)
# Each is a mother of workers of one queue.
WORKERS: Final = ("fence", "deliver", "deliver")


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture
def server(db: None, settings: Settings) -> Iterator[Serving]:
    """A tool that leaves its faults to chance."""
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving(seed=random.randrange(10**6)) as made:  # noqa: S311 - a test's dice
        made.tool.retry_after = "0"
        yield made


@dataclass(kw_only=True)
class Killer:
    """Kills a worker at random moments, so often."""

    mothers: list[subprocess.Popen[bytes]]
    chance: random.Random
    is_over: threading.Event = field(default_factory=threading.Event)
    deaths: int = 0

    def go(self) -> None:
        try:
            while self.deaths < DEATHS and not self.is_over.wait(self.chance.uniform(0.3, 1.5)):
                self._wait_for_calls()
                born = below(self.chance.choice(self.mothers).pid, "nursery")
                with contextlib.suppress(ProcessLookupError):
                    kill(born)
                    self.deaths += len(born)
        finally:
            connections.close_all()

    def _wait_for_calls(self) -> None:
        """Wait a moment for calls that are under way, so that some die inside one."""
        for _ in range(50):
            if Intent.objects.filter(state="in_flight").exists() or self.is_over.wait(0.02):
                return


def test_at_rest_the_ledger_shows_what_the_winners_want_and_nothing_else(server: Serving, valkey: str) -> None:
    seed = random.randrange(10**6)  # noqa: S311 - a test's dice
    print(f"seed {seed}")  # noqa: T201 - shown where the test fails
    chance, began = random.Random(seed), time.monotonic()  # noqa: S311 - as above
    register(tools(server))
    base = fresh("request")
    requests = [Request.drawn(f"{base}-{number}", chance) for number in range(REQUESTS)]
    reviewers = Reviewers(ledger=server.ledger, seed=seed, asks=REQUESTS // 50)
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(4))
        killer = Killer(mothers=[stack.enter_context(nursery(queue)) for queue in WORKERS], chance=chance)
        for over in (reviewers.is_over, killer.is_over):
            stack.callback(over.set)
        busy = [threads.submit(reviewers.decide, 0), threads.submit(reviewers.decide, 1), threads.submit(killer.go)]
        Planner(requests=requests, chance=chance).drive(WAVE)
        print(f"all asked for after {time.monotonic() - began:.1f} s")  # noqa: T201 - as above
        until = time.monotonic() + WITHIN_S
        while not (is_at_rest() and killer.deaths >= DEATHS):
            assert time.monotonic() < until, where_it_stands()
            for each in busy:
                assert not each.done() or each.exception() is None, each.exception()
            time.sleep(0.2)
    print(f"at rest after {time.monotonic() - began:.1f} s, {dict(reviewers.said)}")  # noqa: T201 - as above
    look(server, requests, reviewers)


def where_it_stands() -> list[Counter[str]]:
    return [Counter(model.objects.values_list("state", flat=True)) for model in (Intent, Compensation)]


def look(server: Serving, requests: list[Request], reviewers: Reviewers) -> None:
    """Hold the tool's ledger against what was wanted, and see that all of it came up."""
    found = balance(server.ledger, requests)
    print(found.wanted, found.undone, found.stands, where_it_stands())  # noqa: T201 - shown where the test fails
    assert (found.extra, found.missing, found.doubled) == (Counter(), Counter(), Counter())
    assert found.wanted >= len(requests) / 2
    # People undid, and let stand, and said what nobody knew; somebody died inside a call of either kind or its answer.
    assert min(found.undone, found.stands) > 0
    assert Compensation.objects.filter(state="withdrawn").exists(), "a retry or a sibling wanted what a loser had sent"
    assert Compensation.objects.filter(state="done", cause="requested").exists()
    assert Outcome.objects.filter(source="lease").exists()
    assert CompensationOutcome.objects.filter(source="push", outcome="unknown").exists()
    assert Claim.objects.filter(state="won", intent__generation=2).exists(), "nothing was wanted again once undone"
    assert {what for what in reviewers.said if ":" not in what} == {
        "approved",
        "waived",
        "asked",
        "undoing resolved",
        "effect resolved",
    }
    assert list(find_faults(Tallied(), lambda _: None)) == []
