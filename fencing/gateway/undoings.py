"""The one delivery of an approval: its token, its admission, its outcome, and the end of its lease (P5, P7, I2)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef

from fencing.gateway.acts import Act, as_id, pure_try
from fencing.models import Compensation, CompensationDelivery, CompensationRelease
from fencing.models.facts import lock_steps, lookup_of, read_clock
from fencing.models.fields import uuid7
from fencing.models.registry import current_registry
from fencing.protocol import approvals, deciding, intents, tokens
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import SYSTEM, Caller
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.freezes import check_frozen
from fencing.protocol.intents import Kind
from fencing.protocol.objects import outcome_object, rfc3339
from fencing.queries.compensations import compensation_body
from fencing.services import signing
from fencing.services.requests import Admit, ReportOutcome
from fencing.services.writes import Writes, in_transaction

BEFORE_THE_LATER = (State.APPROVED.value, State.IN_FLIGHT.value, State.IN_DOUBT.value)


# ---- tokens (K2) ----


def release_due(limit: int = 100) -> int:
    """Mint the tokens of what was approved (the fencer's alone, F9). Gives how many."""
    released = CompensationRelease.objects.filter(compensation=OuterRef("pk"), round=OuterRef("round"))
    ids = Compensation.objects.filter(~Exists(released), state="approved").values_list("pk", flat=True)[:limit]
    return sum(in_transaction(lambda known=known: _release(known)) for known in list(ids))  # type: ignore[misc]


def _release(compensation_id: uuid.UUID) -> int:
    writes = Writes(SYSTEM)
    act = Act.locked(compensation_id, writes)
    if act is None or act.state is not State.APPROVED or act.row.payload is None:
        return 0
    if CompensationRelease.objects.filter(compensation=act.row, round=act.row.round).exists():
        return 0
    release, key, signing_key = str(uuid7()), f"compensation:{act.id}:{act.row.round}", signing.signing_key()
    claims = tokens.Claims(
        jti=release,
        iat=int(act.now.timestamp()),
        run=act.run,
        compensation=act.id,
        tool=act.row.payload.tool,
        dig=act.row.payload_id,
        key=key,
        auth="approval",
    )
    writes.insert(
        "compensationrelease",
        id=release,
        compensation_id=act.id,
        round=act.row.round,
        payload_id=act.row.payload_id,
        key=key,
        token=tokens.mint(claims, signing_key),
        kid=signing_key.kid,
        released_at=act.now,
    )
    after = {"payload_digest": act.row.payload_id, "round": act.row.round}
    writes.audit("release_compensation", "compensation", act.id, run=act.run, after=after)
    if act.is_pushed:
        writes.wake("deliver")
    else:
        writes.signal(f"gateway:{act.row.payload.tool}")
    writes.send()
    return 1


# ---- admission ----


def releases_named(requests: Sequence[Admit]) -> dict[str, str]:
    """The tokens among these that name a compensation: the compensation by the token."""
    jtis = {request.token: as_id(tokens.peek_jti(request.token)) for request in requests if request.token}
    wanted = {jti for jti in jtis.values() if jti is not None}
    if not wanted:
        return {}
    found = dict(CompensationRelease.objects.filter(pk__in=wanted).values_list("pk", "compensation_id"))
    return {str(token): str(found[jti]) for token, jti in jtis.items() if jti in found}


def admit(request: Admit, compensation_id: str, caller: Caller) -> Result:
    """Let the one call of an approval through, or refuse it (L3, L4, P5)."""
    return in_transaction(lambda: _admit(request, compensation_id, caller))


def _admit(request: Admit, compensation_id: str, caller: Caller) -> Result:
    writes = Writes(caller)
    registry = current_registry()
    action = read_action(request.action, lookup_of(registry), at="/action")
    if isinstance(action, Refusal):
        writes.refuse(action, "admission", run=request.run, step=request.step, epoch=request.epoch)
        writes.send()
        return action
    act, result = judged(request, action, compensation_id, writes)
    if isinstance(result, Refusal):
        writes.refuse(result, "admission", **{**act.subject, "tool": action.tool, "digest": action.payload_digest})
    writes.send()
    return result


def judged(request: Admit, action: Action, compensation_id: str, writes: Writes) -> tuple[Act, Result]:
    """Judge the call of an approval under its locks; the delivery of what is let through is among the `writes`."""
    run = Compensation.objects.filter(pk=compensation_id).values_list("run__name", flat=True).first()
    freezes = lock_steps([(run or "", "")], strength="admit").freezes  # L10, before every other lock
    act = Act.locked(compensation_id, writes)
    if act is None:
        raise AssertionError("what is released is there")
    return act, _judge(request, action, act) or _frozen(act, action, freezes) or _deliver(act)


def _judge(request: Admit, action: Action, act: Act) -> Refusal | None:
    release = CompensationRelease.objects.get(pk=tokens.peek_jti(request.token or "") or "")
    scope = act.writes.caller.tools
    if scope is not None and action.tool not in scope:
        return Refusal(code=Code.FORBIDDEN_ROLE, detail=f"This key is not for {action.tool}.")
    if release.token != request.token:
        detail = "The token is not the one that was minted for its approval."
        return Refusal(code=Code.BAD_TOKEN, detail=detail, pointer="/token")
    return approvals.judge(
        approvals.Call(action=action, run=request.run, step=request.step, epoch=request.epoch),
        run=act.run,
        state=act.state,
        is_current=release.round == act.row.round,
        payload=release.payload_id,
        definition=act.definition,
    )


def _frozen(act: Act, action: Action, freezes: Any) -> Refusal | None:
    return check_frozen(freezes, run=act.run, tool=action.tool)


def _deliver(act: Act) -> Result:
    verdict = deciding.admit(
        act.state,
        [each for _, each in act.tries],
        is_behind=is_behind(act.row),
        not_before=act.row.not_before,
        now=act.now,
    )
    match verdict:
        case Refusal():
            return verdict
        case deciding.Done():
            act.writes.count("admissions_repeated")
            body = {"admit": False, "compensation": act.id, "outcome": _outcome(act)}
            return Answer(status=OK, body=body)
        case deciding.Admitted():
            return _opened(act, verdict.number)


def is_behind(row: Compensation) -> bool:
    """Whether a later effect of the run is approved, and not undone yet: it goes first (P7)."""
    if row.run_id is None or row.effect_at is None:
        return False
    later = Compensation.objects.filter(run_id=row.run_id, effect_at__gt=row.effect_at, state__in=BEFORE_THE_LATER)
    return later.exists()


def _outcome(act: Act) -> Any:
    row = act.tries[-1][0] if act.tries else None
    told = None if row is None else row.outcomes.filter(is_effective=True).order_by("-recorded_at").first()
    if told is None:
        return None
    response = None if told.response is None else json.loads(bytes(told.response))
    return outcome_object(outcome=told.outcome, response=response, at=told.recorded_at, by=None)


def _opened(act: Act, number: int) -> Answer:
    writes = act.writes
    release = CompensationRelease.objects.get(compensation=act.row, round=act.row.round)
    lease_until = act.now + timedelta(seconds=act.retries.lease_s)
    key = intents.idempotency_key(act.run or "-", release.key, act.row.round)
    delivery = writes.insert(
        "compensationdelivery",
        compensation_id=act.id,
        release_id=str(release.pk),
        number=number,
        payload_id=release.payload_id,
        idempotency_key=key,
        lease_until=lease_until,
        by_id=writes.caller.credential_id,
        admitted_at=act.now,
    )
    act.move(State.IN_FLIGHT, due_at=lease_until, not_before=None)
    after = {"compensation": act.id, "number": number, "payload_digest": release.payload_id, "idempotency_key": key}
    writes.audit("admit", "delivery", delivery, run=act.run, after=after)
    body = {
        "admit": True,
        "compensation": act.id,
        "delivery": delivery,
        "idempotency_key": key,
        "lease_until": rfc3339(lease_until),
    }
    return Answer(status=OK, body=body)


# ---- outcomes ----


def report(request: ReportOutcome, caller: Caller) -> Result:
    """Record what became of the delivery of a compensation (P5)."""
    return in_transaction(lambda: _report(request, caller))


def _report(request: ReportOutcome, caller: Caller) -> Result:
    writes = Writes(caller)
    delivery = as_id(request.delivery)
    row = None if delivery is None else CompensationDelivery.objects.filter(pk=delivery).first()
    if row is None or row.compensation_id != as_id(request.compensation):
        detail = "There is no such delivery of this compensation."
        refusal = writes.refuse(Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/delivery"), "outcome")
        writes.send()
        return refusal
    act = Act.locked(row.compensation_id, writes)
    if act is None:
        raise AssertionError("what was delivered is there")
    result = _recorded(act, row, request)
    if isinstance(result, Refusal):
        writes.refuse(result, "outcome", **act.subject)
    writes.send()
    if isinstance(result, Refusal):
        return result
    return Answer(status=result.status, body={**compensation_body(row.compensation_id, caller), **result.body})


def _recorded(act: Act, row: CompensationDelivery, request: ReportOutcome) -> Result:
    scope = act.writes.caller.tools
    if scope is not None and (act.row.payload is None or act.row.payload.tool not in scope):
        return Refusal(code=Code.FORBIDDEN_ROLE, detail="This key is not for that tool.")
    response = None if request.response is None else canonical_bytes(request.response)
    told = Told(outcome=Kind(request.outcome), source="report", response=response, retry_after_s=request.retry_after)
    recorded = write_outcome(act, row, told)
    if recorded.refusal is not None:
        return recorded.refusal
    if not recorded.is_news:
        act.writes.count("duplicates")
        return Answer(status=OK, body={"duplicate": True})
    return Answer(status=OK, body={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of a delivery, and who says so: a report, a call of our own (`push`), or a lease that ran out.

    `retry_after_s` is the tool's own word, `pause_s` the back-off of who calls push tools; `response` canonical JSON.
    """

    outcome: Kind
    source: str
    response: bytes | None = None
    retry_after_s: float | None = None
    pause_s: float | None = None
    evidence: str | None = None


def write_outcome(act: Act, row: CompensationDelivery, told: Told) -> deciding.Recorded:
    """Judge and write down what became of a delivery, and what follows from it."""
    known = {str(each.pk): pure for each, pure in act.tries}
    pure = known.get(str(row.pk)) or pure_try(row)
    recorded = deciding.report(
        act.state,
        pure,
        is_newest=bool(act.tries) and str(act.tries[-1][0].pk) == str(row.pk),
        outcome=told.outcome,
        retry_after_s=told.retry_after_s,
        now=act.now,
        pause_s=told.pause_s,
        is_contradicted=act.state is State.IN_DOUBT and act.is_contradicted,
    )
    if not recorded.is_news:
        return recorded
    act.writes.insert(
        "compensationoutcome",
        delivery_id=str(row.pk),
        outcome=told.outcome.value,
        source=told.source,
        is_effective=recorded.is_effective,
        response=told.response,
        retry_after_s=told.retry_after_s,
        evidence=told.evidence,
        by_id=act.writes.caller.credential_id,
        recorded_at=act.now,
    )
    after = {"compensation": act.id, "number": row.number, "outcome": told.outcome.value, "source": told.source}
    act.writes.audit("record_outcome", "delivery", str(row.pk), run=act.run, after=after)
    _follow(act, recorded)
    return recorded


def _follow(act: Act, recorded: deciding.Recorded) -> None:
    match recorded.state:
        case State.DONE:
            act.finish()
        case State.PROPOSED:
            act.put_back(reason="the tool says that it failed")
        case State.APPROVED:
            act.wait_again(not_before=recorded.not_before)
        case State.IN_DOUBT:
            if act.state is not State.IN_DOUBT:
                act.move(State.IN_DOUBT, due_at=None, not_before=None)
        case _:
            pass
    if recorded.has_conflict:
        act.open_incident("Two reports about one undoing contradict each other. The first stays; a person must look.")


def sweep_compensations(limit: int = 100) -> int:
    """Close leases of undoings that ran out: nobody knows, and no machine tries again (P5)."""
    due = Compensation.objects.filter(due_at__lte=read_clock(), state="in_flight").order_by("due_at")
    ids = list(due.values_list("pk", flat=True)[:limit])
    for known in ids:
        in_transaction(lambda known=known: _sweep(known))  # type: ignore[misc]
    return len(ids)


def _sweep(compensation_id: uuid.UUID) -> None:
    writes = Writes(SYSTEM)
    act = Act.locked(compensation_id, writes)
    if act is None or act.state is not State.IN_FLIGHT or not act.tries:
        return
    row, pure = act.tries[-1]
    if pure.is_open and act.now >= pure.lease_until:
        write_outcome(act, row, Told(outcome=Kind.UNKNOWN, source="lease"))
    writes.send()
