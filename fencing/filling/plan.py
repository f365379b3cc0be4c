"""Which runs are cast, how often and when: a history of busy days with what now and then goes wrong."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction

from fencing.filling import scenes
from fencing.filling.moulds import Mould, mould_of
from fencing.filling.scenes import Scene
from fencing.filling.stage import Stage
from fencing.filling.troupe import Troupe

# Of a thousand runs; what the eventful ones leave is ordinary.
RUNS: Final = 1000
LENGTHS: Final = (3, 5, 8, 12)
NAMES: Final = ("refund", "notify", "settle", "book", "check", "close")
SEED: Final = 20_261_130


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A mould with how many of a thousand runs are cast of it."""

    mould: Mould
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The moulds of what has ended, and of what is still open with how many there are of each."""

    ended: tuple[Planned, ...]
    open: tuple[Planned, ...]


def play_all(troupe: Troupe, lengths: Sequence[int] = LENGTHS) -> Iterator[tuple[str, Planned, bool]]:
    """Play every run that is cast; yields its name, the mould with its share, and whether it is still open.

    Ordinary runs are played in each of `lengths`; an eventful one has ordinary steps around its event.
    """
    rng = random.Random(SEED)  # noqa: S311 - the same plays each time
    rest = RUNS - sum(scenes.EVENTFUL.values())
    for number, length in enumerate(lengths):
        steps = [scenes.ORDINARY[(number + index) % len(scenes.ORDINARY)] for index in range(length)]
        share = rest // len(lengths)
        yield f"ordinary {length}", _played(troupe, number, steps, share), False
    for number, (scene, share) in enumerate(scenes.EVENTFUL.items()):
        before = [rng.choice(scenes.ORDINARY) for _ in range(rng.randrange(min(lengths)))]
        yield scene.__name__, _played(troupe, number, [*before, scene], share), False
    for number, (scene, count) in enumerate(scenes.OPEN.items()):
        yield scene.__name__, _played(troupe, number, [scenes.refund, scene], count, is_open=True), True


def _played(troupe: Troupe, number: int, steps: Sequence[Scene], share: int, *, is_open: bool = False) -> Planned:
    """Play one run, make a mould of it, and take it back."""
    stage = Stage(
        troupe=troupe,
        planner=troupe.planners[number % len(troupe.planners)],
        run=f"mould-{secrets.token_hex(6)}",
    )
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text::bigint")
            ((transaction_id,),) = cursor.fetchall()
        stage.open()
        for index, scene in enumerate(steps, 1):
            scene(stage, f"{NAMES[(number + index) % len(NAMES)]}-{index}")
        if not is_open:
            scenes.acknowledge_all(stage)
        mould = mould_of(stage, steps[-1].__name__, transaction_id)
        transaction.set_rollback(True)
    return Planned(mould=mould, share=share)
