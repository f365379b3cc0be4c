"""Break-glass grants as rules (protocol, section 7): when one is live, what it covers, and what its end takes back.

A grant is a named permission for one path to act alone, in one epoch, until a moment. Three things follow from the
rules and hold everywhere below: a dead grant vetoes nothing, a divergence beats every grant, and at the very instant
of `expires_at` it is over for good.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.protocol.policies import DAY_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fencing.protocol.fence import Rules

PENDING_S = 15 * 60  # G6: a pending grant is over after 15 minutes
REVIEW_S = 24 * 3600  # G6: a grant that was live at once is reviewed by another person within 24 hours
REASON_LENGTH = 10  # G1: visible characters of a reason
MAX_USES = 100
MAX_TOLD = 20  # names that a refusal tells
FROZEN = "frozen"  # L10: why a grant is void that a freeze ended; its commits are revoked as in G5


class State(StrEnum):
    """Where a grant is in its life. `pending`, `live` and `expired` follow from the clock, the others were written."""

    PENDING = "pending"
    LIVE = "live"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"
    VOID = "void"


OVER = frozenset({State.USED_UP, State.EXPIRED, State.REVOKED, State.VOID})

# G2, G5, G6, R3, R4: from → to, and what moves it.
TRANSITIONS = MappingProxyType(
    {
        State.PENDING: MappingProxyType(
            {State.LIVE: "approved", State.EXPIRED: "clock", State.REVOKED: "revoked", State.VOID: "voided"}
        ),
        State.LIVE: MappingProxyType(
            {State.USED_UP: "used", State.EXPIRED: "clock", State.REVOKED: "revoked", State.VOID: "voided"}
        ),
        State.USED_UP: MappingProxyType({State.REVOKED: "revoked", State.VOID: "voided"}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A grant as facts. `approvals` counts second persons; `approvals_needed` is None where a vote tells the tool.

    `void_reason` says what ended it where `voided_at` stands; `review_due_at` is None where it owes no review.
    """

    name: str
    epoch: int
    step: str | None
    tool: str | None
    path: str
    digest: str | None
    max_uses: int
    uses: int
    ttl_s: int
    approvals: int
    approvals_needed: int | None
    pending_until: datetime | None
    expires_at: datetime | None
    expired_at: datetime | None = None
    revoked_at: datetime | None = None
    voided_at: datetime | None = None
    void_reason: str = ""
    review_due_at: datetime | None = None
    reviewed_at: datetime | None = None


def state_of(grant: Grant, now: datetime) -> State:
    """Tell the state of a grant at a moment of the database's clock (G2)."""
    if grant.revoked_at is not None:
        return State.REVOKED
    if grant.voided_at is not None:
        return State.VOID
    if grant.uses >= grant.max_uses:
        return State.USED_UP
    end = grant.expires_at if grant.expires_at is not None else grant.pending_until
    if grant.expired_at is not None or (end is not None and now >= end):
        return State.EXPIRED
    return State.LIVE if grant.expires_at is not None else State.PENDING


def ended_as(grant: Grant, now: datetime) -> str | None:
    """Tell why a commit that rests on this grant alone loses its authority, or None while it keeps it (G5, R3).

    A used-up grant has not ended: what it let through stands until its time is over.
    """
    if grant.revoked_at is not None:
        return "grant_revoked"
    if grant.voided_at is not None:
        return "grant_revoked" if grant.void_reason == FROZEN else "epoch_closed"
    if grant.expired_at is not None or grant.expires_at is None or now >= grant.expires_at:
        return "grant_expired"
    return None


def why_not_covering(
    grant: Grant, *, step: str, epoch: int, path: str, digest: str, tool: str, rules: Rules, now: datetime
) -> str | None:
    """Say in words why a grant does not cover one path's vote, or None if it does (G1, G2, F3 row 3)."""
    state = state_of(grant, now)
    if state is not State.LIVE:
        return f"it is {state.value.replace('_', ' ')}"
    if grant.epoch != epoch:
        return f"it is for epoch {grant.epoch}"
    if grant.step not in (None, step):
        return f"it is for step {grant.step}"
    if grant.tool not in (None, tool):
        return f"it is for tool {grant.tool}"
    if grant.path != path:
        return f"it lets {grant.path} act, not {path}"
    if grant.digest not in (None, digest):
        return "it is pinned to another digest"
    if grant.digest is None and path != rules.trusted_path:
        return "a path that is not trusted acts alone only with its exact digest"
    if path not in rules.required_paths:
        return f"{path} is no path of this tool"
    if grant.approvals < rules.grant_approvals - 1:
        return f"the tool asks for {rules.grant_approvals} approvals"
    if grant.ttl_s > rules.max_grant_ttl_s:
        return f"the tool allows grants of {rules.max_grant_ttl_s} s at most"
    return None


