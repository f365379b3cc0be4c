"""What happens in a simulated world, in words: who did what, and how it was answered. Nothing here decides anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from dashboard.presenters import simulated_undoing
from dashboard.presenters.marks import Hue, Mark, Shape
from dashboard.presenters.numbers import plural, seconds
from fencing.protocol.actions import Action
from fencing.protocol.errors import Refusal
from fencing.protocol.explain import Part
from fencing.protocol.explain.wording import code, described, name, parts, spelt, times
from fencing.protocol.intake import Late
from fencing.protocol.ledgers import Match
from fencing.protocol.simulate import stage
from fencing.protocol.world.events import (
    Admit,
    Adopt,
    Approve,
    ApproveUndoing,
    Ask,
    Cast,
    Event,
    Issue,
    LiftFreeze,
    Observe,
    OpenFork,
    Propose,
    Reconcile,
    Record,
    Replay,
    Report,
    ReportUndoing,
    Resolve,
    ResolveUndoing,
    Restart,
    Review,
    Revoke,
    SetFreeze,
    Sweep,
    Waive,
    Work,
)
from fencing.protocol.world.records import Done, Result

Words = tuple[Part, ...]

LET_THROUGH: Final = Mark(word="let through", hue=Hue.GOOD, shape=Shape.FILLED)
ESCAPED: Final = Mark(word="let through without authority", hue=Hue.DANGER, shape=Shape.TRIANGLE)
REFUSED: Final = Mark(word="refused", hue=Hue.REFUSED, shape=Shape.BARRED)
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How an event was answered: a mark where it is about a call or a refusal, and the words."""

    text: Words
    mark: Mark | None = None


def after(start: datetime, at: datetime) -> str:
    """Write how long after its beginning something happened in a trace, to the tenth of a second."""
    return f"+{(at - start) / timedelta(seconds=1):.1f} s"


def action_told(action: Action) -> Words:
    """Tell an action of the stage in short."""
    return described(json.loads(action.canonical), stage.tools)


def who(event: Event) -> str:  # noqa: PLR0911 - one line an actor
    """Say who did it."""
    match event:
        case Propose() | Restart() | Replay() | OpenFork() | Reconcile():
            return "planner"
        case Cast():
            return spelt(event.path)
        case Issue() | Approve() | Revoke() | Review() | SetFreeze() | LiftFreeze() | Resolve():
            return spelt(event.by)
        case Adopt() | Ask() | ApproveUndoing() | Waive() | Record() | ResolveUndoing():
            return spelt(event.by)
        case Work():
            return "fencer"
        case Sweep():
            return "sweep"
        case Admit() | Report() | ReportUndoing():
            return "gateway"
        case Observe():
            return "ledger"
        case _:
            assert_never(event)


def told(event: Event) -> Words:  # noqa: PLR0911 - one line a kind
    """Say what was done."""
    match event:
        case Propose() | Cast() | Restart() | Replay():
            return _input_told(event)
        case Issue() | Approve() | Revoke() | Review():
            return _grant_told(event)
        case SetFreeze():
            return parts("freezes ", code(event.tool) if event.tool else "the run")
        case LiftFreeze():
            return parts("lifts ", code(event.freeze))
        case Work() | Sweep():
            return parts("looks at every step that is due" if isinstance(event, Work) else "writes down what has ended")
        case Admit() | Report() | Resolve():
            return _call_told(event)
        case _:
            return simulated_undoing.told(event)


def _grant_told(event: Issue | Approve | Revoke | Review) -> Words:
    match event:
        case Issue():
            return parts("issues grant ", name(event.name), ": ", _scope(event))
        case Approve():
            return parts("approves grant ", name(event.name))
        case Revoke():
            return parts("revokes grant ", name(event.name))
        case Review():
            return parts("reviews grant ", name(event.name))
        case _:
            assert_never(event)


def _call_told(event: Admit | Report | Resolve) -> Words:
    match event:
        case Admit():
            token = parts("with ", code(event.token)) if event.token else parts("without a token")
            return parts("asks to send ", action_told(event.action), ", ", token)
        case Report():
            return parts(f"reports delivery {event.number} of ", code(event.intent), f": {_words(event.outcome)}")
        case Resolve():
            return parts("says that ", code(event.intent), " happened" if event.happened else " did not happen")
        case _:
            assert_never(event)


