"""What became of an effect, in words: the end of a step's sentence, and the sentence of an intent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, assert_never

from fencing.protocol.actions import no_tools
from fencing.protocol.explain.wording import Part, Sentence, Tone, clock, described, parts, strong, times, uncapital
from fencing.protocol.intents import State

if TYPE_CHECKING:
    from fencing.protocol.actions import ToolLookup


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An intent as a sentence needs it.

    `tries` counts deliveries of any outcome, `may_be_out` those that are in flight, unknown or succeeded. `left_at` is
    when the first of them was admitted, `settled_at` when the outcome was recorded. `action` is the parsed action.
    """

    state: State
    tries: int = 0
    may_be_out: int = 0
    left_at: datetime | None = None
    settled_at: datetime | None = None
    action: Any = None
    tools: ToolLookup = no_tools


TONES = {
    State.HELD: Tone.WAITING,
    State.READY: Tone.WAITING,
    State.IN_FLIGHT: Tone.WAITING,
    State.SUCCEEDED: Tone.GOOD,
    State.FAILED: Tone.REFUSED,
    State.IN_DOUBT: Tone.WAITING,
    State.CANCELLED: Tone.NEUTRAL,
}


def explain_intent(effect: Effect, *, now: datetime) -> Sentence:
    """Say what is known of an effect."""
    action = parts(". It is ", described(effect.action, effect.tools), ".") if effect.action is not None else ()
    told = uncapital(effect_told(effect, now))
    rest = parts(told.removesuffix("."), action) if action else parts(told)
    return Sentence(tone=TONES[effect.state], head=_head(effect.state), rest=rest)


def _head(state: State) -> tuple[Part, ...]:
    match state:
        case State.HELD:
            words = "Held"
        case State.READY:
            words = "Ready"
        case State.IN_FLIGHT:
            words = "In flight"
        case State.SUCCEEDED:
            words = "Succeeded"
        case State.FAILED:
            words = "Failed"
        case State.IN_DOUBT:
            words = "In doubt"
        case State.CANCELLED:
            words = "Cancelled"
        case _:
            assert_never(state)
    return (strong(words),)


def effect_told(effect: Effect, now: datetime) -> str:
    """Say in one sentence what became of an effect."""
    match effect.state:
        case State.HELD:
            return "Nothing has left: no step that wants it may act yet."
        case State.READY:
            return _ready(effect, now)
        case State.IN_FLIGHT:
            return f"The effect left{_at(effect.left_at, now)}, and its outcome is not known yet."
        case State.SUCCEEDED:
            return _succeeded(effect, now)
        case State.FAILED:
            return f"The effect was tried {times(max(effect.tries, 1))} and definitely failed: nothing is out."
        case State.IN_DOUBT:
            return f"It may have left{_at(effect.left_at, now)}, and nobody knows: a person must say what happened."
        case State.CANCELLED:
            return "Nothing has left, and no step wants it any more."
        case _:
            assert_never(effect.state)


def _ready(effect: Effect, now: datetime) -> str:
    if effect.may_be_out:
        return f"It may have left{_at(effect.left_at, now)}; nobody knows yet, and it is tried again with the same key."
    if effect.tries:
        return f"It was tried {times(effect.tries)} without anything being done, and is tried again."
    return "Nothing has left yet: it waits for its gateway."


def _succeeded(effect: Effect, now: datetime) -> str:
    if effect.tries > 1:
        since = "" if effect.left_at is None else f", from {clock(effect.left_at, now)} on,"
        return f"The effect was tried {times(effect.tries)} with one key{since} and succeeded."
    return f"The effect left once{_comma(_at(effect.left_at, now))} and succeeded."


def _at(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else f" at {clock(moment, now)}"


def _comma(text: str) -> str:
    return f",{text}," if text else ""
