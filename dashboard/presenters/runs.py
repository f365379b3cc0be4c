"""Runs and their epochs, from what the queries read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from dashboard.presenters.marks import Hue, Mark, Shape, mark_of
from dashboard.presenters.numbers import grouped, plural
from dashboard.presenters.timelines import Event, Timeline, timeline
from fencing.models import EpochOpening
from fencing.queries.runs import StepLine

ORDER = ("committed", "rejected", "exempt", "fenced", "agreed", "proposed", "idle")
UNDECIDED = ("fenced", "agreed", "proposed", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSteps:
    """The steps of one epoch that stand on this page."""

    epoch: int
    is_closed: bool
    steps: tuple[StepLine, ...]


def phase_counts(phases: Mapping[str, int]) -> list[tuple[Mark, str]]:
    """Prepare how many steps are in each phase, in a fixed order; phases without steps are left out."""
    return [(mark_of("step", phase), grouped(phases[phase])) for phase in ORDER if phases.get(phase)]


def sentence_of(phases: Mapping[str, int], epoch: int, counter: int) -> tuple[str, str]:
    """Say in one sentence where a run stands; with its hue."""
    total, undecided = sum(phases.values()), sum(phases.get(phase, 0) for phase in UNDECIDED)
    if not total:
        return "Nothing was proposed yet: the run is open, and its planner has named no step.", ""
    parts = [f"{grouped(phases[phase])} {phase}" for phase in ("committed", "rejected", "exempt") if phases.get(phase)]
    parts += [f"{grouped(undecided)} undecided"] if undecided else []
    replayed = f" Replays reached number {counter}." if counter > epoch else ""
    return (
        f"{plural(total, 'step')}, now in epoch {epoch}: {', '.join(parts)}.{replayed}",
        "waiting" if undecided else "",
    )


def by_epoch(steps: Sequence[StepLine], run_epoch: int) -> list[EpochSteps]:
    """Group the steps of a page by epoch, as they stand: the newest first."""
    newest = sorted(steps, key=lambda step: (step.epoch, step.opened_at), reverse=True)
    return [
        EpochSteps(epoch=epoch, is_closed=epoch < run_epoch, steps=tuple(group))
        for epoch, group in groupby(newest, key=lambda step: step.epoch)
    ]


def openings_of(openings: Sequence[EpochOpening], now: datetime) -> Timeline:
    """Draw how the numbers of a run were opened: its start, restarts and replays in plain sight."""
    known = {
        "start": Mark(word="opened", hue=Hue.NEUTRAL, shape=Shape.FILLED),
        "restart": Mark(word="restarted", hue=Hue.WAITING, shape=Shape.RING),
        "replay": Mark(word="replayed", hue=Hue.NEUTRAL, shape=Shape.HALF),
    }
    return timeline([_event(opening, known[opening.kind]) for opening in reversed(openings)], now)


def _event(opening: EpochOpening, mark: Mark) -> Event:
    by = opening.person.get_username() if opening.person else opening.by.name if opening.by else "nobody"
    what = {
        "start": f"epoch {opening.number}, by {by}",
        "restart": f"epoch {opening.number} closed every older one, by {by}",
        "replay": f"step {opening.step_name} goes on from {opening.from_epoch} in epoch {opening.number}, by {by}",
    }[opening.kind]
    return Event(at=opening.opened_at, mark=mark, text=what, quoted=opening.reason)
