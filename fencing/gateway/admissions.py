"""Admission: the one gate to a tool (L3, L4). It is online and alone decides; a token only says where to look.

The function that refuses is `judge` in `fencing/protocol/admission.py`: every way to say no before a tool is reached
stands in it, in the order in which it is told. What it lets through is written as a delivery before the answer leaves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fencing.gateway import undoings
from fencing.gateway.effects import Effect, claimants
from fencing.models import Commit, ObservedEffect
from fencing.models.facts import Facts, StepFacts, lock_steps, lookup_of, outcome_body, resources_touched
from fencing.models.registry import current_registry
from fencing.protocol import admission, fence, intents, tokens
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.services import signing, straight
from fencing.services.requests import Admit
from fencing.services.taking_back import move_intent, take_back
from fencing.services.writes import LostRace, Writes, in_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that asks to be let through: its action, and where its token points. `registry` reads the action."""

    request: Admit
    action: Action
    commit: Commit | None


def admit(requests: Sequence[Admit], caller: Caller) -> list[Result]:
    """Admit calls to tools, or refuse them (`POST /gateway/admissions`)."""
    return straight.first(straight.ADMISSIONS, requests, caller, lambda rest: _admit_each(rest, caller))


def _admit_each(requests: Sequence[Admit], caller: Caller) -> list[Result]:
    """Judge calls of commits together, and each call of a compensation by itself: it locks otherwise (P5)."""
    undoing = undoings.releases_named(requests)
    if not undoing:
        return in_transaction(lambda: _admit(requests, caller))
    ordinary = [request for request in requests if request.token not in undoing]
    told = iter(in_transaction(lambda: _admit(ordinary, caller)) if ordinary else ())
    return [
        undoings.admit(request, undoing[request.token], caller) if request.token in undoing else next(told)
        for request in requests
    ]


