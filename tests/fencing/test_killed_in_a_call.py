"""Workers killed at random while they call tools that fail in every way: what the tools' ledgers then show (L5, I3).

Allowed end of each effect: of an idempotent tool it stands in the tool's ledger exactly once; of another at most once,
and where nobody knows, it waits for a person. Nothing is sent again that may have happened, and nothing is forgotten.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from fencing.models import Breaker, Delivery, Intent, Outcome
from fencing.protocol.answers import Answer
from fencing.queries import effects
from fencing.services import steps, votes
from fencing.services.recompute import Tallied, find_faults
from fencing.services.requests import CastVote, ProposeStep
from tests.cases.processes import below, kill
from tests.length import long_or
from tests.pushing import LOCAL, Serving, definition, serving
from tests.raising import nursery
from tests.stories import EPOCH, Story, register

EFFECTS = long_or(500, long=5000)
DEATHS = long_or(8, long=80)
WORKERS = 2
PATIENCE_S = long_or(150, long=1500)
TOOLS = ("pay", "pay1", "pay2", "note")


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


def commit_all(story: Story) -> None:
    """Commit every effect, a hundred in a bulk."""
    names = [f"e{number}" for number in range(EFFECTS)]
    actions = {
        name: {"tool": TOOLS[number % len(TOOLS)], "args": {"invoice": name, "do": "random"}}
        for number, name in enumerate(names)
    }
    for begin in range(0, EFFECTS, 100):
        part = names[begin : begin + 100]
        asked = [ProposeStep(run=story.run, step=name, epoch=EPOCH) for name in part]
        assert all(isinstance(each, Answer) for each in steps.propose_steps(asked, story.planner))
        for path in (story.replica, story.production):
            said = [CastVote(run=story.run, step=name, epoch=EPOCH, action=actions[name]) for name in part]
            assert all(isinstance(each, Answer) for each in votes.cast_votes(said, path))
        story.decide()
    assert Intent.objects.filter(state="ready").count() == EFFECTS


def test_whatever_is_killed_each_effect_is_in_the_ledger_as_often_as_it_may(server: Serving, valkey: str) -> None:
    story, chance = Story.begin(), random.Random()  # noqa: S311 - a test's dice
    many = {"max_deliveries": 100, "max_in_flight": 40}
    register(
        [{**definition(server, policy=many), "tool": tool} for tool in TOOLS[:-1]]
        + [definition(server, "note", policy=many)]
    )
    commit_all(story)
    deaths = 0
    with contextlib.ExitStack() as stack:
        mothers = [stack.enter_context(nursery("deliver")) for _ in range(WORKERS)]
        until = time.monotonic() + PATIENCE_S
        under_way = Intent.objects.filter(state__in=["held", "ready", "in_flight"])
        while (left := under_way.count()) or deaths < DEATHS:
            assert time.monotonic() < until, (left, Counter(Intent.objects.values_list("state", flat=True)))
            time.sleep(chance.uniform(0.3, 1.2))
            if deaths < DEATHS and Delivery.objects.exists():
                born = below(chance.choice(mothers).pid, "nursery")
                kill(born)
                deaths += len(born)
    look(server)


def look(server: Serving) -> None:
    """Hold the tools' ledger against what is on record."""
    shown = Counter(row["idempotency_key"] for row in server.ledger.effects)
    ends: Counter[tuple[str, str]] = Counter()
    for intent in Intent.objects.prefetch_related("deliveries"):
        keys = {delivery.idempotency_key for delivery in intent.deliveries.all()}
        assert len(keys) == 1, intent.id
        times = shown.pop(keys.pop(), 0)
        ends[str(intent.tool), intent.state] += 1
        if intent.tool == "note":
            assert times <= 1, intent.id
            assert intent.state in ("succeeded", "in_doubt"), intent.state
            assert times == 1 or intent.state == "in_doubt"
        else:
            assert (intent.state, times) == ("succeeded", 1), intent.id
    assert not shown  # nothing happened that nobody asked for
    look_at_doubts()
    print(dict(ends), "tries", Delivery.objects.count(), Counter(Outcome.objects.values_list("source", "outcome")))  # noqa: T201
    assert Outcome.objects.filter(source="lease").exists()  # somebody died inside a call
    assert not Breaker.objects.filter(faults__lt=0).exists()
    assert list(find_faults(Tallied(), lambda _: None)) == []


def look_at_doubts() -> None:
    """See that a person is asked about each doubt, and that no machine goes on with it: its last try is unknown."""
    doubtful = Intent.objects.filter(state="in_doubt")
    assert {line.id for line in effects.doubts(limit=EFFECTS)} == {intent.pk for intent in doubtful}
    last = Delivery.objects.filter(intent__in=doubtful).order_by("intent", "-number").distinct("intent")
    ends = Outcome.objects.filter(delivery__in=[each.pk for each in last], is_effective=True)
    assert sorted(ends.values_list("outcome", flat=True)) == ["unknown"] * doubtful.count()
