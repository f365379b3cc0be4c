"""A failing trace that `manage.py simulate` wrote, played again: what happened, and whether it fails still.

The text comes from a file that anybody may have edited: whatever it is, the answer is a value or `Unreadable`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dashboard.presenters import simulated_events as events
from dashboard.presenters.marks import Mark, mark_of
from dashboard.presenters.simulated_events import Answer, Words
from fencing.protocol.explain import Sentence, Tone
from fencing.protocol.explain.wording import code, parts, spelt
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import NoTrace, read_trace
from fencing.protocol.simulate.invariants import Violation
from fencing.protocol.simulate.strings import opening
from fencing.protocol.world import World
from fencing.protocol.world.events import Event

MAX_EVENTS: Final = 500
MAX_WORDS: Final = 400


class Unreadable(ValueError):
    """The file holds no trace that can be played; the message says why, in words for the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A step that is elsewhere since an event."""

    step: str
    epoch: int
    phase: Mark
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An event, its answer, what it moved, and the properties that do not hold after it."""

    number: int
    after: str
    who: str
    what: Words
    answer: Answer
    moved: tuple[Moved, ...]
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A failing trace as its page shows it. `told` is the sentence in the file."""

    sentence: Sentence
    property: str
    told: str
    seed: int | None
    rows: tuple[Row, ...]


def read(text: str) -> Failing:
    """Read a file and play it.

    Raises:
        Unreadable: it is no trace, or one that cannot be played.
    """
    form = _form(text)
    try:
        rows = tuple(_rows(read_trace(form, stage.tools)))
    except NoTrace as fault:
        raise Unreadable(f"It is no trace: {spelt(str(fault), MAX_WORDS)}.") from fault
    except Exception as fault:
        # An edited file may name a number where a text belongs; the core's types forbid that, its code need not see it.
        raise Unreadable(f"It cannot be played: {spelt(str(fault) or type(fault).__name__, MAX_WORDS)}.") from fault
    return _failing(form, rows)


def _form(text: str) -> dict[str, Any]:
    try:
        form = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise Unreadable("It is no JSON, or is nested too deeply.") from fault
    if not isinstance(form, dict):
        raise Unreadable("It is no JSON object.")
    events_told = form.get("events")
    if isinstance(events_told, list) and len(events_told) > MAX_EVENTS:
        raise Unreadable(f"It has {len(events_told)} events, and the page plays {MAX_EVENTS} at most.")
    return form


def _failing(form: dict[str, Any], rows: tuple[Row, ...]) -> Failing:
    seed = form.get("seed")
    return Failing(
        sentence=_sentence(form, rows),
        property=str(form.get("property") or "")[:MAX_WORDS],
        told=str(form.get("sentence") or ""),
        seed=seed if isinstance(seed, int) and not isinstance(seed, bool) else None,
        rows=rows,
    )


def _sentence(form: dict[str, Any], rows: Sequence[Row]) -> Sentence:
    broken = next((row for row in rows if row.violations), None)
    if broken is None:
        was = parts(" fails no more")
        rest = parts(f"played again by this version, every property holds after each of {len(rows)} events.")
        return Sentence(tone=Tone.GOOD, head=parts(code(str(form.get("property") or "It")), was), rest=rest)
    first = broken.violations[0]
    at = f" after event {broken.number} of {len(rows)}, played again by this version."
    rest = parts(spelt(first.sentence, MAX_WORDS), at)
    return Sentence(tone=Tone.DANGER, head=parts(code(first.property), " fails"), rest=rest)


def _rows(entries: Iterable[tuple[datetime, Event]]) -> Iterator[Row]:
    scene = opening()
    for number, (at, event) in enumerate(entries, start=1):
        before = scene.world
        scene, violations = scene.at(at, event)
        yield Row(
            number=number,
            after=events.after(stage.START, at),
            who=events.who(event),
            what=events.told(event),
            answer=_answer(before, scene.world),
            moved=tuple(_moved(before, scene.world)),
            violations=violations,
        )


def _answer(before: World, world: World) -> Answer:
    if len(world.history) == len(before.history):
        return Answer(text=parts("none: it would have left the tables"))
    return events.answered(world.history[-1].event, world.history[-1].result)


def _moved(before: World, world: World) -> Iterator[Moved]:
    for record in world.steps:
        old = before.step(*record.place)
        if old is None or (old.phase, old.reason) != (record.phase, record.reason):
            step, epoch = record.place
            yield Moved(step=step, epoch=epoch, phase=mark_of("step", record.phase), reason=record.reason or "")
