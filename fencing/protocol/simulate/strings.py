"""Strings of events: random ones, all short ones, and the shortest that shows a fault (protocol, section 16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any, TypeAlias, TypeVar

from fencing.protocol.admission import ESCAPES
from fencing.protocol.errors import Refusal
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.figures import Figure
from fencing.protocol.simulate.forms import trace_form
from fencing.protocol.simulate.invariants import Violation, check
from fencing.protocol.simulate.speculation_symbols import SPECULATIVE, fork
from fencing.protocol.simulate.speculation_symbols import phrases as speculative_phrases
from fencing.protocol.simulate.symbols import ACTIONS, LARGE, OPTIMISTIC, SMALL, Phrase, Symbol, phrases, propose
from fencing.protocol.world import Impossible, World
from fencing.protocol.world.events import Admit, Event
from fencing.protocol.world.records import Done

LENGTH = 40
"""How many letters a random string has."""

THEMES = ("refund", "refund", "wire", "wire", *ACTIONS)
BRANCHED = 0.6
"""How often a random string has branches in it, ledgers, and what undoes effects."""

BRANCHED_THEMES = (*OPTIMISTIC, *OPTIMISTIC, "refund", "wire", "hold", "mail")
PHRASES = 0.6
"""How often a random string goes on with a phrase rather than with any two letters."""

FORGOTTEN = 0.1
"""How often a letter of a phrase is left out."""

Progress: TypeAlias = Callable[[int, int], None]
"""Told now and then how many strings of how many were tried."""


Happening: TypeAlias = "tuple[datetime, Event]"
"""An event and its moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A world in the middle of a string, with its clock."""

    world: World
    now: datetime = stage.START

    def after(self, symbol: Symbol) -> tuple[Scene, tuple[Violation, ...]] | None:
        """Give the scene after a letter, and what is wrong then; None where the letter means nothing here."""
        event = symbol.event(self.world)
        return None if event is None else self.at(self.now + timedelta(seconds=symbol.after_s), event)

    def at(self, now: datetime, event: Event) -> tuple[Scene, tuple[Violation, ...]]:
        """Give the scene after an event, and what is wrong then."""
        try:
            world, _ = self.world.handle(event, now)
            twice, _ = world.handle(event, now)
        except Impossible as fault:
            return replace(self, now=now), (Violation(property="tables", sentence=str(fault)),)
        violations = check(self.world, world)
        if twice.record != world.record:
            sentence = f"{type(event).__name__} changed something when it arrived once more"
            violations = (*violations, Violation(property="N2", sentence=sentence))
        return replace(self, world=world, now=now), violations


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The shortest string found that breaks a property: what happened in it, and what broke at its end."""

    happenings: tuple[Happening, ...]
    violations: tuple[Violation, ...]
    seed: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Write it so that the simulator page opens it."""
        first = self.violations[0]
        return trace_form(self.happenings, property=first.property, sentence=first.sentence, seed=self.seed)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was tried: strings, events, and the numbers that the invariants are measured by."""

    strings: int = 0
    events: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, world: World, violations: Iterable[Violation], new: int) -> None:
        """Count a string by the world at its end; `new` events of it were not counted before."""
        self.strings += 1
        self.events += new
        self.broken.update(violation.property for violation in violations)
        self.counts["commits"] += sum(record.commit is not None for record in world.steps)
        self.counts["intents"] += len(world.intents)
        for entry in world.history:
            name = type(entry.event).__name__.lower()
            answer = entry.result.code.value if isinstance(entry.result, Refusal) else "taken"
            self.seen[f"{name} {answer}"] += 1
            if isinstance(entry.event, Admit):
                self.counts["admissions"] += 1
                self.counts["attempted"] += isinstance(entry.result, Refusal) and entry.result.code in ESCAPES
                self.counts["effects"] += isinstance(entry.result, Done) and entry.result.number is not None
        self.counts["inputs"] += len(world.history)
        self.seen.update(f"undoing {each.state.value} {each.cause.value}" for each in world.undoings)
        self.seen.update(f"row {each.match.value}" for each in world.effects)
        self.seen.update(f"branch {each.state.value}" for each in world.tree.branches.values())
        self.seen.update(f"generation {each.facts.generation}" for each in world.intents)
        self.seen.update(f"step {record.phase.value} {record.reason or ''}".strip() for record in world.steps)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The invariants as n of N."""
        count, broken = self.counts, self.broken
        others = sum(number for name, number in broken.items() if name not in ("I1", "I2", "I3", "I5"))
        return (
            Figure(name="I1_divergent_commits", n=broken["I1"], of=count["commits"], must_be=0),
            Figure(name="I2_landed_escapes", n=broken["I2"], of=count["effects"], must_be=0),
            Figure(name="I2_attempted_escapes", n=count["attempted"], of=count["admissions"]),
            Figure(name="I3_wrong_effects", n=broken["I3"], of=count["intents"], must_be=0),
            Figure(name="I4_mixed_grades", n=0, of=0),
            Figure(name="I5_untraced_inputs", n=broken["I5"], of=count["inputs"], must_be=0),
            Figure(name="other_rules_broken", n=others, of=count["inputs"], must_be=0),
        )


def opening(prefix: Sequence[Symbol] = ()) -> Scene:
    """The scene at which strings begin, after some letters."""
    scene = Scene(world=World.opened(stage.tools))
    for symbol in prefix:
        after = scene.after(symbol)
        scene = scene if after is None else after[0]
    return scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A string up to its end, or to the first event that broke something."""

    scene: Scene
    happenings: tuple[Happening, ...]
    violations: tuple[Violation, ...] = ()


