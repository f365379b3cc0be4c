"""Faults to plant: each puts a plausible mistake in the place of one pure function of the core."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from fencing.protocol import admission, claims, epochs, fence, grants, intake, intents
from fencing.protocol.admission import Bound, Call
from fencing.protocol.epochs import RunEpochs
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Decision, Phase, Reason, Rules, Step, Vote
from fencing.protocol.grants import Grant, State
from fencing.protocol.intents import Intent, Kind, Recorded

Plant = Callable[[pytest.MonkeyPatch], None]


def overwritten_votes(patch: pytest.MonkeyPatch) -> None:
    """A path's second vote takes the place of its first."""

    def with_vote(step: Step, vote: Vote) -> Step:
        return replace(step, votes=(*(each for each in step.votes if each.path != vote.path), vote))

    patch.setattr(intake, "with_vote", with_vote)


def grant_that_beats_a_divergence(patch: pytest.MonkeyPatch) -> None:
    """A live grant decides for the trusted path, whatever the others want."""
    original = fence.decide

    def decide(step: Step, *, rules: Rules, grants: Iterable[Grant], now: datetime, **more: Any) -> Decision:
        if fence.divergence(step) is not None:
            alone = replace(
                step, votes=tuple(vote for vote in step.votes if vote.path == "production"), pinned_digest=None
            )
            return original(alone, rules=rules, grants=grants, now=now, **more)
        return original(step, rules=rules, grants=grants, now=now, **more)

    patch.setattr(fence, "decide", decide)


def replica_alone(patch: pytest.MonkeyPatch) -> None:
    """The witness's vote is enough."""

    def is_agreed(step: Step, _rules: Rules) -> bool:
        return len(fence.digests_on_record(step)) == 1 and "replica" in fence.paths_for(step)

    patch.setattr(fence, "is_agreed", is_agreed)


def expired_grant_that_vetoes(patch: pytest.MonkeyPatch) -> None:
    """A grant that is over stops an agreement beside it."""
    original = fence.decide

    def decide(step: Step, *, rules: Rules, grants: Iterable[Grant], now: datetime, **more: Any) -> Decision:
        known = list(grants)
        decision = original(step, rules=rules, grants=known, now=now, **more)
        if decision.reason is Reason.AGREEMENT and any(over(grant, now) for grant in known):
            return Decision(phase=Phase.REJECTED, reason=Reason.TIMEOUT)
        return decision

    def over(grant: Grant, now: datetime) -> bool:
        return grants.state_of(grant, now) is State.EXPIRED

    patch.setattr(fence, "decide", decide)


