"""Adopting: a person says that an escape is the very effect that a commit wanted, so that it is not sent again (L8)."""

from __future__ import annotations

import uuid
from typing import Any

from fencing.gateway.effects import Effect, lock_effects
from fencing.models import Compensation, Incident, Intent, ObservedEffect
from fencing.models.bodies import intent_bodies
from fencing.models.facts import Facts
from fencing.protocol import adopting, compensations, intents
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.queries.sensitive import masked_for
from fencing.services.requests import AdoptEffect
from fencing.services.taking_back import move_intent
from fencing.services.writes import Writes, in_transaction


def adopt_effect(intent_id: str, request: AdoptEffect, caller: Caller) -> Result:
    """Adopt the effect of a landed escape for an intent that wants this very action (`POST /intents/{id}/adopt`).

    The intent has succeeded then, the compensation is withdrawn, the incident resolved; the effect stays an escape.
    """
    return in_transaction(lambda: _adopt(intent_id, request, caller))


def _adopt(intent_id: str, request: AdoptEffect, caller: Caller) -> Result:
    writes = Writes(caller)
    known = _uuid(intent_id)
    if known is None or not Intent.objects.filter(id=known).exists():
        result: Result = writes.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such intent."), "effect")
        writes.send()
        return result
    facts = lock_effects([str(known)])
    effect = Effect(facts.intents[str(known)], facts, writes)
    effect.expire_leases()
    result = _judge(effect, request, writes)
    if isinstance(result, Refusal):
        writes.refuse(result, "effect", run=effect.run.name, tool=effect.intent.row["tool"])
    writes.send()
    return _with_body(result, str(known), caller)


def _judge(effect: Effect, request: AdoptEffect, writes: Writes) -> Result:
    known = _uuid(request.incident)
    incident = None if known is None else Incident.objects.filter(id=known, kind="landed_escape").first()
    if incident is None:
        return Refusal(code=Code.NOT_FOUND, detail="There is no such landed escape.", pointer="/incident")
    # Locks in the order of design 10: intent, ledger row, compensation, incident.
    observed = ObservedEffect.objects.select_for_update(of=("self",)).select_related("adopter").get(incidents=incident)
    undoing = list(Compensation.objects.select_for_update().filter(effect=observed).order_by("id"))
    incident = Incident.objects.select_for_update().get(id=incident.id)
    refusal = _decided_before(effect, request, observed, undoing) or _unfit(effect, observed)
    if isinstance(refusal, Answer | Refusal):
        return refusal
    return _adopted(effect, request, observed, undoing, incident, writes)


def _decided_before(
    effect: Effect, request: AdoptEffect, observed: ObservedEffect, undoing: list[Compensation]
) -> Result | None:
    if observed.adopted_by_id is not None:
        mine = (str(observed.adopted_by_id), observed.adopter_id, observed.adopt_reason)
        if mine == (effect.intent.id, effect.writes.caller.person_id, request.reason):
            effect.writes.count("duplicates")
            return Answer(status=OK, body={"id": effect.intent.id, "duplicate": True})
        by = observed.adopter.get_username() if observed.adopter else None
        extras = {"decided_by": by, "decided_at": rfc3339(observed.adopted_at)}
        return Refusal(code=Code.ALREADY_DECIDED, detail=f"{by} adopted the effect already.", extras=extras)
    return adopting.check_undecided(
        is_open=observed.is_open, undoing=[compensations.State(each.state) for each in undoing]
    )


def _unfit(effect: Effect, observed: ObservedEffect) -> Refusal | None:
    wanted = {step.commit.payload for step in effect.claiming_steps() if step.commit is not None and step.commit.stands}
    return adopting.check_fit(effect.intent.pure(), digest=observed.digest, wanted=wanted)


def _adopted(
    effect: Effect,
    request: AdoptEffect,
    observed: ObservedEffect,
    undoing: list[Compensation],
    incident: Incident,
    writes: Writes,
) -> Answer:
    now, person = effect.facts.now, writes.caller.person_id
    adopted: dict[str, Any] = {"adopted_by_id": effect.intent.id, "adopted_at": now, "adopter_id": person}
    writes.update("observedeffect", str(observed.id), is_open=False, adopt_reason=request.reason, **adopted)
    for each in undoing:
        if compensations.State(each.state) in compensations.WITHDRAWABLE:
            writes.update("compensation", str(each.id), state="withdrawn", decided_at=now)
            writes.audit(
                "move_compensation",
                "compensation",
                str(each.id),
                before={"state": each.state},
                after={"state": "withdrawn"},
                reason=request.reason,
            )
    columns: dict[str, Any] = {"settled_at": now, "payload_id": observed.digest, "due_at": None, "not_before": None}
    move_intent(effect.intent, intents.State.SUCCEEDED, writes, run=effect.run.name, **columns)
    after = {"effect": str(observed.id), "incident": str(incident.id)}
    writes.audit("adopt_effect", "intent", effect.intent.id, run=effect.run.name, after=after, reason=request.reason)
    if incident.state == Incident.State.OPEN:
        resolved: dict[str, Any] = {"resolved_at": now, "resolved_by_id": person, "resolution": request.reason}
        writes.update("incident", str(incident.id), state="resolved", **resolved)
        writes.audit(
            "resolve_incident",
            "incident",
            str(incident.id),
            before={"state": "open"},
            after={"state": "resolved"},
            reason=request.reason,
        )
    return Answer(status=OK, body={"id": effect.intent.id})


def _with_body(result: Result, intent_id: str, caller: Caller) -> Result:
    if isinstance(result, Refusal):
        return result
    found = Intent.objects.select_related("run", "payload").prefetch_related("commits__payload").filter(id=intent_id)
    body = masked_for(caller, intent_bodies(list(found), Facts.of_intents([intent_id])))[0]
    return Answer(status=result.status, body={**body, **result.body})


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