def play(symbols: Iterable[Symbol], scene: Scene) -> Played:
    """Play letters until one breaks a property. One that means nothing where it stands only takes its time."""
    happenings: list[Happening] = []
    for symbol in symbols:
        event, now = symbol.event(scene.world), scene.now + timedelta(seconds=symbol.after_s)
        if event is None:
            scene = replace(scene, now=now)
            continue
        happenings.append((now, event))
        scene, violations = scene.at(now, event)
        if violations:
            return Played(scene=scene, happenings=tuple(happenings), violations=violations)
    return Played(scene=scene, happenings=tuple(happenings))


def play_again(happenings: Sequence[Happening], scene: Scene) -> Played:
    """Play what happened once more, or a part of it, at the same moments."""
    for number, (now, event) in enumerate(happenings, start=1):
        scene, violations = scene.at(now, event)
        if violations:
            return Played(scene=scene, happenings=tuple(happenings[:number]), violations=violations)
    return Played(scene=scene, happenings=tuple(happenings))


@lru_cache(maxsize=64)
def _known(theme: str, *, is_branched: bool) -> tuple[tuple[Phrase, ...], tuple[Symbol, ...], tuple[float, ...]]:
    """The phrases about an action, and single letters with how often each is drawn, summed up."""
    letters = (*LARGE, *SPECULATIVE) if is_branched else LARGE
    known = speculative_phrases(theme) + phrases(theme)[::3] if is_branched else phrases(theme)
    return known, letters, tuple(accumulate(symbol.weight for symbol in letters))


def random_string(rng: Random, length: int = LENGTH, *, branched: float = BRANCHED) -> tuple[Symbol, ...]:
    """Draw a string: phrases that lead somewhere, about one action, with letters of every kind among them."""
    is_branched = rng.random() < branched
    theme = rng.choice(BRANCHED_THEMES if is_branched else THEMES)
    known, every, weights = _known(theme, is_branched=is_branched)
    letters: list[Symbol] = [fork("f"), fork("g")] if is_branched else []
    while len(letters) < length:
        phrase = rng.choice(known) if rng.random() < PHRASES else rng.choices(every, cum_weights=weights, k=2)
        letters += [symbol for symbol in phrase if rng.random() > FORGOTTEN]
    return tuple(letters[:length])


