"""Grants as rows of lists and as one object with its trail, from what the queries read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from dashboard.presenters.marks import Hue, Mark, Shape, mark_of
from dashboard.presenters.numbers import plural
from dashboard.presenters.previews import own_words
from dashboard.presenters.timelines import Event, Timeline, timeline
from fencing.protocol import grants
from fencing.protocol.callers import SYSTEM
from fencing.protocol.explain import Sentence, explain_grant
from fencing.protocol.explain.wording import Part
from fencing.queries.grants import GrantLine
from fencing.queries.trails import EffectRef, Entry, StepRef, Trail, What

StepUrl = Callable[[str, str, int | None], str]
LONGEST_REASON: Final = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A grant in a list. `ends_at` is the end of its life, or of the wait for a second person."""

    name: str
    state: str
    scope: tuple[Part, ...]
    run: str
    uses: int
    max_uses: int
    ends_at: datetime | None
    lasts_s: int
    issuer: str
    reason: str
    issued_at: datetime
    debt: str
    debt_at: datetime | None
    is_overdue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UseLine:
    """A use of a grant: the step that it let through, and what became of the effect."""

    step: StepRef
    at: datetime
    effect: EffectRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """A use that was refused, or a vote that came too late, with its reason."""

    mark: Mark
    step: StepRef | None
    at: datetime
    by: str
    reason: str


def row_of(line: GrantLine) -> GrantRow:
    """Prepare a grant for a list."""
    facts, body = line.facts, line.body
    is_pending = facts.expires_at is None
    return GrantRow(
        name=body["name"],
        state=body["state"],
        scope=own_words(facts),
        run=body["run"],
        uses=facts.uses,
        max_uses=facts.max_uses,
        ends_at=facts.pending_until if is_pending else facts.expires_at,
        lasts_s=grants.PENDING_S if is_pending else facts.ttl_s,
        issuer=body["issuer"],
        reason=_short(body["reason"]),
        issued_at=line.issued_at,
        debt=_debt(line),
        debt_at=line.review.due_at,
        is_overdue=line.review.is_overdue,
    )


def _short(reason: str) -> str:
    """Cut a reason for a list; the whole of it stands on the grant's page."""
    return reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON].rstrip()}…"


def _debt(line: GrantLine) -> str:
    review = line.review
    if review.reviewed_at is not None:
        return f"reviewed by {review.reviewer}"
    if review.due_at is None:
        return ""
    return "review overdue" if review.is_overdue else "review owed"


def sentence_of(live: int, pending: int, overdue: int, owed: int) -> tuple[str, str]:
    """Say in one sentence who may act alone now; with its hue."""
    first = f"{plural(live, 'grant is', 'grants are')} live" if live else "No grant is live"
    parts = [f"{plural(pending, 'waits', 'wait')} for a second person"] if pending else []
    parts += [f"{plural(overdue, 'review is', 'reviews are')} overdue"] if overdue else []
    parts += [f"{plural(owed - overdue, 'review is', 'reviews are')} owed"] if owed > overdue else []
    told = f"{first}: {', '.join(parts)}." if parts else f"{first}. No approval and no review is open."
    return told, "waiting" if live or pending or owed else ""


def debts_sentence(owed: int, overdue: int, mine: Sequence[str]) -> tuple[str, str]:
    """Say in one sentence what is owed, and whether the reader is kept from issuing; with its hue."""
    if mine:
        verb = "is" if len(mine) == 1 else "are"
        told = f"{plural(len(mine), 'review')} of your own grants {verb} overdue"
        return f"You issue no further grant: {told}. Ask another person to give it.", "waiting"
    if not owed:
        return "No review is owed: every grant that went live by one person's word was looked at by another.", ""
    late = f", {overdue} of them overdue: who issued those gets no further grant" if overdue else ""
    return f"{plural(owed, 'review is', 'reviews are')} owed{late}.", "waiting"


def why_not_review(as_reviewer: str, as_oncall: str) -> str:
    """Say why a person cannot review in either role that may; empty where they can."""
    return as_reviewer and as_oncall and "This is for the groups reviewer and on-call; you are in neither."


def explained(trail: Trail) -> Sentence:
    """Give the sentence of a grant."""
    return explain_grant(trail.line.facts, now=trail.now)


