"""What people do about effects that should not have stayed: approve, waive, record, resolve, ask (P1 to P6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencing.gateway.acts import Act, as_id
from fencing.gateway.effects import Effect, lock_effects
from fencing.models import Action as ActionRow
from fencing.models import Compensation, Incident, Intent, ObservedEffect
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import compensations, deciding, intents
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.compensations import Cause, State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Kind
from fencing.protocol.tools import Policy
from fencing.queries.compensations import compensation_body
from fencing.services import undoing as following
from fencing.services.requests import (
    ApproveCompensation,
    AskCompensation,
    RecordCompensation,
    ResolveCompensation,
    WaiveCompensation,
)
from fencing.services.writes import Writes, in_transaction

SAME = Answer(status=OK, body={"duplicate": True})


def approve(compensation_id: str, request: ApproveCompensation, caller: Caller) -> Result:
    """Approve exactly what was shown (`POST /compensations/{id}/approve`; P2 to P4)."""
    return _act(compensation_id, caller, lambda act: _approve(act, request))


def waive(compensation_id: str, request: WaiveCompensation, caller: Caller) -> Result:
    """Let the effect stand (`POST /compensations/{id}/waive`; P6)."""
    return _act(compensation_id, caller, lambda act: _waive(act, request))


def record(compensation_id: str, request: RecordCompensation, caller: Caller) -> Result:
    """Record what was done by hand (`POST /compensations/{id}/record`; P6)."""
    return _act(compensation_id, caller, lambda act: _record(act, request))


def resolve(compensation_id: str, request: ResolveCompensation, caller: Caller) -> Result:
    """Say whether an act in doubt happened (`POST /compensations/{id}/resolve`; P5)."""
    return _act(compensation_id, caller, lambda act: _resolve(act, request))


def _act(compensation_id: str, caller: Caller, judge: Callable[[Act], Result]) -> Result:
    return in_transaction(lambda: _acted(compensation_id, caller, judge))


def _acted(compensation_id: str, caller: Caller, judge: Callable[[Act], Result]) -> Result:
    writes = Writes(caller)
    known = as_id(compensation_id)
    act = None if known is None else Act.locked(known, writes)
    if act is None:
        refusal = Refusal(code=Code.NOT_FOUND, detail=f"There is no compensation {compensation_id}.")
        result: Result = writes.refuse(refusal, "compensation")
    else:
        result = judge(act)
        if isinstance(result, Refusal):
            writes.refuse(result, "compensation", **act.subject)
    writes.send()
    return _with_body(result, compensation_id, caller)


def _with_body(result: Result, compensation_id: str, caller: Caller) -> Result:
    if isinstance(result, Refusal):
        return result
    return Answer(status=result.status, body={**compensation_body(compensation_id, caller), **result.body})


def _person(act: Act) -> int:
    person = act.writes.caller.person_id
    if person is None:
        raise AssertionError("only people decide on compensations")
    return person


def _decided(act: Act, **more: Any) -> dict[str, Any]:
    """The columns of a decision: by whom, when, and the digest of what was seen."""
    return {
        "decider_id": _person(act),
        "decided_at": act.now,
        "seen_digest": act.row.payload_id,
        **more,
    }


def _approve(act: Act, request: ApproveCompensation) -> Result:
    verdict = deciding.approve(act.pure(), person=_person(act), digest=request.digest)
    match verdict:
        case Refusal():
            return verdict
        case deciding.Same():
            act.writes.count("duplicates")
            return SAME
        case deciding.Approved():
            _approved(act, request, is_last=verdict.is_last)
            return Answer(status=OK, body={})


def _approved(act: Act, request: ApproveCompensation, *, is_last: bool) -> None:
    writes = act.writes
    writes.insert(
        "compensationapproval",
        compensation_id=act.id,
        round=act.row.round,
        person_id=_person(act),
        digest=request.digest,
        reason=request.reason,
        by_id=writes.caller.credential_id,
        approved_at=act.now,
    )
    after = {"payload_digest": request.digest, "approvals": len(act.approvals) + 1, "needed": act.row.needed}
    writes.audit("approve_compensation", "compensation", act.id, run=act.run, after=after, reason=request.reason)
    if is_last:
        act.move(State.APPROVED, why=request.reason, **_decided(act))
        writes.wake("fence")


def _waive(act: Act, request: WaiveCompensation) -> Result:
    if _is_same(act, State.WAIVED, request.reason):
        act.writes.count("duplicates")
        return SAME
    refusal = deciding.waive(act.pure(), digest=request.digest)
    if refusal is not None:
        return refusal
    act.move(State.WAIVED, why=request.reason, **_decided(act, reason=request.reason))
    act.close_escape()
    act.writes.audit("waive_compensation", "compensation", act.id, run=act.run, reason=request.reason)
    return Answer(status=OK, body={})


def _is_same(act: Act, state: State, reason: str) -> bool:
    mine = act.row.decider_id == act.writes.caller.person_id
    return act.state is state and mine and reason in (act.row.reason, act.row.evidence)


def _record(act: Act, request: RecordCompensation) -> Result:
    if _is_same(act, State.DONE, request.evidence):
        act.writes.count("duplicates")
        return SAME
    refusal = deciding.record(act.pure())
    if refusal is not None:
        return refusal
    if request.external_id is not None and _is_on_record(act, request.external_id):
        detail = f"The ledger row {request.external_id} of {act.row.tool} is on record already."
        return Refusal(code=Code.EFFECT_CONFLICT, detail=detail, pointer="/external_id")
    act.move(
        State.DONE,
        why=request.evidence,
        **_decided(act, evidence=request.evidence, external_id=request.external_id),
    )
    act.close_escape()
    if request.external_id is not None:
        _note_ledger_row(act, request.external_id)
    act.writes.audit("record_compensation", "compensation", act.id, run=act.run, reason=request.evidence)
    return Answer(status=OK, body={})


def _is_on_record(act: Act, external_id: str) -> bool:
    return ObservedEffect.objects.filter(tool=act.row.tool, external_id=external_id).exists()


def _note_ledger_row(act: Act, external_id: str) -> None:
    """So that the tool's own ledger, when it tells of what was done by hand, tells nothing new (L8)."""
    act.writes.insert(
        "observedeffect",
        tool=act.row.tool,
        external_id=external_id,
        match=ObservedEffect.Match.COMPENSATION.value,
        run_id=act.row.run_id,
        resources=act.row.resources,
        source=ObservedEffect.Source.RECORD.value,
        by_id=act.writes.caller.credential_id,
        person_id=_person(act),
        observed_at=act.now,
        is_open=False,
    )


