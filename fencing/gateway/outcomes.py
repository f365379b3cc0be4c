"""Outcomes: what gateways report, what a person says, and what nobody said in time (L5 to L7)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from fencing.gateway import undoings
from fencing.gateway.effects import Effect, lock_effects
from fencing.models import Delivery, Intent, Outcome
from fencing.models.bodies import intent_bodies
from fencing.models.facts import Facts, read_clock
from fencing.protocol import intents
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import SYSTEM, Caller
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.errors import Code, Refusal
from fencing.queries.sensitive import masked_for
from fencing.services import straight
from fencing.services.requests import ReportOutcome, ResolveIntent
from fencing.services.writes import Writes, in_transaction


def report_outcomes(requests: Sequence[ReportOutcome], caller: Caller) -> list[Result]:
    """Record what became of deliveries (`POST /gateway/outcomes`)."""
    return straight.first(straight.OUTCOMES, requests, caller, lambda rest: _report_each(rest, caller))


def _report_each(requests: Sequence[ReportOutcome], caller: Caller) -> list[Result]:
    """Record outcomes of intents together, and each of a compensation by itself (P5)."""
    of_intents = [request for request in requests if not _is_of_compensation(request)]
    told = iter(in_transaction(lambda: _report_outcomes(of_intents, caller)) if of_intents else ())
    return [undoings.report(request, caller) if _is_of_compensation(request) else next(told) for request in requests]


def _is_of_compensation(request: ReportOutcome) -> bool:
    return request.compensation is not None and request.intent is None


def _report_outcomes(requests: Sequence[ReportOutcome], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    known = _deliveries(requests)
    found = [_addressed(request, known) for request in requests]
    facts = lock_effects(sorted({str(each.intent_id) for each in found if each is not None}))
    results = [_report(request, delivery, facts, writes) for request, delivery in zip(requests, found, strict=True)]
    writes.send()
    return _with_bodies(results, caller)


def _deliveries(requests: Sequence[ReportOutcome]) -> dict[uuid.UUID, Delivery]:
    ids = {known for request in requests if (known := _uuid(request.delivery))}
    return Delivery.objects.in_bulk(ids)


def _addressed(request: ReportOutcome, known: Mapping[uuid.UUID, Delivery]) -> Delivery | None:
    """The delivery that a report is about; its intent must be the delivery's."""
    delivery = known.get(_uuid(request.delivery) or uuid.UUID(int=0))
    return delivery if delivery is not None and delivery.intent_id == _uuid(request.intent) else None


def _uuid(text: str | None) -> uuid.UUID | None:
    try:
        return uuid.UUID(text or "")
    except ValueError:
        return None


