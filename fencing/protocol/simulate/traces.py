"""The thirty-two traces: every combination of five flags, through two gateways.

The flags are the order of the votes, divergence, early dispatch, a grant, and that it is expired.

Both paths want `refund`; where they diverge, production wants `hold_for_review`. A grant covers `refund` alone. Where
the early call was refused, there is a call at the end. The enforcing gateway is this system; the leaky one is the
common implementation: a call in any phase goes through, an expired grant vetoes agreement, and nothing is dispatched
after a leak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import product

from fencing.protocol import fence, grants
from fencing.protocol.fence import Decision, Phase, Reason
from fencing.protocol.simulate import stage
from fencing.protocol.world import World, fencer
from fencing.protocol.world.events import Admit, Cast, Event, Issue, Propose, Work
from fencing.protocol.world.records import Done, Result

STEP = "pay-invoice"
EPOCH = 7


class Gateway(StrEnum):
    """Which implementation a trace runs through."""

    LEAKY = "leaky"
    ENFORCING = "enforcing"


class Escape(StrEnum):
    """What a call without authority was: made while nothing was decided, after a reject, or against a wrong veto."""

    EARLY = "early"
    AFTER_REJECT = "after_reject"
    VETO = "veto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What is injected into a trace. Each is a class of faults that must be seen to move something."""

    reorder: bool = False
    divergence: bool = False
    early_dispatch: bool = False
    grant: bool = False
    expired_grant: bool = False

    @property
    def has_live_grant(self) -> bool:
        """Whether a grant lives while the paths vote: such a trace is exempt from P1."""
        return self.grant and not self.expired_grant

    @property
    def name(self) -> str:
        """The flags that are set, for a title."""
        return " ".join(field.name for field in fields(self) if getattr(self, field.name)) or "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event of a trace: when, what, how it was answered, where the step was after it, and if it was an escape.

    `has_divergent_commit`: a commit stands while two digests are on record (P1).
    """

    at: datetime
    event: Event
    result: Result
    phase: Phase
    reason: Reason | None
    escape: Escape | None = None
    has_landed: bool = False
    has_divergent_commit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A trace as it went through one gateway."""

    gateway: Gateway
    lines: tuple[Line, ...]

    @property
    def escape(self) -> Escape | None:
        """The first call without authority, landed or refused."""
        return next((line.escape for line in self.lines if line.escape is not None), None)

    @property
    def has_landed(self) -> bool:
        """Whether a call without authority went through."""
        return any(line.has_landed for line in self.lines)

    @property
    def has_divergent_commit(self) -> bool:
        """Whether P1 was broken, without any exemption."""
        return any(line.has_divergent_commit for line in self.lines)

    @property
    def path(self) -> tuple[object, ...]:
        """What a class of faults can move: the phases in their order, and the number of escapes."""
        phases = tuple(line.phase for line in self.lines if isinstance(line.event, Work))
        return *phases, sum(line.escape is not None for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One of the thirty-two: its flags, and how it went through each gateway."""

    flags: Flags
    runs: tuple[Run, ...]

    def run(self, gateway: Gateway) -> Run:
        """The run through one gateway."""
        return next(run for run in self.runs if run.gateway is gateway)


def all_flags() -> Iterator[Flags]:
    """Every combination of the flags."""
    names = [field.name for field in fields(Flags)]
    return (Flags(**dict(zip(names, values, strict=True))) for values in product((False, True), repeat=len(names)))


def all_traces() -> tuple[Trace, ...]:
    """Play every combination through both gateways."""
    return tuple(play(flags) for flags in all_flags())


def play(flags: Flags) -> Trace:
    """Play one combination through both gateways."""
    return Trace(flags=flags, runs=(_play(flags, Gateway.LEAKY), _play(flags, Gateway.ENFORCING)))


def script(flags: Flags) -> tuple[tuple[float, Event], ...]:
    """What happens in a trace before the call at its end: seconds after the start, and the event."""
    wants = {"production": stage.HOLD if flags.divergence else stage.REFUND, "replica": stage.REFUND}
    first, second = ("replica", "production") if flags.reorder else ("production", "replica")
    ttl_s = 1 if flags.expired_grant else 60
    grant = Issue(name="night-shift-3", epoch=EPOCH, by="ann", tool="refund", ttl_s=ttl_s)
    events: list[tuple[float, Event]] = [(0, Propose(step=STEP, epoch=EPOCH))]
    events += [(1, grant)] if flags.grant else []
    events += [(2, Admit(action=stage.REFUND, step=STEP, epoch=EPOCH))] if flags.early_dispatch else []
    events += [(3, Cast(path=first, step=STEP, epoch=EPOCH, action=wants[first])), (3.1, Work())]
    events += [(4.8, Cast(path=second, step=STEP, epoch=EPOCH, action=wants[second])), (4.9, Work())]
    return *events, (10, Work())


def _play(flags: Flags, gateway: Gateway) -> Run:
    decider = veto if gateway is Gateway.LEAKY else fencer.decide
    world = World.opened(stage.tools, decider=decider)
    call = _call_leaky if gateway is Gateway.LEAKY else _call_enforcing
    lines: list[Line] = []
    for after_s, event in script(flags):
        world, line = _line(world, event, stage.START + timedelta(seconds=after_s), call)
        lines.append(line)
    if not any(isinstance(line.event, Admit) and isinstance(line.result, Done) for line in lines):
        _, line = _line(world, _last_call(world), stage.START + timedelta(seconds=11), call)
        lines.append(line)
    return Run(gateway=gateway, lines=tuple(lines))


def _last_call(world: World) -> Admit:
    record = world.step(STEP, EPOCH)
    commit = None if record is None else record.commit
    return Admit(action=stage.REFUND, step=STEP, epoch=EPOCH, token=None if commit is None else commit.token)


_Call = Callable[[World, Admit, datetime], tuple[World, Result]]


def _call_enforcing(world: World, event: Admit, at: datetime) -> tuple[World, Result]:
    return world.handle(event, at)


def _call_leaky(world: World, _event: Admit, _at: datetime) -> tuple[World, Result]:
    return world, Done(exempt=True)


def _line(world: World, event: Event, at: datetime, call: _Call) -> tuple[World, Line]:
    before = world.step(STEP, EPOCH)
    world, result = call(world, event, at) if isinstance(event, Admit) else world.handle(event, at)
    record = world.step(STEP, EPOCH)
    if record is None:
        raise AssertionError("a trace begins with its proposal")
    stands = record.commit is not None and record.commit.stands
    line = Line(
        at=at,
        event=event,
        result=result,
        phase=record.phase,
        reason=record.reason,
        has_divergent_commit=stands and len(fence.digests_on_record(record.facts)) > 1,
    )
    if isinstance(event, Admit) and before is not None and not (before.commit is not None and before.commit.stands):
        line = replace(line, escape=_escape(before.phase, before.reason), has_landed=isinstance(result, Done))
    return world, line


def _escape(phase: Phase, reason: Reason | None) -> Escape:
    if phase is not Phase.REJECTED:
        return Escape.EARLY
    return Escape.VETO if reason is VETOED else Escape.AFTER_REJECT


VETOED = Reason.TIMEOUT
"""How the leaky implementation rejects an agreement for a grant that is over: as if its time were over, too."""


def veto(
    step: fence.Step,
    rules: fence.Rules,
    known: list[grants.Grant],
    now: datetime,
    is_key_taken: Callable[[str], bool],
) -> Decision:
    """Decide as the common implementation does: like the fence, but an expired grant vetoes agreement."""
    decision = fence.decide(step, rules=rules, grants=known, now=now, is_key_taken=is_key_taken)
    has_expired = any(grants.state_of(grant, now) is grants.State.EXPIRED for grant in known)
    if decision.reason is Reason.AGREEMENT and has_expired:
        return Decision(phase=Phase.REJECTED, reason=VETOED)
    return decision