def _input_told(event: Propose | Cast | Restart | Replay) -> Words:
    match event:
        case Propose():
            return parts("proposes ", name(event.step), f" in epoch {event.epoch}", _pinned(event))
        case Cast():
            return parts("votes on ", name(event.step), f" in epoch {event.epoch}: ", _vote(event))
        case Restart():
            return parts(f"restarts the run, expecting epoch {event.expected}")
        case Replay():
            return parts("replays ", name(event.step), f" from epoch {event.from_epoch}")
        case _:
            assert_never(event)


def _pinned(event: Propose) -> Words:
    if event.action is not None:
        return parts(", pinned to ", action_told(event.action))
    if event.digest is not None:
        return parts(", pinned to digest ", _digest(event.digest))
    return parts(", pinned to ", code(event.tool)) if event.tool else ()


def _vote(event: Cast) -> Words:
    if event.action is not None:
        return action_told(event.action)
    return parts("it cannot answer") if event.digest is None else parts("digest ", _digest(event.digest), " alone")


def _digest(digest: str) -> Part:
    return code(digest.removeprefix("sha256:")[:_DIGITS])


def _scope(event: Issue) -> Words:
    what = code(event.tool) if event.tool else "any tool"
    where = parts(" in ", name(event.step)) if event.step else ()
    digest = parts(", digest ", _digest(event.digest)) if event.digest else ()
    more = f", epoch {event.epoch}, {times(event.max_uses)}, for {seconds(event.ttl_s)}"
    return parts(name(event.path), " alone may commit ", what, where, digest, more)


def _words(value: Any) -> str:
    return str(value).replace("_", " ")


# ---- answers ----


def answered(event: Event, result: Result) -> Answer:  # noqa: PLR0911 - one line a kind
    """Say how an event was answered by this system."""
    if isinstance(result, Refusal):
        return Answer(mark=REFUSED, text=parts(f"{_words(result.code)}. ", spelt(result.detail, 200)))
    if result.duplicate:
        return Answer(text=parts("known already: the same answer again"))
    match event:
        case Admit():
            return _admitted(result)
        case Cast():
            return Answer(text=parts(_HEARD[result.late]))
        case Work() | Sweep() | Restart() | Revoke() | SetFreeze() | Replay():
            return Answer(text=parts(_touched(event, result)))
        case Observe():
            return Answer(text=parts(_MATCHED[result.match] if result.match else "recorded"))
        case _:
            return Answer(text=parts("recorded"))


_HEARD: Final = {
    Late.NO: "recorded",
    Late.WITNESS_OR_DIVERGENCE: "recorded, after the decision: it agrees, or takes the commit back",
    Late.TOO_LATE: "recorded, too late to stop what has left",
    Late.NOTHING_TO_DECIDE: "recorded; nothing is left to decide",
}


_MATCHED: Final = {
    Match.INTENT: "it belongs to an intent",
    Match.COMPENSATION: "it belongs to an undoing",
    Match.ESCAPE: "a landed escape: nothing was committed for it",
    Match.DOUBLED: "the same effect a second time",
}


def _admitted(result: Done) -> Answer:
    if result.exempt:
        return Answer(mark=LET_THROUGH, text=parts("the tool only reads"))
    if result.settled is not None:
        return Answer(text=parts(f"not sent again: the effect is {_words(result.settled)}"))
    if result.number is None:
        return Answer(text=parts("not sent again: it is undone already"))
    of = result.intent or result.undoing or ""
    return Answer(mark=LET_THROUGH, text=parts(f"as delivery {result.number} of ", code(of)))


def _touched(event: Work | Sweep | Restart | Revoke | SetFreeze | Replay, result: Done) -> str:
    count = plural(len(result.touched), "step")
    match event:
        case Work():
            return f"looked at {count}" if result.touched else "nothing was due"
        case Restart():
            return f"epoch {result.epoch} is open; it moved {count}"
        case Replay():
            return f"goes on in epoch {result.epoch}"
        case Revoke():
            return f"revoked; it moved {count}"
        case SetFreeze():
            return f"nothing of it leaves; the end of its grants moved {count}"
        case Sweep():
            return "done"
        case _:
            assert_never(event)
