"""The world in memory and the services tell the same story: random strings of events, played on both, answer by answer.

It is what makes the simulator a statement about this system. The clock of the database moves with that of the string,
so leases, deadlines and grants end here, too. Crashes are played as well: a transaction that is lost before its commit
leaves nothing behind, and an answer that is lost afterwards is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest
from django.db import connection, transaction

from fencing.gateway.acts import Act
from fencing.models.facts import read_clock
from fencing.protocol import compensations
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Reason
from fencing.protocol.intents import State
from fencing.protocol.ledgers import Match
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import KINDS, event_text
from fencing.protocol.simulate.strings import random_string
from fencing.protocol.world import World
from fencing.protocol.world.events import Event, Reconcile, SetFreeze, Sweep
from fencing.protocol.world.records import Result
from fencing.services import forks, undoing
from tests.fencing import moving_clock
from tests.fencing.both_records import record_of, stored
from tests.fencing.both_worlds import Beside, answer_of, compared
from tests.length import long_or
from tests.stories import register

pytestmark = pytest.mark.django_db

# Seeds in whose strings everything happens that is asked for below; what else is played is short, and of any kind.
CHOSEN: Final = (390, 41, 5, 16, 71, 105, 163, 233, 315, 388, 429, 435, 470, 1079, 1786, 2164)
LETTERS: Final = 70
SHORT: Final = 14
STRINGS: Final = long_or(
    (*((seed, LETTERS) for seed in CHOSEN), *((seed, SHORT) for seed in range(10_000, 10_300 - len(CHOSEN)))),
    long=tuple((seed, LETTERS) for seed in range(3_000)),
)
"""Seeds, and how many letters their strings have: three hundred in the suite."""

PARTS: Final = long_or(10, long=100)
CRASHES: Final = 0.1
ANSWERS_LOST: Final = 0.15


@pytest.fixture
def stage_of_tools(db: None) -> None:
    """The simulator's tools, and a clock that the test moves."""
    register([tool.as_json() for tool in stage.TOOLS.values()])
    moving_clock.begin()


@pytest.mark.usefixtures("stage_of_tools")
@pytest.mark.parametrize("part", range(PARTS))
def test_services_and_world_tell_the_same(part: int) -> None:
    for seed, letters in STRINGS[part :: 2 * PARTS]:
        tell_the_same(seed, letters)


@pytest.mark.usefixtures("stage_of_tools")
@pytest.mark.parametrize("part", range(PARTS, 2 * PARTS))
def test_the_straight_way_and_the_world_tell_the_same(part: int, straight_way: list[int]) -> None:
    for seed, letters in STRINGS[part :: 2 * PARTS]:
        tell_the_same(seed, letters)
    assert sum(straight_way) > 0, "nothing went the straight way: the strings show nothing"


def tell_the_same(seed: int, letters: int = LETTERS) -> None:
    """Play one string on both, and leave nothing of it behind."""
    said: list[str] = [f"seed {seed}"]
    with transaction.atomic():
        try:
            play(seed, letters, said)
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except Exception as fault:
            fault.add_note("\n".join(said))
            raise
        transaction.set_rollback(True)


def play(seed: int, letters: int, said: list[str]) -> None:
    chance = Random(-seed)  # noqa: S311 - a seed, no secret
    beside = Beside()
    world = replace(World.opened(stage.tools), run=beside.story.run)
    passed_s = 0.0
    for symbol in random_string(Random(seed), letters):  # noqa: S311 - a seed, no secret
        passed_s += symbol.after_s
        event = symbol.event(world)
        if event is None:
            continue
        moving_clock.move_to(passed_s)
        said.append(f"{passed_s:g} s {event_text(event)}")
        if chance.random() < CRASHES:
            crash(event, world, beside)
        for _ in range(2 if chance.random() < ANSWERS_LOST else 1):
            world = told_alike(event, world, beside)


def crash(event: Event, world: World, beside: Beside) -> None:
    """Lose the transaction of an event before its commit: nothing of it is left (N5)."""
    with transaction.atomic():
        beside.do(event, world)
        transaction.set_rollback(True)
    assert stored(beside.run.pk) == record_of(world, beside.name)


def told_alike(event: Event, world: World, beside: Beside) -> World:
    answer = beside.do(event, world)
    after, result = world.handle(event, read_clock())
    assert compared(answer, event) == answer_of(result)
    assert stored(beside.run.pk) == record_of(after, beside.name)
    return after


# ---- what the strings would find ----