def uses_of(trail: Trail) -> tuple[UseLine, ...]:
    """Give what a grant let through, in its order."""
    return tuple(
        UseLine(step=entry.step, at=entry.at, effect=entry.effect)
        for entry in trail.entries
        if entry.what is What.USED and entry.step is not None
    )


def refused_of(trail: Trail) -> tuple[RefusedLine, ...]:
    """Give what a grant did not let through although it was tried, with the reasons."""
    return tuple(
        RefusedLine(
            mark=_MARKS[entry.what], step=entry.step, at=entry.at, by=entry.by, reason=entry.reason
        )
        for entry in trail.entries
        if entry.what in _REFUSED
    )  # fmt: skip


def reached_of(trail: Trail) -> Entry | None:
    """Give the act that ended it, where it told what was stopped and what was out: a revocation or a freeze."""
    ends = [entry for entry in trail.entries if entry.what in (What.REVOKED, What.VOIDED)]
    return next((entry for entry in ends if entry.what is What.REVOKED or entry.stopped or entry.already_out), None)


def told_of(trail: Trail, step_url: StepUrl) -> Timeline:
    """Draw the whole trail of a grant."""
    return timeline([_event(entry, step_url) for entry in trail.entries], trail.now)


def _event(entry: Entry, step_url: StepUrl) -> Event:
    told = [f"step {entry.step.step}, epoch {entry.step.epoch}"] if entry.step is not None else []
    told += [f"effect {entry.effect.state.replace('_', ' ')}"] if entry.effect is not None else []
    if entry.what is What.REVOKED or entry.stopped or entry.already_out:
        told.append(f"stopped {len(entry.stopped)}, already out {len(entry.already_out)}")
    told += [f"by {entry.by}{_from(entry)}"] if entry.by else []
    href = "" if entry.step is None else step_url(entry.step.run, entry.step.step, entry.step.epoch)
    return Event(at=entry.at, mark=_MARKS[entry.what], text="; ".join(told), quoted=entry.reason, href=href)


def _from(entry: Entry) -> str:
    role = f" ({entry.role})" if entry.role and entry.role != SYSTEM.role.value else ""
    return f"{role} from {entry.source}" if entry.source else role


def facts_of(line: GrantLine) -> Mapping[str, str]:
    """Give what a form about a grant showed, for a conflict to lay beside what is new."""
    body = line.body
    return {
        "state": str(body["state"]).replace("_", " "),
        "uses": f"{body['uses']} of {body['max_uses']}",
        "approvals": str(len(body["approvals"])),
        "review": line.review.reviewer or "none yet",
    }


def states() -> Sequence[tuple[str, str]]:
    """Give the states that a list can be narrowed to: those that go on first, then how the others ended."""
    return [(state.value, state.value.replace("_", " ")) for state in grants.State]


def rows_of(lines: Iterable[GrantLine]) -> list[GrantRow]:
    """Prepare grants for a list."""
    return [row_of(line) for line in lines]


_REFUSED: Final = frozenset({What.REFUSED_USE, What.REFUSED_ACT, What.REFUSED_CALL, What.LATE_VOTE})
_MARKS: Final[Mapping[What, Mark]] = MappingProxyType(
    {
        What.ASKED: Mark(word="asked", hue=Hue.NEUTRAL, shape=Shape.HOLLOW),
        What.APPROVED: Mark(word="approved", hue=Hue.GOOD, shape=Shape.RING),
        What.LIVE: mark_of("grant", "live"),
        What.USED: Mark(word="used", hue=Hue.GOOD, shape=Shape.FILLED),
        What.REFUSED_USE: Mark(word="refused use", hue=Hue.REFUSED, shape=Shape.BARRED),
        What.REFUSED_ACT: Mark(word="refused act", hue=Hue.REFUSED, shape=Shape.BARRED),
        What.REFUSED_CALL: Mark(word="refused call", hue=Hue.REFUSED, shape=Shape.BARRED),
        What.LATE_VOTE: mark_of("vote", "late"),
        What.EXPIRED: mark_of("grant", "expired"),
        What.REVOKED: mark_of("grant", "revoked"),
        What.VOIDED: mark_of("grant", "void"),
        What.REVIEWED: Mark(word="reviewed", hue=Hue.GOOD, shape=Shape.SQUARE),
    }
)
