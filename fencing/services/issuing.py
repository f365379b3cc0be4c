"""Issuing grants (G1, G4, G6): one, or many at once, each judged alone, in one transaction and few statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fencing.models import Grant, Step
from fencing.models.bodies import grant_bodies
from fencing.models.facts import Facts, RunFacts, lock_steps
from fencing.models.registry import registry_at
from fencing.protocol import fence, grants
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.asking import Circumstances, check_circumstances
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.rules import rules_of
from fencing.services.identity import content_digest
from fencing.services.requests import IssueGrant
from fencing.services.runs import check_run
from fencing.services.writes import Writes, in_transaction

UNDECIDED = [phase.value for phase in fence.UNDECIDED]


def issue_grant(request: IssueGrant, caller: Caller) -> Result:
    """Issue a grant in the caller's name (`POST /grants`; G1, G4, G6)."""
    return issue_grants([request], caller)[0]


def issue_grants(requests: Sequence[IssueGrant], caller: Caller) -> list[Result]:
    """Issue several grants in the caller's name; what is refused does not hurt the others."""
    return in_transaction(lambda: _issue_grants(requests, caller))


def overdue_reviews(person_id: int | None, now: datetime) -> list[str]:
    """The grants of an issuer whose review by another person is overdue (G6)."""
    owed = Grant.objects.filter(issuer_id=person_id, reviewed_at__isnull=True, review_due_at__lte=now)
    return list(owed.order_by("review_due_at").values_list("name", flat=True))


