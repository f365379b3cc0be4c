"""Everything about one step, for the divergence trace: facts and rows, read in a bounded number of queries."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Q

from fencing.models import (
    Action,
    AuditEvent,
    Claim,
    Delivery,
    EpochOpening,
    Grant,
    GrantUse,
    Incident,
    Outcome,
    Run,
    SideLogRow,
    SigningKey,
    Step,
    Verdict,
    Vote,
)
from fencing.models.bodies import grant_as_pure, grant_bodies
from fencing.models.facts import Facts, StepFacts, moment, read_clock, read_facts, step_body
from fencing.protocol import fence, grants, intents, tokens
from fencing.protocol.differences import Difference
from fencing.protocol.errors import Refusal
from fencing.protocol.explain import Effect, Heard, Story
from fencing.protocol.objects import Object

MAX_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One vote with everything that came with it. `action` is the parsed action, None where only a digest came."""

    path: str
    digest: str | None
    payload_digest: str | None
    action: Any
    abstain: str | None
    fault: str | None
    is_late: bool
    model: str | None
    prompt: str | None
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A grant that could have been about this step: its object as of now, and its facts as of the decision."""

    body: Object
    then: grants.Grant
    live_at: datetime | None
    is_used_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """One epoch of a step, in short."""

    epoch: int
    phase: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A step as its page shows it.

    `body` is the API's object; `votes` in the order in which they came; `grants` those of the run that name this step
    or a tool that was voted; `claims` those of all steps on this step's intent; `token` what the commit's token says,
    checked with the public keys; `refused` the side log's rows about it, newest first; `epochs` the newest first.
    """

    now: datetime
    facts: Facts
    step: StepFacts
    body: Object
    pinned_action: Any
    votes: tuple[Said, ...]
    grants: tuple[Tried, ...]
    token: tokens.Claims | Refusal | None
    claims: tuple[Claim, ...]
    deliveries: tuple[Delivery, ...]
    outcomes: tuple[Outcome, ...]
    refused: tuple[SideLogRow, ...]
    audit: tuple[AuditEvent, ...]
    incidents: tuple[Incident, ...]
    verdicts: tuple[Verdict, ...]
    openings: tuple[EpochOpening, ...]
    epochs: tuple[EpochLine, ...]


def read_trace(run_name: str, step_name: str, epoch: int | None) -> Trace | None:
    """Read a step at an epoch, its newest where none is named; None where there is none."""
    run = Run.objects.filter(name=run_name).first()
    if run is None:
        return None
    rows = Step.objects.filter(run=run, name=step_name).order_by("-epoch")
    wanted = (rows if epoch is None else rows.filter(epoch=epoch)).values_list("id", flat=True).first()
    if wanted is None:
        return None
    facts = read_facts([str(run.id)], [str(wanted)])
    step = facts.steps[str(wanted)]
    votes = list(Vote.objects.filter(step_id=step.id).order_by("received_at", "id")[:MAX_ROWS])
    actions = _actions({vote.payload_id for vote in votes if vote.payload_id} | {step.row["pinned_payload"]} - {None})
    intent_id = step.commit.intent_id if step.commit else None
    deliveries = (
        tuple(Delivery.objects.filter(intent_id=intent_id).select_related("by").order_by("number")) if intent_id else ()
    )
    now = read_clock()
    return Trace(
        now=now,
        facts=facts,
        step=step,
        body=step_body(facts, step),
        pinned_action=actions.get(step.row["pinned_payload"]),
        votes=tuple(_said(vote, actions) for vote in votes),
        grants=tuple(_grants(run, step, {vote.tool for vote in votes if vote.tool}, now)),
        token=_token(step),
        claims=tuple(Claim.objects.filter(intent_id=intent_id).select_related("step").order_by("id")[:MAX_ROWS])
        if intent_id
        else (),
        deliveries=deliveries,
        outcomes=tuple(
            Outcome.objects.filter(delivery__in=deliveries).select_related("by", "person").order_by("recorded_at", "id")
        )
        if deliveries
        else (),
        refused=tuple(
            SideLogRow.objects.filter(run=run_name, step=step_name)
            .select_related("by")
            .order_by("-recorded_at", "-id")[:MAX_ROWS]
        ),
        audit=tuple(
            AuditEvent.objects.filter(kind="step", subject=f"{run_name}/{step_name}/{step.epoch}").order_by("-id")[
                :MAX_ROWS
            ]
        ),
        incidents=tuple(Incident.objects.filter(step_id=step.id).select_related("resolved_by").order_by("opened_at")),
        verdicts=tuple(
            Verdict.objects.filter(step_id=step.id).select_related("person").order_by("-given_at", "-id")[:MAX_ROWS]
        ),
        openings=tuple(
            EpochOpening.objects.filter(run=run, step_name=step_name)
            .select_related("by", "person")
            .order_by("-number")[:MAX_ROWS]
        ),
        epochs=tuple(EpochLine(**line) for line in rows.values("epoch", "phase", "reason")[:MAX_ROWS]),
    )


