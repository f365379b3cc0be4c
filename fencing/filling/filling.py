"""The whole of it: play, cast, load, prove."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Queue
from typing import Final

from fencing.filling.casts import MICRO, Caster, Sign
from fencing.filling.loading import Session, loading, settle
from fencing.filling.plan import LENGTHS, Plan, Planned, play_all
from fencing.filling.troupe import Troupe
from fencing.models import AuditEvent
from fencing.models.facts import read_clock
from fencing.services.signing import signing_key

# Lines are handed over in bulks of so many steps: large enough for COPY, small enough for memory.
BULK: Final = 10_000
DAY_S: Final = 86_400
TELL_S: Final = 2.0
FIRST_NUMBER: Final = 1_000_000
AUDIT: Final = frozenset({AuditEvent._meta.db_table})
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much is filled in. `days` is how long the history is; `lengths` of ordinary runs are in steps.

    Runs older than `audit_days` have no audit, as if those months had been exported and detached (design 3).
    """

    steps: int
    days: float = 30.0
    audit_days: float = 36_500.0
    lengths: tuple[int, ...] = LENGTHS
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What was filled in, in how many seconds."""

    runs: int
    steps: int
    seconds: float


def fill(wanted: Wanted, tell: Tell) -> Filled:
    """Fill the database.

    Raises:
        CannotPlay: the tools that are played with are there with other definitions.
        GuardsMissing: something that holds an invariant did not come back; nothing was loaded.
    """
    began = time.monotonic()
    plan = _play(wanted, tell)
    with loading(tell) as session:
        for planned in (*plan.ended, *plan.open):
            session.expect(planned.mould.tables)
        now_us = int(read_clock().timestamp() * MICRO)
        runs, steps = _load(session, _casts(plan, wanted, now_us), wanted.steps, tell)
    settle(tell)
    return Filled(runs=runs, steps=steps, seconds=time.monotonic() - began)


def _play(wanted: Wanted, tell: Tell) -> Plan:
    troupe = Troupe.engage()
    ended: list[Planned] = []
    still_open: list[Planned] = []
    for name, planned, is_open in play_all(troupe, wanted.lengths):
        tell(f"played {name}: {planned.mould.steps} steps")
        (still_open if is_open else ended).append(planned)
    troupe.dismiss()
    return Plan(ended=tuple(ended), open=tuple(still_open))


def _casts(plan: Plan, wanted: Wanted, now_us: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Cast runs until there are enough steps; yields how many each has, and its lines by table."""
    rng = random.Random(wanted.seed)  # noqa: S311 - the same history each time
    open_steps = sum(planned.share * planned.mould.steps for planned in plan.open)
    casters = [Caster(planned.mould, rng) for planned in plan.ended]
    shares = [planned.share for planned in plan.ended]
    mark, number = secrets.token_hex(2), FIRST_NUMBER
    steps_of_a_run = sum(each.share * each.mould.steps for each in plan.ended) / sum(shares)
    left = max(0, wanted.steps - open_steps)
    every_us = int(wanted.days * DAY_S * MICRO / max(1.0, left / steps_of_a_run))
    at_us = now_us - int(wanted.days * DAY_S * MICRO)
    # However few are wanted, each kind is there once.
    first = iter(casters)
    while (caster := next(first, None)) is not None or left > 0:
        caster = caster or rng.choices(casters, shares)[0]
        at_us = min(at_us + rng.randrange(2 * every_us), now_us)
        # What takes hours until somebody has looked at it, began hours ago.
        begins_us = min(at_us, now_us - caster.longest_us)
        without = AUDIT if now_us - begins_us > wanted.audit_days * DAY_S * MICRO else frozenset()
        yield caster.mould.steps, caster.cast(_name(begins_us, mark, number), begins_us, number, without=without)
        left -= caster.mould.steps
        number += caster.mould.numbers
    yield from _still_open(plan.open, rng, now_us, mark, number)


def _still_open(
    still_open: tuple[Planned, ...], rng: random.Random, now_us: int, mark: str, number: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """Cast what is still open. Its tokens may be asked for: they are signed."""
    sign: Sign = signing_key().private.sign
    for planned in still_open:
        caster = Caster(planned.mould, rng, sign)
        for _ in range(planned.share):
            begins_us = now_us - caster.longest_us - rng.randrange(600 * MICRO)
            yield caster.mould.steps, caster.cast(_name(begins_us, mark, number), begins_us, number)
            number += caster.mould.numbers


def _name(begins_us: int, mark: str, number: int) -> str:
    return f"case-{datetime.fromtimestamp(begins_us / MICRO, UTC):%Y%m%d}-{mark}-{number}"


def _load(session: Session, casts: Iterator[tuple[int, dict[str, str]]], wanted: int, tell: Tell) -> tuple[int, int]:
    """Cast in one thread and copy in another: the database works while the next bulk is made.

    The thread that casts asks the database nothing: it would open a connection of its own.
    """
    bulks: Queue[tuple[int, dict[str, bytes]] | BaseException | None] = Queue(maxsize=2)
    runs = 0

    def make() -> None:
        nonlocal runs
        waiting = 0
        try:
            for steps, lines in casts:
                session.add(lines)
                runs, waiting = runs + 1, waiting + steps
                if waiting >= BULK:
                    bulks.put((waiting, session.take()))
                    waiting = 0
            bulks.put((waiting, session.take()))
            bulks.put(None)
        except BaseException as fault:  # noqa: BLE001 - raised again by the thread that copies
            bulks.put(fault)

    threading.Thread(target=make, daemon=True).start()
    return _copy(session, bulks, wanted, tell, lambda: runs)


def _copy(
    session: Session,
    bulks: Queue[tuple[int, dict[str, bytes]] | BaseException | None],
    wanted: int,
    tell: Tell,
    runs: Callable[[], int],
) -> tuple[int, int]:
    began = told = time.monotonic()
    done = 0
    while (bulk := bulks.get()) is not None:
        if isinstance(bulk, BaseException):
            raise bulk
        steps, lines = bulk
        session.copy(lines)
        done += steps
        if (now := time.monotonic()) - told > TELL_S:
            told = now
            tell(f"{done:,} of {wanted:,} steps, {done / (now - began):,.0f} a second")
    return runs(), done
