"""One of the thirty-two traces: the sentence, the flags in words, and both gateways beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dashboard.presenters import simulated_events as events
from dashboard.presenters.marks import Mark
from dashboard.presenters.numbers import seconds
from dashboard.presenters.simulated_events import Answer, Words
from dashboard.presenters.simulator import FLAGS, VETOED, outcome_of, phase_of
from fencing.protocol.errors import Refusal
from fencing.protocol.explain import Sentence, Tone, explain_refusal, explain_step
from fencing.protocol.explain.wording import name, parts, strong
from fencing.protocol.fence import Phase
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import replayed
from fencing.protocol.simulate.traces import EPOCH, STEP, Escape, Flags, Gateway, Line, Run, Trace, script
from fencing.protocol.world import World
from fencing.protocol.world.events import Admit, Cast, Issue
from fencing.protocol.world.telling import story_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagLine:
    """A flag in words. `twin` is the number of the trace that differs in this flag alone."""

    label: str
    is_set: bool
    says: Words
    twin: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What one gateway's world answered to an event, and where the step was then; `has_moved`: it was elsewhere."""

    answer: Answer
    phase: Mark
    reason: str
    has_moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An event beside both answers. None: it did not happen there, since the call had gone through already."""

    after: str
    who: str
    what: Words
    leaky: Answered | None
    ours: Answered | None

    @property
    def differs(self) -> bool:
        """Tell whether the two part here: another fate of a call, or another phase."""
        sides = (self.leaky, self.ours)
        fates = [None if side is None else (side.answer.mark, side.phase, side.reason) for side in sides]
        return fates[0] != fates[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One gateway's part: what became of the calls, the phases in their order, what left and why."""

    outcome: Mark
    phases: tuple[tuple[Mark, str], ...]
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A trace as its page shows it."""

    number: int
    sentence: Sentence
    flags: tuple[FlagLine, ...]
    leaky: Side
    ours: Side
    rows: tuple[Row, ...]


def tell(traces: Sequence[Trace], number: int) -> Told:
    """Prepare the trace of a number from 1."""
    trace = traces[number - 1]
    leaky, ours = trace.run(Gateway.LEAKY), trace.run(Gateway.ENFORCING)
    return Told(
        number=number,
        sentence=_sentence(trace.flags, leaky, ours),
        flags=tuple(_flag_lines(traces, trace)),
        leaky=Side(outcome=outcome_of(leaky), phases=_phases(leaky), sentences=(_leaky_told(leaky),)),
        ours=Side(outcome=outcome_of(ours), phases=_phases(ours), sentences=tuple(_ours_told(ours))),
        rows=tuple(_rows(leaky, ours)),
    )


# ---- sentences ----


def _sentence(flags: Flags, leaky: Run, ours: Run) -> Sentence:
    if ours.escape is None:
        return _agreed(leaky)
    call = _call(ours)
    was = parts("a call to send ", events.action_told(stage.REFUND), f" came at {_at(call)}, ", _while(ours, call))
    if flags.divergence:
        rest = parts(was, ". The paths disagree, so nothing left.")
    else:
        rest = parts(was, f". The call at {_at(_last(ours))} was let through, once every path had agreed.")
    head = parts(strong("Refused"), " here, let through by the leaky gateway")
    return Sentence(tone=Tone.REFUSED, head=head, rest=rest)


def _agreed(leaky: Run) -> Sentence:
    what = events.action_told(stage.REFUND)
    if leaky.escape is None:
        head = parts(strong("Let through"), " by both gateways")
        return Sentence(tone=Tone.GOOD, head=head, rest=parts("both paths asked for ", what, " before the call came."))
    head = parts(strong("Committed"), " here, vetoed by the leaky gateway")
    rest = parts(
        "both paths asked for ", what, ". The leaky gateway took the expired grant for a veto, and then let the call "
        "through all the same; here an expired grant takes nothing away from an agreement.",
    )  # fmt: skip
    return Sentence(tone=Tone.GOOD, head=head, rest=rest)


def _while(run: Run, call: Line) -> str:
    if call.escape is Escape.AFTER_REJECT:
        return f"though the step had been rejected at {_at(_decided(run))}"
    return "while nothing was decided"


def _leaky_told(run: Run) -> Sentence:
    """Say what left through the leaky gateway, and why."""
    call = next((line for line in run.lines if line.escape is not None), _last(run))
    what = parts(events.action_told(stage.REFUND), f" left at {_at(call)}")
    why = {
        None: ". A commit stood by then; this gateway did not ask for one.",
        Escape.EARLY: ", before any path had voted: this gateway lets a call through in any phase.",
        Escape.AFTER_REJECT: ", after the reject: this gateway lets a call through in any phase.",
        Escape.VETO: f", though the step was {VETOED}: a grant that was over stopped what both paths had agreed on.",
    }[call.escape]
    if call.escape is None:
        return Sentence(tone=Tone.GOOD, head=parts("Sent"), rest=parts(what, why))
    head = parts("Sent ", strong("without authority"))
    return Sentence(tone=Tone.DANGER, head=head, rest=parts(what, why))


def _ours_told(run: Run) -> Iterator[Sentence]:
    """Give the core's own words: about the step at the end, and about each call that was refused."""
    last = run.lines[-1]
    world = replayed(((line.at, line.event) for line in run.lines), World.opened(stage.tools))[-1]
    record = world.step(STEP, EPOCH)
    if record is None:
        raise AssertionError("a trace begins with its proposal")
    yield explain_step(story_of(world, record, last.at))
    for line in run.lines:
        if isinstance(line.event, Admit) and isinstance(line.result, Refusal):
            told = explain_refusal(line.result.code, line.result.detail, is_admission=True)
            yield replace(told, head=parts(f"{_at(line)} ", told.head))