def overlaps(one: Grant, other: Grant) -> bool:
    """Tell whether two grants of one run could cover the same vote (G4, `grant_exists`)."""
    return (
        one.epoch == other.epoch
        and one.path == other.path
        and (one.step is None or other.step is None or one.step == other.step)
        and (one.tool is None or other.tool is None or one.tool == other.tool)
    )


def check_form(grant: Grant, *, reason: str, rules: Rules | None) -> Refusal | None:
    """Judge the form and the scope of what is asked for (G1, G4): 422, before anything about the state of things.

    `rules` are those of the grant's tool, None for a grant by step alone (a vote will tell the tool).
    """
    if visible_length(reason) < REASON_LENGTH:
        return Refusal(
            code=Code.REASON_REQUIRED,
            detail=f"Say why in your own words, with {REASON_LENGTH} visible characters or more.",
            pointer="/reason",
        )
    if grant.step is None and grant.tool is None:
        return _beyond("A grant names a step or a tool: there is none for a whole run.", "/tool")
    if grant.max_uses > MAX_USES:
        return _beyond(f"A grant has {MAX_USES} uses at most.", "/max_uses")
    if grant.ttl_s > DAY_S:
        return _beyond(f"No tool allows grants of more than {DAY_S} s.", "/ttl_s")
    trusted = rules.trusted_path if rules else "production"
    if grant.path != trusted and grant.digest is None:
        return _beyond(
            f"{grant.path} is a witness: it may act alone only with the exact digest that it may commit.", "/digest"
        )
    if rules is None:
        return None
    if grant.path not in rules.required_paths:
        return _beyond(f"{grant.path} is no path of {grant.tool}.", "/path")
    if grant.ttl_s > rules.max_grant_ttl_s:
        return _beyond(f"{grant.tool} allows grants of {rules.max_grant_ttl_s} s at most.", "/ttl_s")
    return None


def check_overlap(grant: Grant, others: Iterable[Grant], now: datetime) -> Refusal | None:
    """Refuse a grant that shares a step and tool with a live or pending one of the same run, epoch and path (G4)."""
    for other in others:
        if overlaps(grant, other) and state_of(other, now) not in OVER:
            detail = f"{other.name} is {state_of(other, now).value} for the same scope: revoke it, or use it."
            return Refusal(code=Code.GRANT_EXISTS, detail=detail, extras={"grant": other.name})
    return None


def issued(grant: Grant, now: datetime) -> Grant:
    """Give the grant as it begins: live at once and owing a review, or pending until a second person approves (G6)."""
    if grant.approvals_needed:
        return replace(grant, pending_until=now + timedelta(seconds=PENDING_S))
    ends, due = now + timedelta(seconds=grant.ttl_s), now + timedelta(seconds=REVIEW_S)
    return replace(grant, expires_at=ends, review_due_at=due)


def check_approval(grant: Grant, *, by_issuer: bool, now: datetime) -> Refusal | None:
    """Refuse an approval by the issuer, or of a grant that takes no more (G6).

    A grant by step alone is live at once, and takes approvals that the tool, told by a vote, may ask for (G1).
    """
    if by_issuer:
        return Refusal(code=Code.OWN_GRANT, detail="A second person approves, never the issuer.")
    state = state_of(grant, now)
    if state is State.PENDING or (state is State.LIVE and grant.approvals_needed is None):
        return None
    return Refusal(code=Code.ALREADY_DECIDED, detail=f"The grant is {state.value}.")


def approved(grant: Grant, now: datetime) -> Grant:
    """Give the grant with one more approval; the clock of its life starts with the last one that is needed (G6)."""
    approvals = grant.approvals + 1
    is_enough = grant.approvals_needed is not None and approvals >= grant.approvals_needed
    starts = grant.expires_at is None and is_enough
    expires_at = now + timedelta(seconds=grant.ttl_s) if starts else grant.expires_at
    return replace(grant, approvals=approvals, expires_at=expires_at)


def check_revocation(grant: Grant, now: datetime) -> Refusal | None:
    """Refuse to revoke what is over already; a used-up grant may be revoked (G5)."""
    state = state_of(grant, now)
    if state in (State.VOID, State.EXPIRED):
        detail = f"The grant is {state.value}: there is nothing left of it to revoke."
        return Refusal(code=Code.ALREADY_DECIDED, detail=detail)
    return None


