"""The figures of the simulator: n of N, what each must be, and in how many traces each class moved something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from fencing.protocol.simulate.traces import Escape, Flags, Gateway, Run, Trace

INJECTED = ("reorder", "divergence", "early_dispatch", "expired_grant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How many of how many. `must_be` is what the suite has to find, None where any number is right."""

    name: str
    n: int
    of: int
    must_be: int | None = None

    def __str__(self) -> str:
        return f"{self.name}={self.n}/{self.of}" if self.of else f"{self.name}=no data"

    @property
    def is_right(self) -> bool:
        """Whether it is what it must be."""
        return self.must_be in (None, self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFigures:
    """What the thirty-two traces show."""

    leaky: tuple[Figure, ...]
    enforcing: tuple[Figure, ...]
    moved: tuple[Figure, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each figure that is not what it must be, and for each class that moves nothing."""
        wrong = [f"{each} and must be {each.must_be}" for each in (*self.leaky, *self.enforcing) if not each.is_right]
        idle = [f"{each.name} moves nothing: the suite could not see it" for each in self.moved if not each.n]
        return (*wrong, *idle)

    @property
    def lines(self) -> tuple[str, ...]:
        """The figures as they are printed."""
        total, early, rejects, vetoes, divergent = self.leaky
        attempted, landed, ours, strict = self.enforcing[0], *self.enforcing[3:]
        return (
            f"leaky      traces={total.of} {total}  {early} {rejects} {vetoes}",
            f"leaky      {divergent}",
            f"enforcing  traces={attempted.of} {attempted}  {self.enforcing[1]} {self.enforcing[2]}",
            f"enforcing  {landed}",
            f"enforcing  {ours}",
            f"enforcing  {strict} (the grant covers refund alone)",
            f"moved      {' '.join(str(each) for each in self.moved)}",
        )


def figures_of(traces: Sequence[Trace]) -> FenceFigures:
    """Count what the traces show."""
    of = len(traces)
    leaky = [(trace.flags, trace.run(Gateway.LEAKY)) for trace in traces]
    ours = [(trace.flags, trace.run(Gateway.ENFORCING)) for trace in traces]
    return FenceFigures(
        leaky=(
            Figure(name="escape_rate", n=sum(run.has_landed for _, run in leaky), of=of, must_be=26),
            *_kinds(leaky, {Escape.EARLY: 16, Escape.AFTER_REJECT: 8, Escape.VETO: 2}),
            _divergent("P1_divergent_commits", leaky, has_exemption=True),
        ),
        enforcing=(
            Figure(name="attempted", n=sum(run.escape is not None for _, run in ours), of=of, must_be=24),
            *_kinds(ours, {Escape.EARLY: 16, Escape.AFTER_REJECT: 8}),
            Figure(name="landed", n=sum(run.has_landed for _, run in ours), of=of, must_be=0),
            _divergent("P1_divergent_commits", ours, has_exemption=True),
            _divergent("P1_without_exemption", ours, has_exemption=False),
        ),
        moved=moved_by_class(traces),
    )


def _kinds(runs: Sequence[tuple[Flags, Run]], must_be: dict[Escape, int]) -> list[Figure]:
    return [
        Figure(name=kind.value, n=sum(run.escape is kind for _, run in runs), of=len(runs), must_be=number)
        for kind, number in must_be.items()
    ]


def _divergent(name: str, runs: Sequence[tuple[Flags, Run]], *, has_exemption: bool) -> Figure:
    counted = [run for flags, run in runs if not (has_exemption and flags.has_live_grant)]
    return Figure(name=name, n=sum(run.has_divergent_commit for run in counted), of=len(runs), must_be=0)


def moved_by_class(traces: Sequence[Trace]) -> tuple[Figure, ...]:
    """Compare each trace that has a class injected with its twin that has not."""
    by_flags = {trace.flags: trace for trace in traces}
    names = [field.name for field in fields(Flags) if field.name in INJECTED]
    return tuple(_moved(name, by_flags) for name in names)


def _moved(name: str, by_flags: dict[Flags, Trace]) -> Figure:
    pairs = [
        (trace, by_flags[replace(flags, **{name: False})]) for flags, trace in by_flags.items() if getattr(flags, name)
    ]
    n = sum(any(trace.run(each).path != twin.run(each).path for each in Gateway) for trace, twin in pairs)
    return Figure(name=name, n=n, of=len(pairs))
