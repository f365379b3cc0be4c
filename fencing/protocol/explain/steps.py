"""The sentence of a step: where it is, why, what has left, and what happens next."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from fencing.protocol import fence
from fencing.protocol.explain.effects import TONES, Effect, effect_told
from fencing.protocol.explain.permits import why_tried_in_vain
from fencing.protocol.explain.stories import Story, paths
from fencing.protocol.explain.wording import (
    Part,
    Sentence,
    Tone,
    clock,
    code,
    duration,
    name,
    parts,
    strong,
    uncapital,
    until,
)
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import State

UNSENT = " No commit token exists, and nothing was sent."
STOPPED = " Its commit token is void, and nothing was sent."
MAX_NAMES = 3
SINGLE_PATH = frozenset(
    {Reason.DIVERGENCE, Reason.EQUIVOCATION, Reason.PROPOSAL_MISMATCH, Reason.TIMEOUT, Reason.PATH_UNAVAILABLE}
)
"""Rejections that a reader may think a grant should have prevented."""


def explain_step(story: Story) -> Sentence:
    """Say where a step is and why."""
    match story.step.phase:
        case Phase.IDLE:
            return _idle(story)
        case Phase.PROPOSED:
            return _waiting(story)
        case Phase.AGREED:
            return _agreed(story)
        case Phase.FENCED:
            return _fenced(story)
        case Phase.COMMITTED:
            return _committed(story)
        case Phase.REJECTED:
            return _rejected(story)
        case Phase.EXEMPT:
            rest = parts(code(fence.tool_of(story.step) or "the tool"), " only reads: it needs no vote and no token.")
            return Sentence(tone=Tone.NEUTRAL, head=parts(strong("Exempt")), rest=rest)
        case _:
            assert_never(story.step.phase)


def _idle(story: Story) -> Sentence:
    rest = f"a replay opened epoch {story.step.epoch} for this step, and nobody has proposed it there yet."
    return Sentence(tone=Tone.WAITING, head=parts(strong("Reopened")), rest=parts(rest))


def _waiting(story: Story) -> Sentence:
    """Who has not voted, since when, and what happens when."""
    step, missing = story.step, story.missing()
    head = parts(strong("Waiting"))
    if (decided := _next(story)) is not None:
        return Sentence(tone=Tone.WAITING, head=head, rest=parts(decided))
    if story.now >= step.deadline_at:
        over = f"{paths(missing)} did not vote before {clock(step.deadline_at, story.now)}"
        return Sentence(tone=Tone.WAITING, head=head, rest=parts(over, "; the fencer rejects the step next."))
    verb, they = ("has", "it does") if len(missing) == 1 else ("have", "they do")
    since = "" if story.proposed_at is None else f" for {duration(story.now - story.proposed_at)}"
    end = f"; the step is rejected at {until(step.deadline_at, story.now)} unless {they}."
    more = parts(story.abstentions(), _grants(story, "does not cover it"))
    return Sentence(tone=Tone.WAITING, head=head, rest=parts(f"{paths(missing)} {verb} not voted{since}", end, more))


def _next(story: Story) -> str | None:
    """What the fencer does next with votes that it has not looked at, where that is plain already."""
    if fence.divergence(story.step) is not None:
        return "the paths disagree; the fencer rejects the step next."
    return None if story.missing() else "every path has voted; the fencer decides next."


def _agreed(story: Story) -> Sentence:
    """Agreement that waits: for its payload (F5), or for its branch (B3)."""
    rules, voted = story.rules, paths(each.path for each in story.firsts())
    digest = next(iter(fence.digests_on_record(story.step)), "")
    has_payload = fence.payload_for(story.step, digest, fence.payload_paths(rules)) is not None
    if fence.divergence(story.step) is not None or (has_payload and story.step.gate.may_act):
        rest = _next(story) or "the fencer decides next."
        return Sentence(tone=Tone.WAITING, head=parts(strong("Agreed")), rest=parts(rest))
    if has_payload:
        rest = f"{voted} voted alike; it commits when its branch may act. Nothing can leave before."
        return Sentence(tone=Tone.WAITING, head=parts(strong("Agreed"), ", and held"), rest=parts(rest))
    who = rules.trusted_path if rules.has_advisory else "one of them"
    rest = f"{voted} voted the same digest; {who} must send its vote again with the action. Nothing can leave before."
    return Sentence(tone=Tone.WAITING, head=parts(strong("Agreed"), ", without the action"), rest=parts(rest))


def _fenced(story: Story) -> Sentence:
    """One path alone, in the window in which the others may still speak (F4)."""
    alone = paths(each.path for each in story.firsts())
    what = story.what(next((each.digest for each in story.firsts()), None))
    head = parts(strong("Fenced"), " under ", name(story.step.fenced_by or "a grant"))
    if (decided := _next(story)) is not None:
        return Sentence(tone=Tone.WAITING, head=head, rest=parts(decided))
    since = story.step.fenced_at or story.now
    ready_at = since + timedelta(seconds=story.rules.grace_s)
    missing = paths(story.missing())
    may = f"; until {until(ready_at, story.now)} {missing} may still agree or disagree, then it commits alone"
    wait = may if ready_at > story.now else f"; {missing} kept silent, and the fencer commits next"
    rest = parts(f"{alone} alone asked for ", what, f"{wait}, if the grant lives then. Nothing has left.")
    return Sentence(tone=Tone.WAITING, head=head, rest=rest)


# ---- committed ----


def _committed(story: Story) -> Sentence:
    if story.reason is Reason.EFFECT_FAILED:
        failed = parts(f"{uncapital(_left(story))} The step may be replayed, or proposed in a fresh epoch.")
        return Sentence(tone=Tone.REFUSED, head=parts("Committed, and its ", strong("effect failed")), rest=failed)
    tone = Tone.GOOD if story.effect is None else TONES[story.effect.state]
    if fence.divergence(story.step) is not None:
        tone = Tone.DANGER
    grant = None if story.commit is None else story.commit.grant
    if story.reason is Reason.GRANT and grant is not None:
        head = parts("Committed under a ", strong("grant"))
        rest = parts(name(grant.name), " let ", name(grant.path), " act alone on ", _bound(story))
        return Sentence(tone=tone, head=head, rest=parts(rest, ".", _witness(story), _late(story), f" {_left(story)}"))
    head = parts("Committed by ", strong("agreement"))
    voted = [each.path for each in story.firsts() if each.digest == _digest(story)]
    both = "both " if len(voted) == 2 else "all " if voted else ""  # noqa: PLR2004 - two are both
    gap = story.gap(_digest(story))
    apart = "" if gap is None else f", {duration(gap)} apart"
    rest = parts(f"{paths(voted)} {both}asked for ", _bound(story), f"{apart}.", _correlated(story))
    return Sentence(tone=tone, head=head, rest=parts(rest, _late(story), f" {_left(story)}"))


def _digest(story: Story) -> str | None:
    return None if story.commit is None else story.commit.digest


def _bound(story: Story) -> tuple[Part, ...]:
    return story.what(_digest(story))


def _correlated(story: Story) -> str:
    if not story.is_correlated:
        return ""
    return " They report the same model and the same prompt: this agreement is not independent."


def _witness(story: Story) -> str:
    """The paths that agreed after a grant had let one act alone (F7)."""
    grant = None if story.commit is None else story.commit.grant
    agreed = [
        each.path for each in story.firsts() if each.digest == _digest(story) and grant and each.path != grant.path
    ]
    if agreed:
        return f" {paths(agreed)} agreed afterwards."
    return f" {paths(story.missing())} had not voted." if story.missing() else ""


def _late(story: Story) -> tuple[Part, ...]:
    """Another digest after the commit, where the effect may be out already (F8)."""
    others = [each for each in story.heard if each.digest is not None and each.digest != _digest(story)]
    if not others:
        return ()
    told = " afterwards, when the effect could not be stopped any more. Nothing is undone by itself: a person decides."
    return parts(f" {others[0].path} asked for ", story.what(others[0].digest), told)


def _left(story: Story) -> str:
    return "Nothing has left yet." if story.effect is None else effect_told(story.effect, story.now)


# ---- rejected ----


def _rejected(story: Story) -> Sentence:
    head, rest = _why(story)
    if story.commit is None:
        helped = _grants(story, "did not help") if story.reason in SINGLE_PATH else ()
        return Sentence(tone=Tone.REFUSED, head=head, rest=parts(rest, UNSENT, helped))
    return Sentence(tone=Tone.REFUSED, head=head, rest=parts(rest, _stopped(story.effect)))


def _stopped(effect: Effect | None) -> str:
    """What a commit that was taken back left behind. Its intent may be another step's, or a report may contradict."""
    if effect is not None and effect.state is State.IN_DOUBT:
        return " Its commit token is void. Whether its effect left all the same, nobody knows: a person must say."
    if effect is not None and effect.may_be_out:
        return f" Its commit token is void. An effect with the same key left all the same: it is {effect.state.value}."
    return STOPPED