def is_voided_by(grant: Grant, *, number: int, step: str | None, now: datetime) -> bool:
    """Tell whether opening the epoch `number` ends this live or pending grant (R3), or opening it for one step (R4)."""
    is_reached = grant.epoch < number and (step is None or grant.step == step)
    return is_reached and state_of(grant, now) in (State.LIVE, State.PENDING)


def is_review_overdue(grant: Grant, now: datetime) -> bool:
    """Tell whether the 24 hours have passed without another person's review (G6)."""
    return grant.reviewed_at is None and grant.review_due_at is not None and now >= grant.review_due_at


def check_debts(overdue: Iterable[str]) -> Refusal | None:
    """Refuse a further grant to an issuer who owes an overdue review (G6). `overdue` names the grants that wait."""
    names = sorted(overdue)
    if not names:
        return None
    told = ", ".join(names[:MAX_TOLD]) + (f" and {len(names) - MAX_TOLD} more" if len(names) > MAX_TOLD else "")
    detail = f"A review by another person is overdue for {told}: until then you issue no further grant."
    return Refusal(code=Code.REVIEW_OVERDUE, detail=detail, extras={"grants": names[:MAX_TOLD]})


def check_review(
    grant: Grant, *, by_issuer: bool, went_live: bool, earlier: tuple[str, datetime] | None = None
) -> Refusal | None:
    """Refuse a review by the issuer, a second one, and one of what never let anything through (G6).

    `earlier` tells by whom and when it was reviewed before.
    """
    if by_issuer:
        return Refusal(code=Code.OWN_GRANT, detail="Another person reviews, never the issuer.")
    if not went_live:
        detail = "It never went live: there is nothing to review. Approve it, or revoke it."
        return Refusal(code=Code.ALREADY_DECIDED, detail=detail)
    if earlier is not None or grant.reviewed_at is not None:
        by, at = earlier or ("Another person", grant.reviewed_at)
        extras = {"decided_by": by, "decided_at": rfc3339(at)}
        return Refusal(code=Code.ALREADY_DECIDED, detail=f"{by} reviewed it already.", extras=extras)
    return None


def check_readable(reason: str) -> Refusal | None:
    """Refuse a reason in which nothing can be read."""
    if visible_length(reason) > 0:
        return None
    return Refusal(code=Code.REASON_REQUIRED, detail="Say why, in words that can be read.", pointer="/reason")


def is_voided_by_freeze(grant: Grant, *, tool: str | None, tool_of_step: str | None, now: datetime) -> bool:
    """Tell whether a freeze of `tool` (None: of every tool) in its run ends this grant (L10).

    A grant by step alone is about `tool_of_step`, once anybody told it: until then it is of no tool's scope, and the
    fencer asks again when a vote told it. A used-up grant ends, too: what it let through may not have left yet. What
    the clock has ended is over already.
    """
    is_reached = tool in (None, grant.tool or tool_of_step)
    is_over = grant.expired_at is not None or (grant.expires_at is not None and now >= grant.expires_at)
    return is_reached and not is_over and state_of(grant, now) in (State.LIVE, State.PENDING, State.USED_UP)


def has_run_out(grant: Grant, now: datetime) -> bool:
    """Tell whether its time is over and nobody wrote it down: a clock that steps back must revive nothing (G2, G6)."""
    end = grant.expires_at if grant.expires_at is not None else grant.pending_until
    is_ended = grant.expired_at is not None or grant.revoked_at is not None or grant.voided_at is not None
    return end is not None and now >= end and not is_ended


def visible_length(text: str) -> int:
    """Count the characters that a reader sees: no space, no control, format or unassigned character, no filler."""
    fillers = "\u115f\u1160\u3164\uffa0\u2800"  # letters by their class, blank on paper
    return sum(1 for each in text if unicodedata.category(each)[0] not in "CZ" and each not in fillers)


def version_of(body: Mapping[str, Any]) -> str:
    """What a person saw of a grant's object, in short: whoever decides by an older sight is told that it changed."""
    is_reviewed = "reviewed" if body["review"] is not None else "unreviewed"
    return f"{body['state']}.{body['uses']}.{len(body['approvals'])}.{is_reviewed}"


def check_seen(seen: str | None, body: Mapping[str, Any]) -> Refusal | None:
    """Refuse an act on a grant that is not what the person saw; None where they named no sight."""
    if seen is None or seen == version_of(body):
        return None
    detail = "The grant changed since you looked: read it again, then decide."
    return Refusal(code=Code.CHANGED, detail=detail, extras={"state": body["state"]})


def _beyond(detail: str, pointer: str) -> Refusal:
    return Refusal(code=Code.BEYOND_POLICY, detail=detail, pointer=pointer)
