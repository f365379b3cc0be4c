"""Silent paths and the steps that wait for them: summed up first, since three hundred lines are not read at night."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from dashboard.presenters.marks import Hue, Mark, Shape
from dashboard.presenters.numbers import plural
from fencing.protocol.answers import Result
from fencing.protocol.errors import Refusal
from fencing.protocol.explain.wording import Sentence, Tone, clock, name, parts, strong
from fencing.protocol.outages import GrantFor, StepPlace
from fencing.queries.silence import Affected, Line, Progress, Silence

SEPARATOR: Final = "/"
PLACE: Final = 3
GRANT: Final = 6
MAX_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """A step in the list of an outage; `value` is what its box sends, empty where it cannot be chosen."""

    line: Line
    value: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """How many of the listed steps ask for one tool."""

    tool: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of one list, and their sums: how many can be chosen, in how many runs, of which tools."""

    lines: tuple[StepLine, ...]
    chosen: int
    runs: int
    sums: tuple[Sum, ...]
    soonest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLine:
    """What came of one step of a batch: the grant or the new epoch, or the reason why not."""

    run: str
    step: str
    epoch: int
    mark: Mark
    grant: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLine:
    """How far one step of a batch is: its grant, its phase, its effect."""

    run: str
    step: str
    epoch: int
    grant: str
    state: str
    phase: str
    reason: str
    effect: str


def silence_sentence(silence: Silence, now: datetime) -> Sentence:
    """Say which path is silent, since when, and what waits for it."""
    since = silence.last_voted_at or silence.wanted_since
    words = " has said nothing since " if silence.last_voted_at else " has never voted, and is asked since "
    most = "at least " if silence.is_cut else ""
    waits = f"{most}{plural(silence.steps, 'step')} in {plural(silence.runs, 'run')} {_wait(silence.steps)} for it."
    head = parts(name(silence.path), " is ", strong("silent"))
    return Sentence(tone=Tone.WAITING, head=head, rest=parts("it", words, clock(since, now), "; ", waits))


def list_sentence(silences: Sequence[Silence]) -> tuple[str, str]:
    """Say in one sentence whether any path is silent; with its hue."""
    if not silences:
        return "No path is silent: every step that waits, waits for a path that answers others.", ""
    steps = sum(one.steps for one in silences)
    return f"{plural(len(silences), 'path is', 'paths are')} silent, and {plural(steps, 'step')} wait.", "waiting"


def waiting_of(affected: Affected) -> Steps:
    """Prepare the steps that still wait, each with the grant that would be issued for it."""
    return _steps(
        [
            StepLine(line=line, value=_grant_value(line.grant), why=_covered(line) or line.why)
            for line in affected.waiting
        ]
    )


def timed_out_of(affected: Affected) -> Steps:
    """Prepare the steps that nobody decided in time, to be replayed."""
    return _steps([StepLine(line=line, value=_place_value(line), why=line.why) for line in affected.timed_out])


def grants_chosen(values: Iterable[str]) -> tuple[GrantFor, ...]:
    """Read the boxes of a list as the grants to issue. They are a wish, not authority: the service judges each."""
    found = []
    for value in values:
        told = value.split(SEPARATOR)
        if len(told) == GRANT and (epoch := _epoch(told[2])) is not None:
            run, step, _, path, tool, digest = told
            found.append(GrantFor(run=run, step=step, epoch=epoch, path=path, tool=tool or None, digest=digest or None))
    return tuple(found)


def places_chosen(values: Iterable[str]) -> tuple[StepPlace, ...]:
    """Read the boxes of a list as the steps to replay."""
    found = []
    for value in values:
        told = value.split(SEPARATOR)
        if len(told) == PLACE and (epoch := _epoch(told[2])) is not None:
            found.append(StepPlace(run=told[0], step=told[1], epoch=epoch))
    return tuple(found)


def results_of(
    wanted: Sequence[GrantFor | StepPlace], results: Sequence[Result], done: Mark, again: Mark
) -> list[ResultLine]:
    """Lay each answer beside the step that it is about, what was refused first."""
    lines = [_result(place, result, done, again) for place, result in zip(wanted, results, strict=True)]
    return sorted(lines, key=lambda line: line.mark.hue is not Hue.REFUSED)