def _report(request: ReportOutcome, delivery: Delivery | None, facts: Facts, writes: Writes) -> Result:
    if (request.intent is None) is (request.compensation is None):
        detail = "A report names the intent or the compensation that it is about, and not both."
        return writes.refuse(Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/intent"), "outcome")
    if delivery is None:
        detail = "There is no such delivery of this intent."
        return writes.refuse(Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/delivery"), "outcome")
    effect = Effect(facts.intents[str(delivery.intent_id)], facts, writes)
    subject = {"run": effect.run.name, "tool": effect.intent.row["tool"], "digest": delivery.payload_id}
    scope = writes.caller.tools
    if scope is not None and effect.intent.row["tool"] not in scope:
        return writes.refuse(
            Refusal(code=Code.FORBIDDEN_ROLE, detail="This key is not for that tool."), "outcome", **subject
        )
    response = None if request.response is None else canonical_bytes(request.response)
    kind = intents.Kind(request.outcome)
    recorded = effect.record(
        delivery.number, kind, source="report", response=response, retry_after_s=request.retry_after
    )
    if recorded.refusal is not None:
        return writes.refuse(recorded.refusal, "outcome", **subject)
    if not recorded.is_news:
        _note_repetition(delivery, kind, response, writes, subject)
    return Answer(status=OK, body={"id": effect.intent.id, **({} if recorded.is_news else {"duplicate": True})})


def _note_repetition(
    delivery: Delivery, kind: intents.Kind, response: bytes | None, writes: Writes, subject: dict[str, Any]
) -> None:
    writes.count("duplicates")
    first = Outcome.objects.filter(delivery=delivery, outcome=kind.value, is_effective=True).first()
    if response is not None and first is not None and (first.response is None or bytes(first.response) != response):
        writes.side_log(
            "outcome",
            "conflicting_duplicate",
            detail="Reported again with another response: the first stays.",
            **subject,
        )


def _with_bodies(results: Sequence[Result], caller: Caller) -> list[Result]:
    """Complete answers with the intents as they stand after everything was written, as the caller may read them."""
    ids = sorted({str(result.body["id"]) for result in results if isinstance(result, Answer)})
    if not ids:
        return list(results)
    found = Intent.objects.select_related("run", "payload").prefetch_related("commits__payload").filter(id__in=ids)
    shown = masked_for(caller, intent_bodies(list(found), Facts.of_intents(ids)))
    bodies = {body["id"]: body for body in shown}
    return [
        Answer(status=result.status, body={**bodies[str(result.body["id"])], **result.body})
        if isinstance(result, Answer)
        else result
        for result in results
    ]


def resolve_intent(intent_id: str, request: ResolveIntent, caller: Caller) -> Result:
    """Take a person's word for an effect that nobody knows (`POST /intents/{id}/resolve`; L6)."""
    return in_transaction(lambda: _resolve_intent(intent_id, request, caller))


def _resolve_intent(intent_id: str, request: ResolveIntent, caller: Caller) -> Result:
    writes = Writes(caller)
    known = _uuid(intent_id)
    if known is None or not Intent.objects.filter(id=known).exists():
        result: Result = writes.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such intent."), "outcome")
        writes.send()
        return result
    facts = lock_effects([str(known)])
    effect = Effect(facts.intents[str(known)], facts, writes)
    effect.expire_leases()
    result = _resolve(effect, request)
    if isinstance(result, Refusal):
        writes.refuse(result, "outcome", run=effect.run.name, tool=effect.intent.row["tool"])
    writes.send()
    return _with_bodies([result], caller)[0]


def _resolve(effect: Effect, request: ResolveIntent) -> Result:
    recorded = intents.resolve(effect.intent.pure(), happened=request.happened, now=effect.facts.now)
    if isinstance(recorded, Refusal):
        return _resolved_before(effect, request) or recorded
    effect.person_says(recorded, happened=request.happened, evidence=request.evidence)
    after = {"happened": request.happened}
    effect.writes.audit(
        "resolve_intent", "intent", effect.intent.id, run=effect.run.name, after=after, reason=request.evidence
    )
    return Answer(status=OK, body={"id": effect.intent.id})


def _resolved_before(effect: Effect, request: ResolveIntent) -> Result | None:
    """Answer a decision that was taken before: the same one again is a duplicate, another comes too late."""
    last = (
        Outcome.objects.filter(delivery__intent_id=effect.intent.id, source="person")
        .select_related("person")
        .order_by("-recorded_at", "-id")
        .first()
    )
    if last is None:
        return None
    kind = "succeeded" if request.happened else "not_happened"
    if last.outcome == kind and last.person_id == effect.writes.caller.person_id and last.evidence == request.evidence:
        effect.writes.count("duplicates")
        return Answer(status=OK, body={"id": effect.intent.id, "duplicate": True})
    by = last.person.get_username() if last.person else None
    extras = {"decided_by": by, "decided_at": last.recorded_at}
    return Refusal(code=Code.ALREADY_DECIDED, detail=f"{by} resolved it already: {last.outcome}.", extras=extras)


def sweep_intents(limit: int = 200) -> int:
    """Close leases that ran out, and hand to people what may not be repeated (L5). Gives how many were looked at."""
    ids = [
        str(found)
        for found in Intent.objects.filter(due_at__lte=read_clock())
        .order_by("due_at")
        .values_list("id", flat=True)[:limit]
    ]
    for intent_id in ids:
        in_transaction(lambda intent_id=intent_id: _sweep(intent_id))  # type: ignore[misc]
    return len(ids)


def _sweep(intent_id: str) -> None:
    writes = Writes(SYSTEM)
    facts = lock_effects([intent_id])
    effect = Effect(facts.intents[intent_id], facts, writes)
    if effect.intent.row["due_at"] is None:
        return
    before = effect.intent.row["due_at"]
    effect.expire_leases()
    effect.doubt_if_stuck()
    if effect.intent.row["due_at"] == before:
        writes.update("intent", intent_id, due_at=None)
    writes.send()
