"""Grants in words: what one lets through, and why it did not help a step."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from fencing.protocol import fence
from fencing.protocol.explain.wording import (
    Part,
    Sentence,
    Tone,
    clock,
    code,
    duration,
    listed,
    name,
    parts,
    quote,
    strong,
    times,
    until,
)
from fencing.protocol.freezes import scope_in_words
from fencing.protocol.grants import FROZEN, Grant, State, state_of, why_not_covering
from fencing.protocol.policies import DAY_S

if TYPE_CHECKING:
    from fencing.protocol.explain.stories import Story


def explain_grant(grant: Grant, *, now: datetime) -> Sentence:
    """Say what a grant is: what it lets through and until when, or why it lets nothing through any more."""
    state = state_of(grant, now)
    tone, rest = _told(grant, state, now)
    return Sentence(tone=tone, head=parts(strong(state.value.replace("_", " ").capitalize())), rest=rest)


def _told(grant: Grant, state: State, now: datetime) -> tuple[Tone, tuple[Part, ...]]:
    used = f"used {grant.uses} of {grant.max_uses}"
    end = grant.expires_at or grant.pending_until or now
    match state:
        case State.PENDING:
            would = scope(grant, "would let")
            return Tone.WAITING, parts(would, f", as soon as a second person approves it before {until(end, now)}.")
        case State.LIVE:
            return Tone.WAITING, parts(scope(grant, "lets"), f", until {until(end, now)}; {used}.")
        case State.USED_UP:
            stands = f" What it let through needs it until {clock(end, now)}." if end > now else ""
            return Tone.NEUTRAL, parts(scope(grant, "let"), f", and every use is taken ({used}).{stands}")
        case State.EXPIRED:
            what = "was not approved before" if grant.expires_at is None else "is over since"
            return Tone.NEUTRAL, parts(name(grant.name), f" {what} {clock(end, now)} ({used}). ", NOTHING)
        case State.REVOKED:
            at = grant.revoked_at or now
            return Tone.REFUSED, parts(name(grant.name), f" was revoked at {clock(at, now)} ({used}). ", NOTHING)
        case State.VOID:
            at = grant.voided_at or now
            by = "was ended by a freeze" if grant.void_reason == FROZEN else "ended with its epoch or its step's replay"
            ended = f" {by} at {clock(at, now)} ({used}). "
            return Tone.NEUTRAL, parts(name(grant.name), ended, NOTHING)
        case _:
            assert_never(state)


NOTHING = "It lets nothing through, and stands in nobody's way."


def scope(grant: Grant, lets: str) -> tuple[Part, ...]:
    """Say what a grant covers: "x lets production alone commit refund in epoch 7, twice"."""
    what = parts(code(grant.tool)) if grant.tool else parts("any tool")
    step = parts(" on step ", name(grant.step)) if grant.step else ()
    pinned = ", with one exact digest" if grant.digest else ""
    uses = f" in epoch {grant.epoch}, {times(grant.max_uses)}"
    return parts(name(grant.name), f" {lets} ", name(grant.path), " alone commit ", what, step, pinned, uses)


def explain_wanted(grant: Grant, *, run: str, now: datetime) -> Sentence:
    """Say what a grant that is not there yet would let through: its form may be filled in by half."""
    if grant.step is None and grant.tool is None:
        head = parts("Lets ", name(grant.path), " alone commit ", strong("nothing"), " yet")
        return Sentence(tone=Tone.NEUTRAL, head=head, rest=parts("name a step, or a tool, or both."))
    what = code(grant.tool) if grant.tool else "whatever it asks for"
    named = parts(" on step ", name(grant.step)) if grant.step else ()
    pinned = ", with one exact digest," if grant.digest else ""
    where = parts(" in ", name(run), f", epoch {grant.epoch}, {times(grant.max_uses)}")
    life = timedelta(seconds=min(grant.ttl_s, DAY_S))
    is_shared = bool(grant.approvals_needed)
    ends = f"for {duration(life)} from a second person's approval" if is_shared else f"until {until(now + life, now)}"
    head = parts("Lets ", name(grant.path), " alone commit ", what, named, pinned, where, f", {ends}")
    return Sentence(tone=Tone.WAITING, head=head)


def explain_freeze(
    *,
    tool: str | None,
    run: str | None,
    by: str,
    at: datetime,
    reason: str,
    lifted: tuple[str, datetime] | None,
    now: datetime,
) -> Sentence:
    """Say what a freeze stops, who set it and why; or who lifted it and when (L10)."""
    what = scope_in_words(tool, run)
    verb = "is" if lifted is None else "was"
    head = parts(strong(f"{what[0].upper()}{what[1:]} {verb} frozen"))
    since = parts(name(by), f" set it at {clock(at, now)}: ", quote(reason), ". ")
    if lifted is None:
        stops = "Nothing of it is admitted, and no grant of it is live, until another person lifts it."
        return Sentence(tone=Tone.REFUSED, head=head, rest=parts(since, stops))
    return Sentence(
        tone=Tone.NEUTRAL, head=head, rest=parts(since, name(lifted[0]), f" lifted it at {clock(lifted[1], now)}.")
    )


def why_tried_in_vain(grant: Grant, story: Story) -> str | None:
    """Say why a grant did not let a step through, or None where it did or still could."""
    step = story.as_decided()
    paths, seen = fence.paths_for(step), fence.digests_on_record(step)
    if fence.divergence(step) is not None:
        return "a visible divergence beats every grant"
    if len(paths) != 1 or len(seen) != 1:
        return None
    (path,), (digest,) = paths, seen
    at = story.decided_at or story.now
    tool = fence.tool_of(step) or ""
    return why_not_covering(
        grant, step=step.step, epoch=step.epoch, path=path, digest=digest, tool=tool, rules=story.rules, now=at
    )


def explain_tried(grant: Grant, story: Story) -> Sentence:
    """Say of one grant what it did for a step."""
    if story.commit is not None and story.commit.grant is not None and story.commit.grant.name == grant.name:
        return Sentence(tone=Tone.GOOD, head=parts(name(grant.name), " is what it was committed under"))
    if story.step.phase is fence.Phase.FENCED and story.step.fenced_by == grant.name:
        return Sentence(tone=Tone.WAITING, head=parts(name(grant.name), " is what it is fenced under"))
    why = why_tried_in_vain(grant, story)
    if why is not None:
        return Sentence(tone=Tone.REFUSED, head=parts(name(grant.name), " did not help"), rest=parts(f"{why}."))
    paths = fence.paths_for(story.as_decided())
    if not paths:
        return Sentence(tone=Tone.NEUTRAL, head=parts(name(grant.name), " was not asked"), rest=parts("nobody voted."))
    voted = f"{listed(sorted(paths))} voted" if len(paths) > 1 else "it covers what was voted"
    return Sentence(tone=Tone.NEUTRAL, head=parts(name(grant.name), " was not needed"), rest=parts(f"{voted}."))