def tally(lines: Iterable[ResultLine]) -> list[tuple[Mark, int]]:
    """Count the answers by what they are."""
    counted = Counter(line.mark for line in lines)
    return sorted(counted.items(), key=lambda item: item[0].word)


def progress_of(found: Iterable[Progress]) -> list[ProgressLine]:
    """Prepare how far each step of a batch is, what is not through first."""
    lines = [
        ProgressLine(
            run=each.line.body["run"],
            step=each.line.body["step"] or "",
            epoch=each.line.body["epoch"],
            grant=each.line.body["name"],
            state=each.line.body["state"],
            phase=each.phase or "",
            reason=each.reason or "",
            effect=each.intent_state or "",
        )
        for each in found
    ]
    return sorted(lines, key=lambda line: (line.phase == "committed", line.run, line.step))


def progress_sentence(lines: Sequence[ProgressLine]) -> tuple[str, str]:
    """Say in one sentence how far a batch is; with its hue."""
    if not lines:
        return "No grant was issued by this confirmation.", ""
    through = sum(line.phase == "committed" for line in lines)
    rejected = sum(line.phase == "rejected" for line in lines)
    rest = len(lines) - through - rejected
    parts_ = [f"{rejected} rejected"] if rejected else []
    parts_ += [f"{rest} still under way"] if rest else []
    told = f": {', '.join(parts_)}" if parts_ else ""
    return f"{through} of {plural(len(lines), 'step')} committed{told}.", "waiting" if rest else ""


def _result(place: GrantFor | StepPlace, result: Result, done: Mark, again: Mark) -> ResultLine:
    if isinstance(result, Refusal):
        return _line(place, mark=REFUSED, told=result.detail)
    mark = again if result.body.get("duplicate") else done
    if "name" in result.body:
        told = f"it is {str(result.body['state']).replace('_', ' ')}"
        return _line(place, mark=mark, told=told, grant=str(result.body["name"]))
    return _line(place, mark=mark, told=f"it goes on in epoch {result.body['epoch']}")


def _line(place: GrantFor | StepPlace, *, mark: Mark, told: str, grant: str = "") -> ResultLine:
    return ResultLine(run=place.run, step=place.step, epoch=place.epoch, mark=mark, grant=grant, told=told)


def _steps(lines: Sequence[StepLine]) -> Steps:
    chosen = [each for each in lines if each.value and not each.why]
    tools = Counter(each.line.tool or "a tool that nobody named" for each in chosen)
    deadlines = [each.line.deadline_at for each in chosen if each.line.deadline_at is not None]
    return Steps(
        lines=tuple(lines),
        chosen=len(chosen),
        runs=len({each.line.step.run for each in chosen}),
        sums=tuple(Sum(tool=tool, count=count) for tool, count in tools.most_common()),
        soonest=min(deadlines, default=None),
    )


def _covered(line: Line) -> str:
    return f"{line.covered_by} covers it already" if line.covered_by else ""


def _grant_value(grant: GrantFor | None) -> str:
    if grant is None:
        return ""
    told = (grant.run, grant.step, str(grant.epoch), grant.path, grant.tool or "", grant.digest or "")
    return SEPARATOR.join(told)


def _place_value(line: Line) -> str:
    return "" if line.why else SEPARATOR.join((line.step.run, line.step.step, str(line.step.epoch)))


def _epoch(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


def _mark(word: str, hue: Hue, shape: Shape) -> Mark:
    return Mark(word=word, hue=hue, shape=shape)


REFUSED: Final = _mark("refused", Hue.REFUSED, Shape.BARRED)
ISSUED: Final = _mark("issued", Hue.GOOD, Shape.FILLED)
ISSUED_BEFORE: Final = _mark("issued before", Hue.NEUTRAL, Shape.FILLED)
REPLAYED: Final = _mark("replayed", Hue.GOOD, Shape.FILLED)
REPLAYED_BEFORE: Final = _mark("replayed before", Hue.NEUTRAL, Shape.FILLED)
DONE: Final = MappingProxyType({"grants": (ISSUED, ISSUED_BEFORE), "replays": (REPLAYED, REPLAYED_BEFORE)})
