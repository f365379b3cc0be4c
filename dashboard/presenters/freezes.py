"""Freezes in words: what stands still, who stopped it, what that reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dashboard.presenters.marks import Hue, Mark, Shape
from dashboard.presenters.numbers import plural
from fencing.protocol.explain import Sentence, explain_freeze
from fencing.protocol.explain.wording import Part, code, name, parts, strong
from fencing.protocol.objects import rfc3339
from fencing.queries.freezes import Freeze

STANDING = Mark(word="frozen", hue=Hue.REFUSED, shape=Shape.SQUARE)
LIFTED = Mark(word="lifted", hue=Hue.NEUTRAL, shape=Shape.CROSSED)
EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeLine:
    """A freeze, ready for a row, a banner or its page."""

    freeze: Freeze
    mark: Mark
    scope: tuple[Part, ...]
    sentence: Sentence
    stopped: int
    out: int


def line_of(freeze: Freeze, now: datetime) -> FreezeLine:
    """Prepare a freeze."""
    return FreezeLine(
        freeze=freeze,
        mark=STANDING if freeze.lifted_at is None else LIFTED,
        scope=scope_of(freeze),
        sentence=sentence_of(freeze, now),
        stopped=len(freeze.stopped) + freeze.more.get("stopped", 0),
        out=len(freeze.already_out) + freeze.more.get("already_out", 0),
    )


def lines_of(freezes: Iterable[Freeze], now: datetime) -> list[FreezeLine]:
    """Prepare freezes for a list."""
    return [line_of(freeze, now) for freeze in freezes]


def scope_of(freeze: Freeze) -> tuple[Part, ...]:
    """Say what stands still: a tool, a run, a tool in a run, or everything."""
    tool = parts(code(freeze.tool)) if freeze.tool else ()
    run = parts("run ", name(freeze.run)) if freeze.run else ()
    if tool and run:
        return parts(tool, " in ", run)
    return tool or run or parts(strong(EVERYTHING))


def sentence_of(freeze: Freeze, now: datetime) -> Sentence:
    """Say what a freeze does, or did until it was lifted: the core's own words."""
    lifted = None if freeze.lifted_at is None else (freeze.lifted_by or "somebody", freeze.lifted_at)
    return explain_freeze(
        tool=freeze.tool, run=freeze.run, by=freeze.by, at=freeze.at, reason=freeze.reason, lifted=lifted, now=now
    )


def facts_of(freeze: Freeze) -> Mapping[str, str]:
    """Give what the form that lifts a freeze showed, for a conflict to lay beside what is new."""
    if freeze.lifted_at is None:
        return {"the freeze": "stands"}
    by, at = freeze.lifted_by or "somebody", rfc3339(freeze.lifted_at)
    return {"the freeze": f"lifted by {by} at {at}", "their reason": freeze.lift_reason}


def title_of(freeze: Freeze) -> str:
    """Name a freeze by what stands still."""
    return "Freeze of " + "".join(part.text for part in scope_of(freeze))


def list_sentence(standing: int) -> tuple[str, str]:
    """Say in one sentence whether anything stands still; with its hue."""
    if not standing:
        return "Nothing is frozen: what is committed is admitted.", ""
    return f"{plural(standing, 'freeze stands', 'freezes stand')}: nothing of that scope is admitted.", "refused"