def story_of(trace: Trace) -> Story:
    """Give what the step's sentence is made from (`protocol.explain`)."""
    facts, step, row = trace.facts, trace.step, trace.step.row
    return Story(
        step=step.pure(facts.grant_name(row["fenced_by"])),
        reason=None if row["reason"] is None else fence.Reason(row["reason"]),
        rules=step.rules(),
        now=trace.now,
        heard=tuple(
            Heard(path=vote.path, at=vote.received_at, digest=vote.digest, action=vote.action, abstain=vote.abstain)
            for vote in trace.votes
        ),
        tools=step.definition,
        pinned=trace.pinned_action,
        commit=None if step.commit is None else facts.pure_commit(step.commit),
        effect=_effect(trace),
        grants=tuple(tried.then for tried in trace.grants),
        proposed_at=moment(row["proposed_at"]),
        decided_at=moment(row["decided_at"]),
        difference=None if row["difference"] is None else Difference(row["difference"]),
        is_correlated=row["is_correlated"],
    )


def _effect(trace: Trace) -> Effect | None:
    commit = trace.step.commit
    intent = trace.facts.intents.get(commit.intent_id) if commit is not None else None
    if intent is None:
        return None
    settled = [outcome.recorded_at for outcome in trace.outcomes if outcome.is_effective]
    return Effect(
        state=intents.State(intent.row["state"]),
        tries=len(trace.deliveries),
        may_be_out=sum(delivery.may_be_out for delivery in intent.pure().deliveries),
        left_at=trace.deliveries[0].admitted_at if trace.deliveries else None,
        settled_at=settled[-1] if settled else None,
        action=next((vote.action for vote in trace.votes if vote.payload_digest == commit.payload), None)
        if commit
        else None,
        tools=trace.step.definition,
    )


def _actions(payloads: set[str]) -> dict[str, Any]:
    return {
        row.payload_digest: json.loads(bytes(row.canonical))
        for row in Action.objects.filter(payload_digest__in=payloads)
    }


def _said(vote: Vote, actions: dict[str, Any]) -> Said:
    return Said(
        path=vote.path,
        digest=vote.digest,
        payload_digest=vote.payload_id,
        action=actions.get(vote.payload_id or ""),
        abstain=vote.abstain,
        fault=vote.fault,
        is_late=vote.is_late,
        model=vote.model,
        prompt=vote.prompt,
        received_at=vote.received_at,
    )


def _token(step: StepFacts) -> tokens.Claims | Refusal | None:
    """What the commit's token says. The token itself goes no further: who reads a page has no use for it."""
    if step.commit is None:
        return None
    keys = SigningKey.objects.filter(use="commit").values_list("kid", "public")
    return tokens.verify(step.commit.token, dict(keys))


def _grants(run: Run, step: StepFacts, tools: set[str], now: datetime) -> list[Tried]:
    """The run's grants that could have been about this step: by name, or by a tool that a path asked for."""
    found = Grant.objects.filter(Q(step_name=step.name) | Q(step_name__isnull=True), run=run)
    if tools:
        found = found.filter(Q(tool__in=tools) | Q(tool__isnull=True))
    rows = list(found.select_related("run", "issuer").order_by("-issued_at")[:MAX_ROWS])
    used = set(GrantUse.objects.filter(commit__step_id=step.id).values_list("grant_id", flat=True)) if rows else set()
    then = moment(step.row["decided_at"]) or now
    return [
        Tried(body=body, then=_as_of(row, body, then), live_at=row.live_at, is_used_here=row.id in used)
        for row, body in zip(rows, grant_bodies(rows, now), strict=True)
    ]


def _as_of(row: Grant, body: Object, then: datetime) -> grants.Grant:
    """A grant as it was at a moment: what ended it later had not happened. Its uses are known only as of now."""
    approvals = sum(datetime.fromisoformat(each["at"]) <= then for each in body["approvals"])
    pure = grant_as_pure(row, approvals=approvals)
    expired_at, revoked_at, voided_at = (
        at if at is not None and at <= then else None for at in (pure.expired_at, pure.revoked_at, pure.voided_at)
    )
    return replace(pure, expired_at=expired_at, revoked_at=revoked_at, voided_at=voided_at)
