"""Status as colour, word and shape: one table for every kind of object, so that a state looks alike on each page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Hue(StrEnum):
    """The five colours of the product. `DANGER` is kept for what left and should not have."""

    NEUTRAL = "neutral"
    GOOD = "good"
    WAITING = "waiting"
    REFUSED = "refused"
    DANGER = "danger"


class Shape(StrEnum):
    """The outline that tells a state to those who see no colour."""

    DOTTED = "dotted"
    HOLLOW = "hollow"
    HALF = "half"
    RING = "ring"
    FILLED = "filled"
    BARRED = "barred"
    CROSSED = "crossed"
    SQUARE = "square"
    TRIANGLE = "triangle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A state as it is drawn: its word, its colour and its shape."""

    word: str
    hue: Hue
    shape: Shape


def _mark(word: str, hue: Hue, shape: Shape) -> Mark:
    return Mark(word=word, hue=hue, shape=shape)


_STEP = {
    "idle": _mark("idle", Hue.NEUTRAL, Shape.DOTTED),
    "proposed": _mark("proposed", Hue.WAITING, Shape.HOLLOW),
    "agreed": _mark("agreed", Hue.WAITING, Shape.RING),
    "fenced": _mark("fenced", Hue.WAITING, Shape.HALF),
    "committed": _mark("committed", Hue.GOOD, Shape.FILLED),
    "rejected": _mark("rejected", Hue.REFUSED, Shape.BARRED),
    "exempt": _mark("exempt", Hue.NEUTRAL, Shape.SQUARE),
}
_INTENT = {
    "held": _mark("held", Hue.WAITING, Shape.HOLLOW),
    "ready": _mark("ready", Hue.WAITING, Shape.RING),
    "in_flight": _mark("in flight", Hue.WAITING, Shape.HALF),
    "succeeded": _mark("succeeded", Hue.GOOD, Shape.FILLED),
    "failed": _mark("failed", Hue.REFUSED, Shape.BARRED),
    "in_doubt": _mark("in doubt", Hue.WAITING, Shape.TRIANGLE),
    "cancelled": _mark("cancelled", Hue.NEUTRAL, Shape.CROSSED),
}
_OUTCOME = {
    "": _mark("no outcome yet", Hue.WAITING, Shape.HALF),
    "succeeded": _mark("succeeded", Hue.GOOD, Shape.FILLED),
    "failed": _mark("failed", Hue.REFUSED, Shape.BARRED),
    "unknown": _mark("unknown", Hue.WAITING, Shape.TRIANGLE),
    "busy": _mark("busy", Hue.NEUTRAL, Shape.HOLLOW),
    "not_sent": _mark("not sent", Hue.NEUTRAL, Shape.DOTTED),
    "not_happened": _mark("did not happen", Hue.NEUTRAL, Shape.CROSSED),
}
_GRANT = {
    "pending": _mark("pending", Hue.WAITING, Shape.HOLLOW),
    "live": _mark("live", Hue.WAITING, Shape.HALF),
    "used_up": _mark("used up", Hue.NEUTRAL, Shape.FILLED),
    "expired": _mark("expired", Hue.NEUTRAL, Shape.CROSSED),
    "revoked": _mark("revoked", Hue.REFUSED, Shape.BARRED),
    "void": _mark("void", Hue.NEUTRAL, Shape.CROSSED),
}
_CLAIM = {
    "open": _mark("open", Hue.WAITING, Shape.HOLLOW),
    "won": _mark("won", Hue.GOOD, Shape.FILLED),
    "lost": _mark("lost", Hue.NEUTRAL, Shape.CROSSED),
}
_VOTE = {
    "waited_for": _mark("not voted yet", Hue.WAITING, Shape.DOTTED),
    "voted": _mark("voted", Hue.NEUTRAL, Shape.FILLED),
    "abstained": _mark("abstained", Hue.NEUTRAL, Shape.HOLLOW),
    "late": _mark("voted late", Hue.NEUTRAL, Shape.RING),
    "differs": _mark("differs", Hue.REFUSED, Shape.BARRED),
}
_INCIDENT = {
    "landed_escape": _mark("landed escape", Hue.DANGER, Shape.TRIANGLE),
    "doubled": _mark("doubled effect", Hue.DANGER, Shape.TRIANGLE),
    "late_divergence": _mark("late divergence", Hue.WAITING, Shape.TRIANGLE),
    "missing": _mark("missing effect", Hue.WAITING, Shape.TRIANGLE),
    "outcome_conflict": _mark("outcome conflict", Hue.WAITING, Shape.TRIANGLE),
    "lane_halted": _mark("lane halted", Hue.REFUSED, Shape.TRIANGLE),
    "resolved": _mark("resolved", Hue.NEUTRAL, Shape.FILLED),
}
_COMPENSATION = {
    "proposed": _mark("proposed", Hue.WAITING, Shape.HOLLOW),
    "held": _mark("held", Hue.WAITING, Shape.RING),
    "approved": _mark("approved", Hue.WAITING, Shape.RING),
    "in_flight": _mark("in flight", Hue.WAITING, Shape.HALF),
    "done": _mark("done", Hue.GOOD, Shape.FILLED),
    "in_doubt": _mark("in doubt", Hue.WAITING, Shape.TRIANGLE),
    "waived": _mark("waived", Hue.NEUTRAL, Shape.CROSSED),
    "withdrawn": _mark("withdrawn", Hue.NEUTRAL, Shape.CROSSED),
}
_BRANCH = {
    "undecided": _mark("undecided", Hue.WAITING, Shape.HOLLOW),
    "won": _mark("won", Hue.GOOD, Shape.FILLED),
    "lost": _mark("lost", Hue.NEUTRAL, Shape.CROSSED),
}
_TOOL = {
    "fenced": _mark("fenced", Hue.GOOD, Shape.FILLED),
    "read_only": _mark("read-only", Hue.WAITING, Shape.SQUARE),
}
_TOOL_CHANGE = {
    "pending": _mark("waits", Hue.WAITING, Shape.HOLLOW),
    "stale": _mark("out of date", Hue.REFUSED, Shape.BARRED),
    "approved": _mark("approved", Hue.GOOD, Shape.FILLED),
    "refused": _mark("refused", Hue.REFUSED, Shape.BARRED),
    "withdrawn": _mark("withdrawn", Hue.NEUTRAL, Shape.CROSSED),
    "expired": _mark("expired", Hue.NEUTRAL, Shape.CROSSED),
}
_CHECK = {
    "holds": _mark("holds", Hue.GOOD, Shape.FILLED),
    "broken": _mark("broken", Hue.DANGER, Shape.TRIANGLE),
    "no_data": _mark("no data", Hue.NEUTRAL, Shape.DOTTED),
    "refused": _mark("refused", Hue.REFUSED, Shape.BARRED),
}
_KEY = {
    "live": _mark("live", Hue.GOOD, Shape.FILLED),
    "ended": _mark("ended", Hue.NEUTRAL, Shape.CROSSED),
    "revoked": _mark("revoked", Hue.REFUSED, Shape.BARRED),
}
_PERSON = {
    "active": _mark("active", Hue.GOOD, Shape.FILLED),
    "waiting": _mark("has set no password yet", Hue.WAITING, Shape.HOLLOW),
    "locked": _mark("locked for a while", Hue.WAITING, Shape.HALF),
    "deactivated": _mark("deactivated", Hue.NEUTRAL, Shape.CROSSED),
}
_SIDE_LOG = {
    "attempted_escape": _mark("attempted escape", Hue.REFUSED, Shape.BARRED),
    "stale_reject": _mark("stale", Hue.NEUTRAL, Shape.CROSSED),
    "refusal": _mark("refused", Hue.REFUSED, Shape.HOLLOW),
    "heard": _mark("heard, nothing moved", Hue.NEUTRAL, Shape.RING),
}
_NOTICE = {
    "gathering": _mark("gathering", Hue.NEUTRAL, Shape.DOTTED),
    "told": _mark("not seen yet", Hue.WAITING, Shape.HOLLOW),
    "seen": _mark("seen", Hue.GOOD, Shape.FILLED),
    "over": _mark("over", Hue.NEUTRAL, Shape.CROSSED),
}
_TELLING = {
    "shown": _mark("on their page", Hue.NEUTRAL, Shape.RING),
    "waiting": _mark("waits", Hue.WAITING, Shape.HOLLOW),
    "sent": _mark("sent", Hue.GOOD, Shape.FILLED),
    "failed": _mark("given up", Hue.REFUSED, Shape.BARRED),
    "withdrawn": _mark("not sent any more", Hue.NEUTRAL, Shape.CROSSED),
}
_TARGET = {
    "works": _mark("works", Hue.GOOD, Shape.FILLED),
    "failing": _mark("fails", Hue.REFUSED, Shape.BARRED),
    "untried": _mark("not tried yet", Hue.NEUTRAL, Shape.DOTTED),
}
_PART = {
    "well": _mark("well", Hue.GOOD, Shape.FILLED),
    "slow": _mark("behind", Hue.WAITING, Shape.HALF),
    "away": _mark("away", Hue.REFUSED, Shape.BARRED),
}
_GATE = {
    "pass": _mark("pass", Hue.GOOD, Shape.FILLED),
    "halt": _mark("halt", Hue.REFUSED, Shape.BARRED),
    "wait": _mark("wait", Hue.WAITING, Shape.HOLLOW),
}
_ATTEMPT = {
    "open": _mark("open", Hue.WAITING, Shape.HOLLOW),
    "published": _mark("published", Hue.GOOD, Shape.FILLED),
}
_LANE = {
    "running": _mark("running", Hue.GOOD, Shape.FILLED),
    "halted": _mark("halted", Hue.REFUSED, Shape.TRIANGLE),
    "resumed": _mark("resumed", Hue.NEUTRAL, Shape.RING),
}
_SPEND = {
    "live": _mark("live", Hue.GOOD, Shape.FILLED),
    "wasted": _mark("wasted", Hue.WAITING, Shape.HOLLOW),
    "zombie": _mark("zombie", Hue.REFUSED, Shape.CROSSED),
}
KINDS: Final = MappingProxyType(
    {
        "notice": _NOTICE,
        "telling": _TELLING,
        "target": _TARGET,
        "part": _PART,
        "side_log": _SIDE_LOG,
        "key": _KEY,
        "person": _PERSON,
        "step": _STEP,
        "intent": _INTENT,
        "outcome": _OUTCOME,
        "grant": _GRANT,
        "claim": _CLAIM,
        "vote": _VOTE,
        "incident": _INCIDENT,
        "branch": _BRANCH,
        "compensation": _COMPENSATION,
        "tool": _TOOL,
        "tool_change": _TOOL_CHANGE,
        "check": _CHECK,
        "gate": _GATE,
        "attempt": _ATTEMPT,
        "lane": _LANE,
        "spend": _SPEND,
    }
)


def mark_of(kind: str, state: str | None) -> Mark:
    """Give the mark of a state (`step`, `committed`). One that the table lacks is neutral, dotted and named as it is.

    Raises:
        KeyError: there is no such kind of object.
    """
    known = KINDS[kind].get(state or "")
    return known or _mark((state or "unknown").replace("_", " "), Hue.NEUTRAL, Shape.DOTTED)