def _resolve(act: Act, request: ResolveCompensation) -> Result:
    refusal = deciding.resolve(act.pure())
    if refusal is not None:
        return _resolved_before(act, request) or refusal
    row, pure = act.tries[-1]
    kind = Kind.SUCCEEDED if request.happened else Kind.NOT_HAPPENED
    act.writes.insert(
        "compensationoutcome",
        delivery_id=str(row.pk),
        outcome=kind.value,
        source="person",
        # What a report settled stays beside the person's word.
        is_effective=pure.outcome not in (Kind.SUCCEEDED, Kind.FAILED),
        person_id=_person(act),
        evidence=request.evidence,
        by_id=act.writes.caller.credential_id,
        recorded_at=act.now,
    )
    after = {"happened": request.happened}
    act.writes.audit("resolve_compensation", "compensation", act.id, run=act.run, after=after, reason=request.evidence)
    if request.happened:
        act.finish(reason=request.evidence)
    else:
        act.put_back(reason=request.evidence)
    return Answer(status=OK, body={})


def _resolved_before(act: Act, request: ResolveCompensation) -> Result | None:
    kind = "succeeded" if request.happened else "not_happened"
    told = following.last_word(act.id)
    if told is None:
        return None
    mine = (told.person_id, told.outcome, told.evidence) == (_person(act), kind, request.evidence)
    if mine:
        act.writes.count("duplicates")
        return SAME
    by = told.person.get_username() if told.person else None
    extras = {"decided_by": by, "decided_at": told.recorded_at}
    return Refusal(code=Code.ALREADY_DECIDED, detail=f"{by} resolved it already: {told.outcome}.", extras=extras)


# ---- asking (P1) ----


def ask(request: AskCompensation, caller: Caller) -> Result:
    """Ask that an effect be undone, with a reason (`POST /compensations`; P1)."""
    return in_transaction(lambda: _ask(request, caller))


def _ask(request: AskCompensation, caller: Caller) -> Result:
    writes = Writes(caller)
    if (request.intent is None) == (request.incident is None):
        refusal = Refusal(code=Code.INVALID_VALUE, detail="Name an intent or an incident.", pointer="/intent")
        result: Result = writes.refuse(refusal, "compensation")
    else:
        result = _ask_about(request, writes)
        if isinstance(result, Refusal):
            writes.refuse(result, "compensation", **_subject(request))
    writes.send()
    return _with_body(result, str(result.body["id"]), caller) if isinstance(result, Answer) else result


