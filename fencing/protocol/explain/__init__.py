"""The sentence that a person reads first, for each state of a step, a grant and an effect, and for each refusal.

Made from values, by the same words everywhere: the page, the API and the command line give what stands here.
"""

from __future__ import annotations

from fencing.protocol.admission import ESCAPES
from fencing.protocol.counting import ADMISSION, CountedAs, counted_as
from fencing.protocol.errors import Code
from fencing.protocol.explain.effects import Effect, explain_intent
from fencing.protocol.explain.permits import explain_freeze, explain_grant, explain_tried, explain_wanted
from fencing.protocol.explain.steps import explain_step
from fencing.protocol.explain.stories import Heard, Story
from fencing.protocol.explain.wording import Mark, Part, Sentence, Tone, parts, spelt, strong

__all__ = [
    "Effect",
    "Heard",
    "Mark",
    "Part",
    "Sentence",
    "Story",
    "Tone",
    "explain_freeze",
    "explain_grant",
    "explain_intent",
    "explain_refusal",
    "explain_side_log",
    "explain_step",
    "explain_tried",
    "explain_wanted",
]

WAITS = frozenset({Code.DELIVERY_IN_PROGRESS, Code.NOT_READY, Code.RATE_LIMITED, Code.UNAVAILABLE})
"""Refusals after which the same call may succeed by itself."""

MAX_DETAIL = 400


def explain_refusal(code: str, detail: str, *, is_admission: bool = False) -> Sentence:
    """Say what a refusal was, by its code and the detail that went with it (as the side log has both).

    A refused admission that was an attempted escape says so: nothing left, and somebody should ask why it was tried.
    """
    words = code.replace("_", " ")
    if is_admission and code in ESCAPES:
        head = parts("Attempted escape, refused as ", strong(words))
        return Sentence(tone=Tone.REFUSED, head=head, rest=parts(_detail(detail), " Nothing left."))
    if code in WAITS:
        return Sentence(tone=Tone.WAITING, head=parts("Not now, ", strong(words)), rest=parts(_detail(detail)))
    return Sentence(tone=Tone.REFUSED, head=parts("Refused, ", strong(words)), rest=parts(_detail(detail)))


def explain_side_log(kind: str, reason: str, detail: str) -> Sentence:
    """Say what a row of the side log tells: what was refused and why, or that it was heard and changed nothing."""
    if counted_as(kind, reason) is CountedAs.HEARD:
        head = parts("Heard, and nothing moved, ", strong(reason.replace("_", " ")))
        return Sentence(tone=Tone.NEUTRAL, head=head, rest=parts(_detail(detail)) if detail else ())
    if not detail:
        return Sentence(tone=Tone.REFUSED, head=parts("Refused, ", strong(reason.replace("_", " "))))
    return explain_refusal(reason, detail, is_admission=kind == ADMISSION)


def _detail(detail: str) -> str:
    return spelt(detail, MAX_DETAIL)