def try_random(
    count: int,
    rng: Random,
    *,
    tally: Tally,
    seed: int | None = None,
    progress: Progress | None = None,
    length: int = LENGTH,
    branched: float = BRANCHED,
) -> Failure | None:
    """Try random strings; stop at the first that breaks a property, and give its shortest form."""
    for number in range(1, count + 1):
        scene = opening()
        symbols = random_string(rng, length, branched=branched)
        played = play(symbols, scene)
        tally.add(played.scene.world, played.violations, new=len(played.happenings))
        if played.violations:
            return shortest(symbols, scene, seed=seed)
        if progress is not None and number % 50 == 0:
            progress(number, count)
    return None


def try_all(length: int, *, tally: Tally, progress: Progress | None = None) -> Failure | None:
    """Try every string of the small alphabet up to a length, on a step that was just proposed; give a shortest failure.

    A letter that means nothing where it stands makes no string: the same string without it is tried anyway.
    """
    start = opening()
    search = _Search(limit=length, tally=tally)
    for number, symbol in enumerate(SMALL, start=1):
        search.descend(opening((propose("a"),)), (propose("a"),), (symbol,))
        if progress is not None:
            progress(number, len(SMALL))
    return None if search.shortest is None else shortest(search.shortest, start)


@dataclass(slots=True, kw_only=True)
class _Search:
    """A search in depth; once a string fails, only shorter ones are of interest. Each begins with its proposal."""

    limit: int
    tally: Tally
    shortest: tuple[Symbol, ...] | None = None

    def descend(self, before: Scene, way: tuple[Symbol, ...], letters: Sequence[Symbol]) -> None:
        for symbol in letters:
            after = before.after(symbol) if len(way) <= self.limit else None
            if after is None:
                continue
            scene, violations = after
            self.tally.add(scene.world, violations, new=1)
            if violations:
                self.shortest, self.limit = (*way, symbol), len(way) - 1
            else:
                self.descend(scene, (*way, symbol), SMALL)


def shortest(symbols: Sequence[Symbol], scene: Scene, *, seed: int | None = None) -> Failure:
    """Take out of a failing string everything without which it still breaks the same property.

    First letters, whose meaning follows the world; then single events, as they are. The clock stays as it was.
    """
    letters = _shrunk(tuple(symbols), _without_letters, lambda some: play(some, scene))
    events = _shrunk(play(letters, scene).happenings, _without, lambda some: play_again(some, scene))
    played = play_again(events, scene)
    return Failure(happenings=played.happenings, violations=played.violations, seed=seed)


T = TypeVar("T")
_Drop: TypeAlias = "Callable[[tuple[T, ...], int, int], tuple[T, ...]]"


def _shrunk(items: tuple[T, ...], drop: _Drop[T], run: Callable[[tuple[T, ...]], Played]) -> tuple[T, ...]:
    """Drop pieces while the same property breaks, the longest first."""
    broken = {violation.property for violation in run(items).violations}
    size = max(1, len(items) // 2)
    while size:
        tried = (drop(items, start, size) for start in range(len(items) - size, -1, -1))
        shorter = next((rest for rest in tried if broken & {each.property for each in run(rest).violations}), None)
        if shorter is None:
            size //= 2
        else:
            items = shorter
    return items


def _without(items: tuple[T, ...], start: int, size: int) -> tuple[T, ...]:
    return items[:start] + items[start + size :]


def _without_letters(symbols: tuple[Symbol, ...], start: int, size: int) -> tuple[Symbol, ...]:
    """Drop letters; what comes after them keeps its moment."""
    passed = sum(symbol.after_s for symbol in symbols[start : start + size])
    rest = symbols[start + size :]
    delayed = tuple(replace(symbol, after_s=symbol.after_s + passed) for symbol in rest[:1])
    return symbols[:start] + delayed + rest[1:]