def _call(run: Run) -> Line:
    return next(line for line in run.lines if line.escape is not None)


def _last(run: Run) -> Line:
    return next(line for line in reversed(run.lines) if isinstance(line.event, Admit))


def _decided(run: Run) -> Line:
    return next(line for line in run.lines if line.phase in (Phase.REJECTED, Phase.COMMITTED))


def _at(line: Line) -> str:
    return events.after(stage.START, line.at)


# ---- flags ----


def _flag_lines(traces: Sequence[Trace], trace: Trace) -> Iterator[FlagLine]:
    numbers = {each.flags: number for number, each in enumerate(traces, start=1)}
    says = _flags_told(trace.flags)
    for flag, label in FLAGS.items():
        is_set = bool(getattr(trace.flags, flag))
        twin = numbers[replace(trace.flags, **{flag: not is_set})]
        yield FlagLine(label=label, is_set=is_set, says=says[flag], twin=twin)


def _flags_told(flags: Flags) -> dict[str, Words]:
    happens = [event for _, event in script(flags)]
    votes = [event for event in happens if isinstance(event, Cast)]
    grant = next((event for event in happens if isinstance(event, Issue)), None)
    order = parts(name(votes[0].path), " votes first, then ", name(votes[1].path), ".")
    wants = {vote.path: () if vote.action is None else events.action_told(vote.action) for vote in votes}
    differ = parts(
        name("production"), " wants ", wants["production"], ", ", name("replica"), " wants ", wants["replica"], "."
    )
    nobody = parts("Nobody issued one.")
    early = "A call comes before any path has voted." if flags.early_dispatch else "The call comes at the end."
    return {
        "reorder": order,
        "divergence": differ if flags.divergence else parts("Both paths want ", wants["replica"], "."),
        "early_dispatch": parts(early),
        "grant": nobody if grant is None else parts(events.who(grant), " ", events.told(grant), "."),
        "expired_grant": parts(_expiry(flags, grant)),
    }


def _expiry(flags: Flags, grant: Issue | None) -> str:
    if grant is None:
        return "No grant is there that could expire" + (": the flag changes nothing." if flags.expired_grant else ".")
    lasts = f"It lives for {seconds(grant.ttl_s)}"
    return f"{lasts}: it is over before anybody votes." if flags.expired_grant else f"{lasts}, longer than the trace."


# ---- rows ----


def _phases(run: Run) -> tuple[tuple[Mark, str], ...]:
    found: list[tuple[Mark, str]] = []
    for index in range(len(run.lines)):
        phase = phase_of(run, index)
        if not found or found[-1] != phase:
            found.append(phase)
    return tuple(found)


def _rows(leaky: Run, ours: Run) -> Iterator[Row]:
    """Go through both runs by time: no two events of a trace come at the same moment."""
    by_side = {run.gateway: dict(_answers(run)) for run in (leaky, ours)}
    lines = {line.at: line for run in (leaky, ours) for line in run.lines}
    for at, line in sorted(lines.items()):
        yield Row(
            after=events.after(stage.START, at), who=events.who(line.event), what=events.told(line.event),
            leaky=by_side[Gateway.LEAKY].get(at), ours=by_side[Gateway.ENFORCING].get(at),
        )  # fmt: skip


def _answers(run: Run) -> Iterator[tuple[datetime, Answered]]:
    for index, line in enumerate(run.lines):
        phase, reason = phase_of(run, index)
        has_moved = index == 0 or phase_of(run, index - 1) != (phase, reason)
        yield line.at, Answered(answer=_answer(run, line), phase=phase, reason=reason, has_moved=has_moved)


def _answer(run: Run, line: Line) -> Answer:
    if run.gateway is Gateway.LEAKY and isinstance(line.event, Admit):
        mark = events.ESCAPED if line.has_landed else events.LET_THROUGH
        return Answer(mark=mark, text=parts("it asks for no token"))
    answer = events.answered(line.event, line.result)
    return replace(answer, mark=events.ESCAPED) if line.has_landed else answer