def step_committed_twice(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether a step has a standing commit in another epoch."""
    patch.setattr(intake, "standing", lambda _known: None)


def stale_epoch_accepted(patch: pytest.MonkeyPatch) -> None:
    """Votes and proposals of a closed epoch count."""
    patch.setattr(intake, "check_epoch", lambda **_numbers: None)


def epoch_that_goes_back(patch: pytest.MonkeyPatch) -> None:
    """A restart takes whatever number its planner believes in."""

    def restart_number(run: RunEpochs, *, named: int | None, **_expected: int) -> int:
        return run.counter + 1 if named is None else named

    patch.setattr(epochs, "restart_number", restart_number)


def payload_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Admission looks at the token, and not at what is called."""
    original = admission.judge

    def judge(call: Call, *, bound: Bound | None, **more: Any) -> Refusal | None:
        if bound is not None:
            call = replace(call, action=replace(call.action, payload_digest=bound.payload))
        return original(call, bound=bound, **more)

    patch.setattr(admission, "judge", judge)


def unknown_taken_as_failed(patch: pytest.MonkeyPatch) -> None:
    """A lost answer is a failure."""
    original = intents.report

    def report(intent: Intent, *, outcome: Kind, **more: Any) -> Recorded:
        return original(intent, outcome=Kind.FAILED if outcome is Kind.UNKNOWN else outcome, **more)

    patch.setattr(intents, "report", report)


def lost_answer_repeated(patch: pytest.MonkeyPatch) -> None:
    """What nobody knows is tried again, whether the tool honours a key or not."""
    patch.setattr(intents, "may_repeat", lambda *_facts, **_authority: True)


def success_delivered_again(patch: pytest.MonkeyPatch) -> None:
    """A settled effect is let through once more."""
    original = intents.admit

    def admit(intent: Intent, **more: Any) -> Any:
        verdict = original(intent, **more)
        is_settled = isinstance(verdict, intents.Settled)
        return intents.Admitted(number=len(intent.deliveries) + 1) if is_settled else verdict

    patch.setattr(intents, "admit", admit)
    patch.setattr(
        intents,
        "TRANSITIONS",
        {**intents.TRANSITIONS, intents.State.SUCCEEDED: {intents.State.IN_FLIGHT: "once more"}},
    )


def grant_without_limit(patch: pytest.MonkeyPatch) -> None:
    """Uses are counted, and not asked for."""
    original = grants.why_not_covering

    def why_not_covering(grant: Grant, **more: Any) -> str | None:
        return original(replace(grant, uses=0), **more)

    patch.setattr(fence, "why_not_covering", why_not_covering)


def grant_for_everything(patch: pytest.MonkeyPatch) -> None:
    """A live grant covers any step, tool and path."""

    def why_not_covering(grant: Grant, *, now: datetime, **_scope: Any) -> str | None:
        return None if grants.state_of(grant, now) is State.LIVE else "it is over"

    patch.setattr(fence, "why_not_covering", why_not_covering)


def authority_that_never_ends(patch: pytest.MonkeyPatch) -> None:
    """What a grant once committed leaves after its end."""
    patch.setattr(fence, "ended_as", lambda _grant, _now: None)


def late_divergence_ignored(patch: pytest.MonkeyPatch) -> None:
    """What is committed stays committed, whatever a path says later."""
    original = fence.lost_authority

    def lost_authority(*facts: Any, **more: Any) -> Reason | None:
        reason = original(*facts, **more)
        return None if reason is Reason.LATE_DIVERGENCE else reason

    patch.setattr(fence, "lost_authority", lost_authority)


def key_taken_over(patch: pytest.MonkeyPatch) -> None:
    """A key that serves one action is given to another."""
    patch.setattr(claims, "is_key_taken", lambda *_facts, **_own: False)


def tool_that_only_seems_to_read(patch: pytest.MonkeyPatch) -> None:
    """A call that names no commit is let through as harmless."""
    patch.setattr(admission, "exemption", lambda _action, _definition: admission.Exempt())


def freeze_that_stops_nothing(patch: pytest.MonkeyPatch) -> None:
    """A freeze is set, and admission does not ask for it."""
    patch.setattr(admission, "check_frozen", lambda *_freezes, **_scope: None)


def freeze_that_leaves_grants(patch: pytest.MonkeyPatch) -> None:
    """A freeze stops calls, and the grants of its scope live on."""
    patch.setattr(grants, "is_voided_by_freeze", lambda *_grant, **_scope: False)


def repetition_counted(patch: pytest.MonkeyPatch) -> None:
    """A vote that is sent again is written again."""
    patch.setattr(intake, "_repeated_vote", lambda _step, _vote: None)


def first_voter_wins(patch: pytest.MonkeyPatch) -> None:
    """The vote that came first decides, and the others must follow it."""
    original = fence.decide

    def decide(step: Step, **more: Any) -> Decision:
        if step.votes[:1] and step.votes[0].path == "production":
            step = replace(step, votes=tuple(vote for vote in step.votes if vote.digest == step.votes[0].digest))
        return original(step, **more)

    patch.setattr(fence, "decide", decide)


ASKED_FOR: tuple[Plant, ...] = (
    overwritten_votes,
    grant_that_beats_a_divergence,
    replica_alone,
    expired_grant_that_vetoes,
    step_committed_twice,
)
OTHERS: tuple[Plant, ...] = (
    stale_epoch_accepted,
    payload_not_compared,
    unknown_taken_as_failed,
    lost_answer_repeated,
    epoch_that_goes_back,
    success_delivered_again,
    grant_without_limit,
    grant_for_everything,
    authority_that_never_ends,
    late_divergence_ignored,
    key_taken_over,
    tool_that_only_seems_to_read,
    repetition_counted,
    freeze_that_stops_nothing,
    freeze_that_leaves_grants,
    first_voter_wins,
)
