"""What the page of one step shows beside its two actions: votes, grants, the commit, the effect, and what came late."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencing.models import Delivery, Outcome
from fencing.protocol import fence, intents
from fencing.protocol.errors import Refusal
from fencing.protocol.explain import Sentence, Story, explain_tried
from fencing.protocol.tokens import Claims
from fencing.queries.trace import Said, Trace, Tried, story_of

UNSETTLED: Final = frozenset(set(intents.State) - {*intents.SETTLED, intents.State.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantLine:
    """A grant that was tried, its state now, and why it helped or did not."""

    name: str
    scope: str
    state: str
    reason: str
    issuer: str
    expires_at: str | None
    why: Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteLine:
    """A vote in the table of votes; `state` is that of the marks."""

    vote: Said
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLine:
    """One try at the effect, with what was told about it, in the order in which it was told."""

    delivery: Delivery
    outcomes: tuple[OutcomeLine, ...]
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLine:
    """An outcome, who told it, and the tool's response as parsed JSON (None where there was none)."""

    outcome: Outcome
    by: str
    response: Any


def is_settled(trace: Trace) -> bool:
    """Tell whether nothing about a step moves by itself any more: decided, and its effect not under way."""
    if trace.step.phase in fence.UNDECIDED:
        return False
    commit = trace.step.commit
    intent = trace.facts.intents.get(commit.intent_id) if commit is not None and commit.stands else None
    return intent is None or intent.row["state"] not in UNSETTLED


def votes_of(trace: Trace) -> tuple[VoteLine, ...]:
    """Give the votes in the order in which they came."""
    return tuple(VoteLine(vote=vote, state=_state(vote)) for vote in trace.votes)


def _state(vote: Said) -> str:
    if vote.digest is None:
        return "abstained"
    return "late" if vote.is_late else "voted"


def grants_of(trace: Trace) -> tuple[GrantLine, ...]:
    """Give the grants of the run that could have been about this step, with why each did or did not help."""
    story = story_of(trace)
    return tuple(_grant_line(tried, story) for tried in trace.grants)


def _grant_line(tried: Tried, story: Story) -> GrantLine:
    body = tried.body
    scope = [f"{body['path']} alone", body["tool"] or "any tool", body["step"] or "any step", f"epoch {body['epoch']}"]
    return GrantLine(
        name=body["name"],
        scope=", ".join(scope),
        state=body["state"],
        reason=body["reason"],
        issuer=body["issuer"],
        expires_at=body["expires_at"],
        why=explain_tried(tried.then, story),
    )


def claims_of(trace: Trace) -> tuple[tuple[str, object], ...]:
    """Give what the commit's token says, by the protocol's names; never the token."""
    told = trace.token
    return tuple(told.as_payload().items()) if isinstance(told, Claims) else ()


def token_fault(trace: Trace) -> str:
    """Say why the stored token does not verify; empty where it does."""
    return trace.token.detail if isinstance(trace.token, Refusal) else ""


def deliveries_of(trace: Trace) -> tuple[DeliveryLine, ...]:
    """Give the tries at the step's effect. Another step with the same key may have made some of them (L1)."""
    commit = trace.step.commit
    return tuple(
        DeliveryLine(
            delivery=delivery,
            outcomes=tuple(_told(each) for each in _outcomes(delivery, trace.outcomes)),
            is_own=commit is not None and str(delivery.commit_id) == commit.id,
        )
        for delivery in trace.deliveries
    )


def _outcomes(delivery: Delivery, outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [each for each in outcomes if each.delivery_id == delivery.id]


def _told(outcome: Outcome) -> OutcomeLine:
    by = outcome.person.get_username() if outcome.person else outcome.by.name if outcome.by else "the fence"
    response = None if outcome.response is None else json.loads(bytes(outcome.response))
    return OutcomeLine(outcome=outcome, by=by, response=response)
