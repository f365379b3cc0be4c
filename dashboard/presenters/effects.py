"""Effects, doubts, incidents and resources in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from dashboard.presenters.marks import Hue, Mark, Shape
from fencing.models import Breaker, Incident
from fencing.models.facts import lookup_of
from fencing.models.registry import current_registry
from fencing.protocol.explain import Sentence, explain_intent
from fencing.protocol.explain.effects import Effect
from fencing.protocol.intents import State
from fencing.protocol.masking import mask
from fencing.queries.effects import EffectTrace
from fencing.queries.resources import Resource
from fencing.queries.tries import Try

MAY_BE_OUT = frozenset({"", "unknown", "succeeded"})
MATCHES = MappingProxyType(
    {
        "intent": Mark(word="as committed", hue=Hue.GOOD, shape=Shape.FILLED),
        "compensation": Mark(word="an undoing", hue=Hue.NEUTRAL, shape=Shape.FILLED),
        "escape": Mark(word="landed escape", hue=Hue.DANGER, shape=Shape.TRIANGLE),
        "doubled": Mark(word="doubled", hue=Hue.DANGER, shape=Shape.TRIANGLE),
    }
)
KINDS = MappingProxyType(
    {
        "landed_escape": "The tool's ledger shows an effect that no commit stands behind.",
        "doubled": "The tool's ledger shows one effect twice.",
        "missing": "An effect succeeded, and a complete ledger of the tool does not show it.",
        "late_divergence": "A path voted otherwise after the effect had left.",
        "outcome_conflict": "What is told about one effect contradicts itself.",
        "lane_halted": "A lane of grades stopped itself.",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An effect's page: its sentence, and its action with what is sensitive masked."""

    sentence: Sentence
    action: Any


def told_of(trace: EffectTrace, now: datetime) -> Told:
    """Say what is known of an effect."""
    line = trace.line
    masked = None
    if trace.action is not None:
        masked = mask(trace.action, trace.definition.sensitive) if trace.definition else trace.action
    effect = Effect(
        state=State(line.state),
        tries=len(line.tries),
        may_be_out=sum(1 for each in line.tries if each.outcome in MAY_BE_OUT),
        left_at=line.tries[0].admitted_at if line.tries else None,
        settled_at=line.settled_at,
        action=masked,
        tools=lookup_of(current_registry()),
    )
    return Told(sentence=explain_intent(effect, now=now), action=masked)


def idempotency_key(tries: tuple[Try, ...]) -> str:
    """The key under which the tool knows it; every try has the same."""
    return tries[-1].idempotency_key if tries else ""


def doubts_sentence(count: int) -> tuple[str, str]:
    """Say how many effects wait for a person's word, with the colour of that."""
    if not count:
        return "Nothing is in doubt: of every effect it is known whether it happened.", "good"
    what = "One effect" if count == 1 else f"{count} effects"
    return f"{what} may have happened, and nobody knows: look where it would show, and say which.", "waiting"


def incidents_sentence(count: int, dangerous: int) -> tuple[str, str]:
    """Say how many incidents are open, with the colour of the worst."""
    if not count:
        return "No incident is open.", "good"
    what = "One incident is open" if count == 1 else f"{count} incidents are open"
    if not dangerous:
        return f"{what}; none is of an effect that should not be there.", "waiting"
    return f"{what}, {dangerous} of them of effects that should not be there.", "danger"


def incident_sentence(incident: Incident) -> str:
    """Say what an incident is."""
    return KINDS.get(incident.kind, incident.kind.replace("_", " "))


def breaker_words(breaker: Breaker) -> str:
    """Say why a tool is left alone."""
    if breaker.state == "probing":
        return "One call is trying whether it answers again."
    return f"It did not answer {breaker.faults} times in a row, and is left alone for a while."


def resource_sentence(found: Resource) -> tuple[str, str]:
    """Say who authorised what touched a resource: the first thing that one reads."""
    if not found.is_known:
        return "Nothing that is on record touches this.", "neutral"
    escapes = sum(1 for row in found.ledger if row.match == "escape" and row.is_open)
    if escapes:
        what = "One effect on it happened" if escapes == 1 else f"{escapes} effects on it happened"
        return f"{what} without authority: nobody said yet what becomes of that.", "danger"
    settled = [each for each in found.authorised if each.state == "succeeded"]
    if not settled:
        return "Nothing that was committed for it has happened yet.", "waiting"
    first = settled[0]
    by = {"agreement": "agreement of the paths", "grant": "a grant", "both": "a grant, and agreement after it"}
    return f"The last effect on it was authorised by {by.get(first.authority, first.authority)}.", "good"
