"""The simulator's page: the figures of the thirty-two traces as the core counts them, and the traces as rows.

No number stands here: each comes from `fencing.protocol.simulate.figures`, which also knows what it must be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

from dashboard.presenters.lists import Choice, Filter, choices
from dashboard.presenters.marks import Hue, Mark, Shape, mark_of
from fencing.protocol.explain import Sentence, Tone
from fencing.protocol.explain.wording import parts, strong
from fencing.protocol.fence import Phase
from fencing.protocol.simulate.figures import FenceFigures, Figure, figures_of
from fencing.protocol.simulate.traces import VETOED as VETO
from fencing.protocol.simulate.traces import Escape, Flags, Gateway, Run, Trace, all_traces

FLAGS: Final[Mapping[str, str]] = {
    "reorder": "replica first",
    "divergence": "paths differ",
    "early_dispatch": "early call",
    "grant": "grant",
    "expired_grant": "grant expired",
}
"""The flags, each by the short words of its column."""

INJECTED: Final[Mapping[str, str]] = {
    "reorder": "the replica votes before production",
    "divergence": "production and replica want different actions",
    "early_dispatch": "a call comes before any path has voted",
    "expired_grant": "the grant is over before anybody votes",
}
ANY: Final = "any"
NONE: Final = "none"
LEAKY_MARKS: Final[Mapping[Escape | None, Mark]] = {
    Escape.EARLY: Mark(word="let through early", hue=Hue.DANGER, shape=Shape.TRIANGLE),
    Escape.AFTER_REJECT: Mark(word="let through after a reject", hue=Hue.DANGER, shape=Shape.TRIANGLE),
    Escape.VETO: Mark(word="let through after a wrong veto", hue=Hue.DANGER, shape=Shape.TRIANGLE),
    None: Mark(word="let through with authority", hue=Hue.GOOD, shape=Shape.FILLED),
}
OUR_MARKS: Final[Mapping[Escape | None, Mark]] = {
    Escape.EARLY: Mark(word="refused early", hue=Hue.REFUSED, shape=Shape.BARRED),
    Escape.AFTER_REJECT: Mark(word="refused after a reject", hue=Hue.REFUSED, shape=Shape.BARRED),
    Escape.VETO: Mark(word="refused after a wrong veto", hue=Hue.REFUSED, shape=Shape.BARRED),
    None: Mark(word="let through with authority", hue=Hue.GOOD, shape=Shape.FILLED),
}
LANDED: Final = Mark(word="let through without authority", hue=Hue.DANGER, shape=Shape.TRIANGLE)
VETOED: Final = "vetoed by the expired grant"
_KINDS: Final = {
    Escape.EARLY: "before anything was decided",
    Escape.AFTER_REJECT: "after a reject",
    Escape.VETO: "after a wrong veto",
}
_COUNTED: Final = {
    "escape_rate": "traces in which a call without authority went through",
    "attempted": "traces in which a call without authority was tried",
    "landed": "traces in which it went through",
    "P1_divergent_commits": "P1: commits while two digests are on record",
    "P1_without_exemption": "P1 counted in traces with a live grant, too",
    **{kind.value: words for kind, words in _KINDS.items()},
}
_ALARMS: Final = {"escape_rate": "danger", "landed": "danger", "attempted": "refused"}


@cache
def played() -> tuple[Trace, ...]:
    """Play the thirty-two once for this process: they depend on nothing but the core."""
    return all_traces()


@cache
def counted() -> FenceFigures:
    """Count them once."""
    return figures_of(played())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A figure in words. `is_part` is one of those that the figure above it consists of."""

    n: int
    of: int
    what: str
    alarm: str
    href: str = ""
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which traces are asked for: each flag set or not, and what became of a call without authority."""

    flags: Mapping[str, bool]
    leaky: str = ""
    here: str = ""

    @property
    def is_active(self) -> bool:
        """Tell whether anything is left out."""
        return bool(self.flags or self.leaky or self.here)

    def has(self, trace: Trace) -> bool:
        """Tell whether a trace is one of them."""
        is_alike = all(getattr(trace.flags, name) is value for name, value in self.flags.items())
        leaky, ours = trace.run(Gateway.LEAKY).escape, trace.run(Gateway.ENFORCING).escape
        return is_alike and _matches(self.leaky, leaky) and _matches(self.here, ours)


def _matches(wanted: str, escape: Escape | None) -> bool:
    if wanted in ("", ANY):
        return not wanted or escape is not None
    return escape is None if wanted == NONE else escape == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A trace in the list. `flags` go with the columns; `*_end` are where the step ended, with the reason."""

    number: int
    flags: tuple[tuple[str, bool], ...]
    leaky: Mark
    leaky_end: tuple[Mark, str]
    ours: Mark
    ours_end: tuple[Mark, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A trace on the map of one gateway."""

    number: int
    mark: Mark


def sentence(figures: FenceFigures) -> Sentence:
    """Say what the thirty-two show; where a figure is not what it must be, that first."""
    if figures.faults:
        head = parts("The suite ", strong("fails"))
        return Sentence(tone=Tone.DANGER, head=head, rest=parts("; ".join(figures.faults), "."))
    attempted, landed = (_named(figures.enforcing, name) for name in ("attempted", "landed"))
    leaked = _named(figures.leaky, "escape_rate")
    rest = (
        f"of {attempted.of} orders of events, {attempted.n} try a call without authority, and {landed.n} land. "
        f"The common implementation lets {leaked.n} through."
    )
    return Sentence(tone=Tone.GOOD, head=parts("Nothing gets ", strong("past the fence")), rest=parts(rest))


def _named(figures: Sequence[Figure], name: str) -> Figure:
    return next(each for each in figures if each.name == name)


def figures_in_words(figures: Sequence[Figure], key: str, url: str) -> list[Counted]:
    """Prepare the figures of one gateway; those that can be looked up lead to their traces (`key` is the filter)."""
    return [
        Counted(
            n=each.n, of=each.of, what=_COUNTED.get(each.name, each.name.replace("_", " ")),
            alarm=_ALARMS.get(each.name, "danger" if each.name.startswith("P1") else "neutral"),
            href=_leads_to(each, key, url), is_part=each.name in set(Escape),
        )
        for each in figures
    ]  # fmt: skip


def _leads_to(figure: Figure, key: str, url: str) -> str:
    if figure.name in ("escape_rate", "attempted"):
        return f"{url}?{key}={ANY}#traces"
    return f"{url}?{key}={figure.name}#traces" if figure.name in set(Escape) else ""


def moved_in_words(figures: FenceFigures) -> list[tuple[Figure, str, str]]:
    """Prepare in how many traces each class of faults moved something: the figure, its name, what is injected."""
    return [(each, each.name.replace("_", " "), INJECTED.get(each.name, "")) for each in figures.moved]


def chosen(query: Mapping[str, str]) -> Chosen:
    """Read the filters from an address. What is no value of a filter filters nothing."""
    flags = {name: query[name] == "yes" for name in FLAGS if query.get(name) in ("yes", "no")}
    known = {ANY, NONE, *Escape}
    leaky, here = (value if (value := query.get(key, "")) in known else "" for key in ("leaky", "here"))
    return Chosen(flags=flags, leaky=leaky, here=here)


def filters(asked: Chosen) -> list[Filter]:
    """Prepare the filters: one for each flag, and one for each gateway."""
    found = [_flag_filter(name, label, asked.flags.get(name)) for name, label in FLAGS.items()]
    return [
        *found,
        _escape_filter("leaky", "leaky gateway", "let through", asked.leaky),
        _escape_filter("here", "this gateway", "refused", asked.here),
    ]


def _flag_filter(name: str, label: str, value: bool | None) -> Filter:  # noqa: FBT001 - set, not set, not asked
    chosen_value = {True: "yes", False: "no", None: ""}[value]
    values: tuple[Choice, ...] = choices([("yes", "yes"), ("no", "no")], chosen_value, everything="either")
    return Filter(name=name, label=label, value=chosen_value, choices=values)


def _escape_filter(name: str, label: str, verb: str, value: str) -> Filter:
    kinds = [(kind.value, f"{verb} {words}") for kind, words in _KINDS.items()]
    values = [(ANY, f"{verb} without authority"), *kinds, (NONE, "no call without authority")]
    return Filter(name=name, label=label, value=value, choices=choices(values, value, everything="whatever it did"))


def rows(traces: Sequence[Trace], asked: Chosen) -> list[Row]:
    """Prepare the traces that are asked for, by their numbers from 1."""
    return [_row(number, trace) for number, trace in enumerate(traces, start=1) if asked.has(trace)]


def _row(number: int, trace: Trace) -> Row:
    leaky, ours = trace.run(Gateway.LEAKY), trace.run(Gateway.ENFORCING)
    return Row(
        number=number, flags=tuple((label, getattr(trace.flags, name)) for name, label in FLAGS.items()),
        leaky=outcome_of(leaky), leaky_end=end_of(leaky), ours=outcome_of(ours), ours_end=end_of(ours),
    )  # fmt: skip


def outcome_of(run: Run) -> Mark:
    """Give the mark of what became of the calls in a run."""
    if run.gateway is Gateway.LEAKY:
        return LEAKY_MARKS[run.escape]
    return LANDED if run.has_landed else OUR_MARKS[run.escape]


def end_of(run: Run) -> tuple[Mark, str]:
    """Give the phase in which the step ended, and why."""
    return phase_of(run, len(run.lines) - 1)


def phase_of(run: Run, index: int) -> tuple[Mark, str]:
    """Give the phase after an event of a run, and why. The leaky gateway's veto has a word, and no reason of ours."""
    line = run.lines[index]
    is_veto = run.gateway is Gateway.LEAKY and line.phase is Phase.REJECTED and line.reason is VETO
    return mark_of("step", line.phase), VETOED if is_veto else (line.reason or "")


def map_of(traces: Sequence[Trace], gateway: Gateway) -> Iterator[tuple[str, list[Cell]]]:
    """Lay a gateway's thirty-two out: a row for order and divergence, a column for early call, grant and its end."""
    width = 2 ** (len(fields(Flags)) - 2)
    for first in range(0, len(traces), width):
        flags = traces[first].flags
        label = f"{'replica first' if flags.reorder else 'in order'}, {'differ' if flags.divergence else 'agree'}"
        line = enumerate(traces[first : first + width], start=first + 1)
        yield label, [Cell(number=number, mark=outcome_of(trace.run(gateway))) for number, trace in line]