@dataclass(kw_only=True)
class _Batch:
    """What is known before the first grant is judged, and the contents of those that were issued on the way."""

    facts: Facts
    writes: Writes
    earlier: Mapping[str, Grant]
    overdue: Sequence[str]
    contents: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A grant that is there: issued just now, or before with the same content."""

    name: str
    is_new: bool


def _issue_grants(requests: Sequence[IssueGrant], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    # Alone on the runs: what a grant covers changes for every step in them.
    facts = lock_steps([(request.run, request.step or "") for request in requests], strength="update")
    earlier = Grant.objects.filter(name__in={request.name for request in requests})
    batch = _Batch(
        facts=facts,
        writes=writes,
        earlier={grant.name: grant for grant in earlier},
        overdue=overdue_reviews(caller.person_id, facts.now),
    )
    done = [_issue_or_refuse(request, batch) for request in requests]
    writes.send()
    bodies = _bodies([each.name for each in done if isinstance(each, _Done)], facts.now)
    return [each if isinstance(each, Refusal) else _answer(each, bodies) for each in done]


def _bodies(names: Iterable[str], now: datetime) -> dict[str, dict[str, Any]]:
    found = list(Grant.objects.select_related("run", "issuer").filter(name__in=set(names)))
    return {body["name"]: body for body in grant_bodies(found, now)}


def _answer(done: _Done, bodies: Mapping[str, dict[str, Any]]) -> Answer:
    body = bodies[done.name]
    return Answer(status=CREATED, body=body) if done.is_new else Answer(status=OK, body={**body, "duplicate": True})


def _issue_or_refuse(request: IssueGrant, batch: _Batch) -> _Done | Refusal:
    result = _issue(request, batch)
    if isinstance(result, Refusal):
        scope = {name: getattr(request, name) for name in ("run", "step", "epoch", "path", "tool")}
        batch.writes.refuse(result, "grant", **scope)
    return result


def _issue(request: IssueGrant, batch: _Batch) -> _Done | Refusal:
    facts, writes = batch.facts, batch.writes
    definition = None if request.tool is None else registry_at(facts.registry).get(request.tool)
    if request.tool is not None and definition is None:
        return Refusal(code=Code.UNKNOWN_TOOL, detail=f"No tool {request.tool} is registered.", pointer="/tool")
    rules = None if definition is None else rules_of(definition)
    wanted = wanted_of(request, rules)
    content = content_digest(request, path=wanted.path)  # a default that is spelt out is the same content
    if request.name in batch.earlier or request.name in batch.contents:
        return _repeated(request.name, content, batch)
    refusal = grants.check_form(wanted, reason=request.reason, rules=rules)
    run = facts.runs.get(request.run)
    refusal = refusal or check_run(run, request.run, writes.caller)
    if refusal is not None or run is None:
        return refusal or Refusal(code=Code.NOT_FOUND, detail="")
    refusal = check_circumstances(wanted, _circumstances(request, run, batch))
    if refusal is not None:
        return refusal
    batch.contents[request.name] = content
    _record(request, run, content, wanted, batch)
    return _Done(name=request.name, is_new=True)


def wanted_of(request: IssueGrant, rules: fence.Rules | None) -> grants.Grant:
    """The grant as it would be, for the pure core to judge."""
    return grants.Grant(
        name=request.name,
        epoch=request.epoch,
        step=request.step,
        tool=request.tool,
        path=request.path or "production",
        digest=request.digest,
        max_uses=request.max_uses,
        uses=0,
        ttl_s=request.ttl_s,
        approvals=0,
        approvals_needed=None if rules is None else rules.grant_approvals - 1,
        pending_until=None,
        expires_at=None,
    )


def _repeated(name: str, content: str, batch: _Batch) -> _Done | Refusal:
    earlier = batch.earlier.get(name)
    same = batch.contents.get(name) if earlier is None else earlier.content_digest
    is_mine = earlier is None or earlier.issuer_id == batch.writes.caller.person_id
    if same == content and is_mine:
        batch.writes.count("duplicates")
        return _Done(name=name, is_new=False)
    detail = "A grant of this name exists with another scope or issuer. None can be edited: issue one by a new name."
    return Refusal(code=Code.GRANT_CONFLICT, detail=detail, pointer="/name")


def _circumstances(request: IssueGrant, run: RunFacts, batch: _Batch) -> Circumstances:
    facts = batch.facts
    own = run.epoch if request.step is None else facts.own_epoch(run, request.step)
    rows = [] if request.step is None else facts.known(run.name, request.step)
    return Circumstances(
        run=run.name,
        own=own,
        known=next((each for each in rows if each.step.epoch == own), None),
        others=facts.grants_of(run),
        freezes=facts.freezes,
        overdue=batch.overdue,
        now=facts.now,
    )


def _record(request: IssueGrant, run: RunFacts, content: str, wanted: grants.Grant, batch: _Batch) -> None:
    facts, writes = batch.facts, batch.writes
    issued = grants.issued(wanted, facts.now)
    is_pending = issued.expires_at is None
    end = issued.pending_until or issued.expires_at or facts.now
    scope = {
        "epoch": request.epoch,
        "step_name": request.step,
        "tool": request.tool,
        "path": wanted.path,
        "digest": request.digest,
    }
    limits = {
        "max_uses": request.max_uses,
        "uses": 0,
        "ttl_s": request.ttl_s,
        "approvals_needed": wanted.approvals_needed,
    }
    times = {
        "pending_until": issued.pending_until,
        "expires_at": issued.expires_at,
        "due_at": end,
        "review_due_at": issued.review_due_at,
    }
    said = {"reason": request.reason, "content_digest": content, "revoke_reason": "", "void_reason": ""}
    begun = {"issued_at": facts.now, "live_at": None if is_pending else facts.now}
    owner = {"issuer_id": writes.caller.person_id, "by_id": writes.caller.credential_id}
    grant_id = writes.insert(
        "grant", name=request.name, run_id=run.id, **scope, **limits, **times, **begun, **said, **owner
    )
    after = {**scope, **limits, "state": "pending" if is_pending else "live", "until": end.isoformat()}
    writes.audit("issue_grant", "grant", request.name, run=run.name, after=after, reason=request.reason)
    # The next grant of the same bulk sees this one.
    absent = dict.fromkeys(("expired_at", "revoked_at", "voided_at", "reviewed_at"))
    written = {name: None if at is None else at.isoformat() for name, at in times.items()}
    row = {"id": grant_id, "run_id": run.id, "name": request.name, "approvals": 0, "void_reason": ""}
    facts.grants[grant_id] = {**row, **scope, **limits, **absent, **written}
    if not is_pending:
        wake_steps(run, request.epoch, request.step, facts, writes)


def wake_steps(run: RunFacts, epoch: int, step: str | None, facts: Facts, writes: Writes) -> None:
    """Have the fencer look again at the undecided steps that a grant may cover. The run must be locked for update."""
    if step is None:
        Step.objects.filter(run_id=run.id, epoch=epoch, phase__in=UNDECIDED).update(due_at=facts.now)
    for each in [] if step is None else facts.epochs_of(run.name, step):
        if each.epoch == epoch and each.phase in fence.UNDECIDED:
            writes.update("step", each.id, due_at=facts.now)
    writes.wake("fence")
