"""The play: scene after scene, then the table of what happened and the counters. It fails loudly."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fencing.client import FenceError
from fencing.demo.scenes import SCENES, STEP, Place, Scene
from fencing.demo.stage import ActorFault, DemoKeys, Stage

# Refused on the way: the early call, the refund of a revoked commit, the mutated payload.
ESCAPES_OF_THE_PLAY = 3


class Out(Protocol):
    """Where the play is told: a text file, or a command's output."""

    def write(self, text: str, /) -> object:
        """Write text."""

    def flush(self) -> None:
        """Let it be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A scene as it went."""

    scene: Scene
    seen: tuple[str, ...]
    link: str
    took_s: float

    @property
    def is_right(self) -> bool:
        """Whether what was seen is what must be seen."""
        return self.seen == self.scene.expected


class NotAsItMustBe(Exception):
    """The play saw something that the protocol forbids; the sentences tell what."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def play(base_url: str, keys: DemoKeys, out: Out, *, scenes: Sequence[Scene] = SCENES) -> tuple[Played, ...]:
    """Play against a running system, telling each scene as it ends, and print table and counters.

    The demo's tools must be registered (`fencing/demo/tools.json`). Each play has runs of its own, so it can be
    repeated. Takes some fifteen seconds. Raises `NotAsItMustBe` after the table if anything was not as it must be.
    """
    name = f"demo-{secrets.token_hex(3)}"
    _say(out, f"demo: four actors, each a process with a key of its own, play {len(scenes)} scenes on invoice nine")
    with Stage.set(base_url, keys) as stage:
        before = stage.auditor.counters()
        played = []
        for number, each in enumerate(scenes, 1):
            played.append(_played(stage, base_url, each, f"{name}-{number:02}"))
            _say(out, f"  {number:>2}/{len(scenes)} {_progress(played[-1])}")
        after = stage.auditor.counters()
    _say(out, "", *_table(played), "", *_counter_lines(after))
    faults = [*_faults_of(played), *_faults_between(before, after, played)]
    if faults:
        _say(out, "", *(f"NOT AS IT MUST BE: {fault}" for fault in faults))
        raise NotAsItMustBe(faults)
    _say(out, "", f"demo: all {len(played)} scenes ended as they must")
    return tuple(played)


def _played(stage: Stage, base_url: str, scene: Scene, prefix: str) -> Played:
    place = Place(stage=stage, run=f"{prefix}-{scene.name.replace(' ', '-')}")
    begun = time.monotonic()
    try:
        seen = scene.act(place)
    except (ActorFault, FenceError) as fault:
        seen = (f"{type(fault).__name__}: {fault}",)
    link = f"{base_url}/runs/{place.run}/steps/{STEP}?epoch={place.epoch}"
    return Played(scene=scene, seen=seen, link=link, took_s=time.monotonic() - begun)


def _progress(done: Played) -> str:
    verdict = "as it must" if done.is_right else "NOT as it must"
    return f"{done.scene.name:<16} {verdict}, {done.took_s:.1f} s · {done.scene.tells}"


def _table(played: Iterable[Played]) -> list[str]:
    rows = [("scene", "expected", "seen", "step")]
    for each in played:
        seen = "the same" if each.is_right else " · ".join(each.seen)
        rows.append((each.scene.name, " · ".join(each.scene.expected), seen, each.link))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    ]
    return [lines[0], "  ".join(["-" * width for width in widths] + ["-" * len(rows[0][3])]), *lines[1:]]


def _counter_lines(counters: Mapping[str, Any]) -> list[str]:
    width = max(map(len, counters), default=0)
    return ["counters", *(f"  {name.ljust(width)}  {_figure(value)}" for name, value in counters.items())]


def _figure(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return f"{value['n']}/{value['of']}" if value["of"] else f"{value['n']}/0 (no data)"


def _faults_of(played: Iterable[Played]) -> list[str]:
    return [
        f"{each.scene.name}: expected {' · '.join(each.scene.expected)}, seen {' · '.join(each.seen)}"
        for each in played
        if not each.is_right
    ]


def _faults_between(before: Mapping[str, Any], after: Mapping[str, Any], played: Sequence[Played]) -> list[str]:
    """Judge the counters by what the play added; others may use the system at the same time."""
    faults = []
    if after["i1_divergent_commits"]["n"] != before["i1_divergent_commits"]["n"]:
        faults.append("counters: a divergent commit")
    if after["landed_escapes"] != before["landed_escapes"]:
        faults.append("counters: a landed escape")
    attempted = after["attempted_escapes"] - before["attempted_escapes"]
    if len(played) == len(SCENES) and attempted < ESCAPES_OF_THE_PLAY:
        faults.append(f"counters: {attempted} attempted escapes, and the play made {ESCAPES_OF_THE_PLAY}")
    return faults


def _say(out: Out, *lines: str) -> None:
    out.write("".join(line + "\n" for line in lines))
    out.flush()