def _why(story: Story) -> tuple[tuple[Part, ...], tuple[Part, ...]]:  # noqa: PLR0912 - one case for each reason
    reason = story.reason
    match reason:
        case Reason.DIVERGENCE:
            return parts(strong("Rejected for divergence")), _wants(story)
        case Reason.EQUIVOCATION:
            return parts(strong("Rejected for equivocation")), _two_faced(story)
        case Reason.PROPOSAL_MISMATCH:
            return parts(strong("Rejected"), ", not what was proposed"), _mismatch(story)
        case Reason.UNKNOWN_TOOL | Reason.INVALID_ARGS:
            return parts(strong("Rejected"), ", can never be committed"), _unfit(story, reason)
        case Reason.KEY_CONFLICT:
            rest = "its invocation key already serves another action in this run, as a reused idempotency key would."
            return parts(strong("Rejected for its key")), parts(rest)
        case Reason.TIMEOUT:
            return parts(strong("Rejected by silence")), _silence(story)
        case Reason.PATH_UNAVAILABLE:
            return parts(strong("Rejected"), ", no path could answer"), parts(
                "every required path abstained.", story.abstentions()
            )
        case Reason.SUPERSEDED:
            rest = f"its planner restarted while it was undecided, and epoch {story.step.epoch} is closed."
            return parts(strong("Superseded")), parts(rest)
        case Reason.BRANCH_LOST:
            return parts(strong("Rejected"), " with its branch"), parts("the branch lost, or one that it lies in.")
        case Reason.LATE_DIVERGENCE:
            return parts(strong("Taken back"), " for a late divergence"), _late_divergence(story)
        case Reason.GRANT_REVOKED | Reason.GRANT_EXPIRED:
            return parts(strong("Taken back"), " with its grant"), _grant_ended(story, reason)
        case Reason.EPOCH_CLOSED:
            rest = f"epoch {story.step.epoch} was closed by a restart, and a grant alone had committed it."
            return parts(strong("Taken back"), " with its epoch"), parts(rest)
        case Reason.AGREEMENT | Reason.GRANT | Reason.READ_ONLY | Reason.EFFECT_FAILED | None:
            return parts(strong("Rejected")), parts("the reason is not on record.")
        case _:
            assert_never(reason)