def forget_what_is_owed(patch: pytest.MonkeyPatch) -> None:
    """What a lost branch sent is owed no undoing."""
    patch.setattr(undoing, "propose_if_owed", lambda *_facts, **_run: None)


def leave_escapes_open(patch: pytest.MonkeyPatch) -> None:
    """What a person made of an escape goes on to hold its action back."""
    patch.setattr(Act, "close_escape", lambda _act: None)


def keep_no_time(patch: pytest.MonkeyPatch) -> None:
    """A fork's deadline passes, and nobody looks."""
    patch.setattr(forks, "expire_forks", lambda: 0)


def tell_all_the_same() -> None:
    for seed in CHOSEN:
        tell_the_same(seed)


@pytest.mark.usefixtures("stage_of_tools")
@pytest.mark.parametrize("plant", [forget_what_is_owed, leave_escapes_open, keep_no_time])
def test_strings_find_a_fault_that_is_planted_in_the_services(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        tell_all_the_same()


# ---- what the strings reach ----


def results() -> Iterator[tuple[Event, Result, World]]:
    """Every event of the chosen strings, as the world in memory takes it, with its answer and the world after it."""
    for seed in CHOSEN:
        world, now = World.opened(stage.tools), stage.START
        for symbol in random_string(Random(seed), LETTERS):  # noqa: S311 - a seed, no secret
            now += symbol.delay
            event = symbol.event(world)
            if event is not None:
                world, result = world.handle(event, now)
                yield event, result, world


def _ended_alone(world: World) -> bool:
    """Whether a fork is over that no planner ever named."""
    named = {entry.event.fork for entry in world.history if isinstance(entry.event, Reconcile)}
    return any(
        fork.is_reconciled and name not in named and fork.parent is None for name, fork in world.tree.forks.items()
    )


def reached_by(event: Event, result: Result, world: World) -> set[str]:
    kind = type(event).__name__
    found = {kind + (f" {result.code.value}" if isinstance(result, Refusal) else "")}
    if isinstance(event, SetFreeze) and not isinstance(result, Refusal) and result.touched:
        found.add("a freeze stops")
    if isinstance(event, Sweep) and _ended_alone(world):
        found.add("a deadline ends a fork")
    found.update(each.reason.value for each in world.steps if each.reason is not None)
    found.update(f"intent {each.facts.state.value}" for each in world.intents)
    found.update(f"by {each.commit.authority}" for each in world.steps if each.commit is not None)
    found.update(f"undoing {each.state.value}" for each in world.undoings)
    found.update(f"because {each.cause.value}" for each in world.undoings)
    found.update(f"row {each.match.value}" for each in world.effects)
    found.update(f"generation {each.facts.generation}" for each in world.intents)
    return found


@pytest.fixture(scope="module")
def reached() -> set[str]:
    """Everything that the strings reach."""
    return set().union(*(reached_by(*each) for each in results()))


EVERY: Final[dict[str, set[Any]]] = {
    "kinds of events": {kind.__name__ for kind in KINDS.values()},
    "reasons": {reason.value for reason in Reason},
    "states of intents": {f"intent {state.value}" for state in State},
    "states of compensations": {f"undoing {state.value}" for state in compensations.State},
    "causes": {f"because {cause.value}" for cause in compensations.Cause},
    "matches": {f"row {match.value}" for match in Match},
    "authorities": {"by agreement", "by grant", "by both"},
    "generations": {"generation 1", "generation 2"},
    "refused calls": {f"Admit {code}" for code in ("revoked", "payload_mismatch", "in_doubt", "frozen", "not_ready")},
    "refused reports": {"Report outcome_conflict", "ReportUndoing outcome_conflict"},
    "refused grants": {"Issue frozen", "LiftFreeze own_freeze", "Review own_grant", "a freeze stops"},
    "refused forks": {"Reconcile already_reconciled", "OpenFork branch_exists", "OpenFork fork_conflict"},
    "time": {"a deadline ends a fork", "timeout", "grant_expired"},
    "lost branches": {"Propose branch_lost", "Replay branch_lost", "Propose unknown_branch"},
    "refused people": {
        *(f"ApproveUndoing {code}" for code in ("held", "own_request", "own_grant", "outcome_unknown", "changed")),
        *("Ask nothing_to_undo", "Ask already_proposed", "Record has_compensator", "Adopt payload_mismatch"),
    },
}


@pytest.mark.parametrize("what", EVERY)
def test_the_strings_reach_everything_that_matters(what: str, reached: set[str]) -> None:
    assert EVERY[what] <= reached, EVERY[what] - reached