def _subject(request: AskCompensation) -> dict[str, Any]:
    """What a refused question was about, as far as it is there (S1)."""
    intent, incident = as_id(request.intent), as_id(request.incident)
    if intent is not None:
        told = Intent.objects.filter(pk=intent).values_list("run__name", "tool").first()
        return {} if told is None else {"run": told[0], "tool": told[1]}
    about = None if incident is None else Incident.objects.filter(pk=incident).values_list("run__name", "resources")
    seen = None if about is None else about.first()
    return {} if seen is None else {"run": seen[0], "resources": seen[1]}


def _ask_about(request: AskCompensation, writes: Writes) -> Result:
    if request.intent is not None:
        known = as_id(request.intent)
        if known is None or not Intent.objects.filter(pk=known).exists():
            return Refusal(code=Code.NOT_FOUND, detail=f"There is no intent {request.intent}.", pointer="/intent")
        return _ask_of_intent(str(known), None, request, writes)
    known = as_id(request.incident)
    incident = None if known is None else Incident.objects.filter(pk=known).select_related("effect").first()
    if incident is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no incident {request.incident}.", pointer="/incident")
    if incident.effect is not None and incident.effect.match in ("escape", "doubled"):
        return _ask_of_effect(incident, request, writes)
    if incident.intent_id is None:
        return _nothing("No effect of a tool is behind this incident.")
    return _ask_of_intent(str(incident.intent_id), incident, request, writes)


def _ask_of_intent(intent_id: str, incident: Incident | None, request: AskCompensation, writes: Writes) -> Result:
    facts = lock_effects([intent_id])
    effect = Effect(facts.intents[intent_id], facts, writes)
    newest = (
        Compensation.objects.select_for_update()
        .filter(intent_id=intent_id, effect=None)
        .order_by("-proposed_at")
        .first()
    )
    if newest is not None and State(newest.state) in compensations.OPEN:
        return _there_already(newest, request, writes)
    if effect.intent.row["state"] != intents.State.SUCCEEDED:
        return _nothing(f"The intent is {effect.intent.row['state']}: only what succeeded is undone.")
    if newest is not None and newest.state == State.DONE:
        return _nothing("The effect is undone already.")
    made = following.propose(
        effect.intent,
        facts,
        writes,
        run=effect.run.name,
        cause=Cause.REQUESTED,
        requester_id=writes.caller.person_id,
        request_reason=request.reason,
        incident_id=None if incident is None else str(incident.pk),
    )
    return Answer(status=CREATED, body={"id": made})


def _ask_of_effect(incident: Incident, request: AskCompensation, writes: Writes) -> Result:
    observed = ObservedEffect.objects.select_for_update(of=("self",)).get(incidents=incident)
    acts = list(Compensation.objects.select_for_update().filter(effect=observed).order_by("proposed_at"))
    for each in acts:
        if State(each.state) in compensations.OPEN:
            return _there_already(each, request, writes)
    if observed.adopted_by_id is not None or any(each.state == State.DONE for each in acts):
        return _nothing("The effect is wanted by now, or undone already.")
    registry = current_registry()
    definition = registry_at(registry).get(observed.tool)
    stored = None if observed.digest is None else ActionRow.objects.filter(payload_digest=observed.digest).first()
    built = (
        None
        if stored is None
        else compensations.undoing_of_bytes(definition, bytes(stored.canonical), registry_at(registry).get)
    )
    if built is not None:
        writes.action(built)
    made = writes.insert(
        "compensation",
        run_id=observed.run_id,
        intent_id=observed.intent_id,
        effect_id=str(observed.pk),
        incident_id=str(incident.pk),
        state="proposed",
        cause=Cause.REQUESTED.value,
        tool=observed.tool,
        payload_id=None if built is None else built.payload_digest,
        registry=registry,
        needed=(Policy() if definition is None else definition.policy).compensation_approvals,
        resources=observed.resources,
        proposed_at=read_clock(),
        requester_id=writes.caller.person_id,
        request_reason=request.reason,
        effect_at=observed.occurred_at or observed.observed_at,
        round=1,
    )
    after = {"cause": "requested", "effect": str(observed.pk)}
    writes.audit("propose_compensation", "compensation", made, after=after, reason=request.reason)
    return Answer(status=CREATED, body={"id": made})


def _there_already(row: Compensation, request: AskCompensation, writes: Writes) -> Result:
    if row.requester_id == writes.caller.person_id and row.request_reason == request.reason:
        writes.count("duplicates")
        return Answer(status=OK, body={"id": str(row.pk), "duplicate": True})
    detail = f"It is asked about already: compensation {row.pk} is {row.state}."
    return Refusal(code=Code.ALREADY_PROPOSED, detail=detail, extras={"compensation": str(row.pk)})


def _nothing(detail: str) -> Refusal:
    return Refusal(code=Code.NOTHING_TO_UNDO, detail=detail)