def _wants(story: Story) -> tuple[Part, ...]:
    """What each path wanted, the trusted one first."""
    wanted = [parts(name(each.path), " wants ", story.what(each.digest)) for each in story.firsts()]
    told: list[str | tuple[Part, ...]] = []
    for number, each in enumerate(wanted):
        told += ["" if not number else ", " if number < len(wanted) - 1 else " and ", each]
    kind = "" if story.difference is None else f" ({story.difference.value.replace('_', ' ')})"
    return parts(*told, f"{kind}.")


def _two_faced(story: Story) -> tuple[Part, ...]:
    for path in sorted({each.path for each in story.heard}):
        said = story.said_by(path)
        if len(said) > 1:
            return parts(
                name(path),
                " asked for ",
                story.what(said[0].digest),
                ", and then for ",
                story.what(said[1].digest),
                ".",
            )
    return parts("one path voted two different things.")


def _mismatch(story: Story) -> tuple[Part, ...]:
    step, voted = story.step, story.firsts()
    pinned = story.what(step.pinned_digest) if step.pinned_digest else parts("a call of ", code(step.pinned_tool or ""))
    what = story.what(voted[0].digest) if voted else ()
    return parts("the planner pinned ", pinned, f", and {paths(each.path for each in voted)} asked for ", what, ".")


def _unfit(story: Story, reason: Reason) -> tuple[Part, ...]:
    tool = code(fence.tool_of(story.step) or "the tool")
    if reason is Reason.UNKNOWN_TOOL:
        return parts("no tool ", tool, " is registered.")
    return parts("the arguments do not fit the schema of ", tool, ".")


def _silence(story: Story) -> tuple[Part, ...]:
    missing = paths(story.missing())
    over = clock(story.step.deadline_at, story.now)
    return parts(f"{missing or 'a path'} had not voted when time was over at {over}.", story.abstentions())


def _late_divergence(story: Story) -> tuple[Part, ...]:
    others = [each for each in story.heard if each.digest is not None and each.digest != _digest(story)]
    if not others:
        return parts("another digest came after the commit.")
    return parts(
        "it was committed for ", _bound(story), f"; then {others[0].path} asked for ", story.what(others[0].digest), "."
    )


def _grant_ended(story: Story, reason: Reason) -> tuple[Part, ...]:
    grant = None if story.commit is None else story.commit.grant
    which = name(grant.name) if grant else parts("the grant")
    ended = "was revoked" if reason is Reason.GRANT_REVOKED else "ended"
    return parts(which, f" {ended} before the effect left, and was its only authority.")


def _grants(story: Story, verb: str) -> tuple[Part, ...]:
    """Why the grants that were there let nothing through."""
    by_why: dict[str, list[str]] = {}
    for grant in story.grants:
        if (why := why_tried_in_vain(grant, story)) is not None:
            by_why.setdefault(why, []).append(grant.name)
    return parts(*(_in_vain(names, verb, why) for why, names in by_why.items()))


def _in_vain(names: list[str], verb: str, why: str) -> tuple[Part, ...]:
    shown = parts(*(parts(", " if number else "", name(each)) for number, each in enumerate(names[:MAX_NAMES])))
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return parts(" The grant " if len(names) == 1 else " The grants ", shown, f"{more} {verb}: {why}.")