def _admit(requests: Sequence[Admit], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    registry = current_registry()
    commits = _commits_of(requests)
    calls = [_read(request, commits, registry, writes) for request in requests]
    facts = lock_steps(_places(calls), strength="admit")
    results: list[Result] = []
    for call in calls:
        if isinstance(call, Call):
            result = _exempt(call, registry, facts, writes) or _decide(call, facts, writes)
            results.append(_noted(result, call, registry, writes))
        else:
            results.append(call)
    writes.send()
    return results


def _commits_of(requests: Sequence[Admit]) -> dict[str, Commit]:
    """Find the commits that tokens name, by id, without believing any token."""
    named = {jti for request in requests if request.token and (jti := tokens.peek_jti(request.token))}
    found = Commit.objects.select_related("run").filter(id__in={known for jti in named if (known := _uuid(jti))})
    return {str(commit.id): commit for commit in found}


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _read(request: Admit, commits: dict[str, Commit], registry: int, writes: Writes) -> Call | Refusal:
    """Judge the form of a call."""
    action = read_action(request.action, lookup_of(registry), at="/action")
    if isinstance(action, Refusal):
        return writes.refuse(action, "admission", run=request.run, step=request.step, epoch=request.epoch)
    jti = tokens.peek_jti(request.token) if request.token else None
    return Call(request=request, action=action, commit=commits.get(jti or ""))


def _places(calls: Iterable[Call | Refusal]) -> list[tuple[str, str]]:
    """What must be locked: the steps that are named or tokened, and those that want the same effect."""
    places: list[tuple[str, str]] = []
    intent_ids = []
    for call in calls:
        if isinstance(call, Refusal):
            continue
        if call.request.run:
            places.append((call.request.run, call.request.step or ""))
        if call.commit is not None:
            places.append((call.commit.run.name, call.commit.step_name))
            intent_ids.append(str(call.commit.intent_id))
    return places + claimants(intent_ids)


def _exempt(call: Call, registry: int, facts: Facts, writes: Writes) -> Result | None:
    """Answer what needs no commit: a tool that nobody registered, one that is not this key's, one that only reads.

    A freeze stops what only reads, too: what an agent reads may be what it must not learn.
    """
    exemption = admission.exemption(call.action, lookup_of(registry)(call.action.tool))
    scope = writes.caller.tools
    is_known = not isinstance(exemption, Refusal) or exemption.code is not Code.UNKNOWN_TOOL
    if is_known and scope is not None and call.action.tool not in scope:
        return Refusal(code=Code.FORBIDDEN_ROLE, detail=f"This key is not for {call.action.tool}.")
    if not isinstance(exemption, admission.Exempt):
        return exemption
    frozen = facts.check_frozen(run=call.request.run, tool=call.action.tool)
    if frozen is not None:
        return frozen
    writes.count("admissions_exempt")
    return Answer(status=OK, body={"admit": True, "exempt": True})


def _decide(call: Call, facts: Facts, writes: Writes) -> Result:
    step = judged(call, facts, writes)
    if isinstance(step, Refusal):
        return step
    if step.commit is None:
        raise AssertionError("what was judged good has a commit")
    facts.lock_intents(ids=[step.commit.intent_id])
    effect = Effect(facts.intents[step.commit.intent_id], facts, writes)
    if any(claim["step_id"] not in facts.steps for claim in effect.intent.row["claims"]):
        raise LostRace("a step claimed the intent meanwhile")
    effect.expire_leases()
    return deliver(step, effect)


def judged(call: Call, facts: Facts, writes: Writes) -> StepFacts | Refusal:
    """Have the call judged by `admission.judge`, the one function that refuses; give the step whose commit it has."""
    request = call.request
    step = None if call.commit is None else facts.steps.get(str(call.commit.step_id))
    refusal = admission.judge(
        admission.Call(
            action=call.action, token=request.token, run=request.run, step=request.step, epoch=request.epoch
        ),
        named=facts.known(request.run, request.step) if request.run and request.step else [],
        bound=None if step is None else _bound(step),
        verify=lambda token: tokens.verify(token, signing.public_keys(signing.COMMIT)),
        take_back=lambda: None if step is None else take_back(step, facts, writes),
        definition=None if step is None or step.commit is None else step.definition(step.commit.tool),
        freezes=facts.freezes,
    )
    if refusal is not None or step is None:
        return refusal or Refusal(code=Code.UNKNOWN_COMMIT, detail="The token's commit is not on record.")
    return step


def _bound(step: StepFacts) -> admission.Bound | None:
    commit = step.commit
    if commit is None:
        return None
    return admission.Bound(
        run=step.run.name,
        step=step.name,
        epoch=step.epoch,
        token=commit.token,
        payload=commit.payload,
        closed_reason=None if commit.closed_reason is None else fence.Reason(commit.closed_reason),
    )


def deliver(step: StepFacts, effect: Effect) -> Result:
    """Let one try through, or tell what became of the effect (L3)."""
    if step.commit is None:
        raise AssertionError("only a commit is delivered")
    intent, facts = effect.intent, effect.facts
    verdict = intents.admit(
        intent.pure(),
        payload=step.commit.payload,
        retries=effect.retries,
        has_authority=effect.has_authority(),
        now=facts.now,
        has_open_escape=has_open_escape(step.commit.payload),
    )
    match verdict:
        case Refusal():
            return verdict
        case intents.Settled():
            effect.writes.count("admissions_repeated")
            return Answer(
                status=OK, body={"admit": False, "intent": intent.id, "outcome": outcome_body(intent.row["settled"])}
            )
        case intents.Doubtful():
            effect.doubt_if_stuck()
            return Refusal(
                code=Code.IN_DOUBT,
                detail="Nobody knows whether it happened: a person must say.",
                extras={"retry_after": 60},
            )
        case intents.Admitted():
            lost = facts.lost_authority(step)
            return admission.revoked(lost) if lost is not None else _opened(step, effect, verdict.number)


def has_open_escape(payload: str) -> bool:
    """Whether this very action happened without authority, and waits for a person (L8)."""
    return ObservedEffect.objects.filter(digest=payload, match="escape", is_open=True).exists()


def _opened(step: StepFacts, effect: Effect, number: int) -> Answer:
    intent, facts, writes = effect.intent, effect.facts, effect.writes
    commit = step.commit
    if commit is None:
        raise AssertionError("only a commit is delivered")
    lease_until = facts.now + timedelta(seconds=effect.retries.lease_s)
    key = intents.idempotency_key(effect.run.name, intent.key, intent.row["generation"])
    row: dict[str, Any] = {
        "number": number,
        "payload_id": commit.payload,
        "idempotency_key": key,
        "lease_until": lease_until,
    }
    keys = {
        "run_id": effect.run.id,
        "intent_id": intent.id,
        "commit_id": commit.id,
        "by_id": writes.caller.credential_id,
    }
    delivery = writes.insert("delivery", admitted_at=facts.now, **keys, **row)
    made = {
        "id": delivery,
        "number": number,
        "payload": commit.payload,
        "commit_id": commit.id,
        "lease_until": lease_until.isoformat(),
        "outcome": None,
    }
    intent.row["deliveries"].append(made)
    columns: dict[str, Any] = {"payload_id": commit.payload, "not_before": None, "due_at": lease_until}
    move_intent(intent, intents.State.IN_FLIGHT, writes, run=effect.run.name, **columns)
    after = {"intent": intent.id, "number": number, "payload_digest": commit.payload, "idempotency_key": key}
    writes.audit("admit", "delivery", delivery, run=effect.run.name, after=after)
    body = {
        "admit": True,
        "intent": intent.id,
        "delivery": delivery,
        "idempotency_key": key,
        "lease_until": rfc3339(lease_until),
    }
    return Answer(status=OK, body=body)


def _noted(result: Result, call: Call, registry: int, writes: Writes) -> Result:
    """Put a refusal into the side log, with what it was about."""
    if isinstance(result, Answer):
        return result
    request, commit = call.request, call.commit
    subject = {
        "run": request.run or (commit.run.name if commit else None),
        "step": request.step or (commit.step_name if commit else None),
        "epoch": request.epoch or (commit.epoch if commit else None),
        "tool": call.action.tool,
        "digest": call.action.payload_digest,
        "resources": resources_touched(call.action, registry),
    }
    return writes.refuse(result, "admission", **subject)
