"""Runs: opening one, and restarting its planner in a fresh epoch (protocol, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencing.models import EpochOpening, Run
from fencing.models.bodies import run_bodies
from fencing.models.facts import Facts, RunFacts, StepFacts, lock_run, pure_grant
from fencing.protocol import fence, grants
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.epochs import restart_number
from fencing.protocol.errors import Code, Refusal
from fencing.services.identity import content_digest
from fencing.services.requests import OpenRun, RestartRun
from fencing.services.taking_back import drop_claim, take_back, touch
from fencing.services.writes import Writes, in_transaction


def open_runs(requests: Sequence[OpenRun], caller: Caller) -> list[Result]:
    """Open runs (`POST /runs`). Repeated alike it answers with the run's current epoch (N2); otherwise `run_exists`."""
    return in_transaction(lambda: _open_runs(requests, caller))


def _open_runs(requests: Sequence[OpenRun], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    known = {run.name: run for run in Run.objects.filter(name__in={request.run for request in requests})}
    results: list[Result] = []
    for request in requests:
        digest = content_digest(request, labels=request.labels or None)
        run = known.get(request.run)
        if run is None:
            known[request.run] = run = _opened(request, digest, caller, writes)
            results.append(Answer(status=CREATED, body=run_bodies([run])[0]))
        elif run.owner_group != caller.group or run.content_digest != digest:
            results.append(
                writes.refuse(_why_not(run, caller), "run", run=request.run, epoch=request.epoch, digest=digest)
            )
        else:
            writes.count("duplicates")
            results.append(Answer(status=OK, body={**run_bodies([run])[0], "duplicate": True}))
    writes.send()
    return results


def _opened(request: OpenRun, digest: str, caller: Caller, writes: Writes) -> Run:
    labels = dict(request.labels or {})
    numbers = {"epoch": request.epoch, "counter": request.epoch, "first_epoch": request.epoch}
    owner = {"owner_id": caller.credential_id, "owner_group": caller.group}
    run_id = writes.insert("run", name=request.run, labels=labels, content_digest=digest, **numbers, **owner)
    writes.insert(
        "epochopening",
        run_id=run_id,
        number=request.epoch,
        kind="start",
        reason="",
        answer={},
        by_id=caller.credential_id,
    )
    writes.audit("open_run", "run", request.run, run=request.run, after={"epoch": request.epoch, "labels": labels})
    return Run(id=run_id, name=request.run, labels=labels, content_digest=digest, **numbers, **owner)


def _why_not(run: Run, caller: Caller) -> Refusal:
    if run.owner_group != caller.group:
        return not_your_run(run.name)
    detail = "A run of this name was opened with other content. A retry sends the same; a new request takes a new name."
    return Refusal(code=Code.RUN_EXISTS, detail=detail, pointer="/run", extras={"current_epoch": run.epoch})


def not_your_run(name: str) -> Refusal:
    """Refuse a planner's key that did not open the run and shares no group with the one that did (H1)."""
    return Refusal(code=Code.NOT_YOUR_RUN, detail=f"Run {name} belongs to another planner's key.", pointer="/run")


def check_run(run: RunFacts | None, name: str, caller: Caller) -> Refusal | None:
    """Refuse what names no run, or a run of another planner."""
    if run is None:
        return Refusal(
            code=Code.NOT_FOUND, detail=f"There is no run {name}: open it first (POST /runs).", pointer="/run"
        )
    if caller.role is Role.PLANNER and run.owner_group != caller.group:
        return not_your_run(name)
    return None


def restart_run(request: RestartRun, caller: Caller) -> Result:
    """Open a fresh epoch and close every older one (`POST /epochs`; R2, R3)."""
    return in_transaction(lambda: _restart_run(request, caller))


def _restart_run(request: RestartRun, caller: Caller) -> Result:
    writes = Writes(caller)
    facts = lock_run(request.run)
    run = facts.runs.get(request.run)
    digest = content_digest(request)
    refusal = check_run(run, request.run, caller)
    result: Result
    if refusal is not None or run is None:
        result = writes.refuse(
            refusal or not_your_run(request.run), "epoch", run=request.run, epoch=request.expected_epoch
        )
    elif (earlier := _repetition(run, request, digest, caller)) is not None:
        writes.count("duplicates")
        result = Answer(status=OK, body={**earlier.answer, "current_epoch": run.epoch, "duplicate": True})
    else:
        result = _restarted(facts, run, request, digest, writes)
    writes.send()
    return result


def _repetition(run: RunFacts, request: RestartRun, digest: str, caller: Caller) -> EpochOpening | None:
    """Find the restart that this is the exact repetition of, by the same key (R2)."""
    return EpochOpening.objects.filter(
        run_id=run.id,
        kind="restart",
        from_epoch=request.expected_epoch,
        content_digest=digest,
        by_id=caller.credential_id,
    ).first()


def _restarted(facts: Facts, run: RunFacts, request: RestartRun, digest: str, writes: Writes) -> Result:
    number = restart_number(run.epochs, expected=request.expected_epoch, named=request.epoch)
    if isinstance(number, Refusal):
        return writes.refuse(number, "epoch", run=run.name, epoch=request.epoch or request.expected_epoch)
    run.epoch = run.counter = number
    answer: dict[str, Any] = {"run": run.name, "epoch": number, "superseded": [], "revoked": [], "voided": []}
    for row in facts.grants.values():
        if grants.is_voided_by(pure_grant(row), number=number, step=None, now=facts.now):
            answer["voided"].append(void_grant(row, facts, writes, run=run.name, reason="epoch_closed"))
    for step in sorted(facts.steps.values(), key=lambda step: (step.epoch, step.name)):
        if step.phase in fence.UNDECIDED:
            _supersede(step, facts, writes)
            answer["superseded"].append(step.name)
        elif take_back(step, facts, writes) is not None:
            answer["revoked"].append(step.name)
    answer = {name: sorted(set(value)) if isinstance(value, list) else value for name, value in answer.items()}
    writes.update("run", run.id, epoch=number, counter=number)
    opening = {
        "number": number,
        "from_epoch": request.expected_epoch,
        "reason": request.reason,
        "content_digest": digest,
    }
    writes.insert(
        "epochopening", run_id=run.id, kind="restart", answer=answer, by_id=writes.caller.credential_id, **opening
    )
    before, after = (
        {"epoch": request.expected_epoch},
        {key: answer[key] for key in ("epoch", "superseded", "revoked", "voided")},
    )
    writes.audit("restart_run", "run", run.name, run=run.name, before=before, after=after, reason=request.reason)
    return Answer(status=CREATED, body=answer)


def _supersede(step: StepFacts, facts: Facts, writes: Writes) -> None:
    drop_claim(step, facts, writes, reason=fence.Reason.SUPERSEDED)
    touch(step, facts, writes, phase=fence.Phase.REJECTED, reason=fence.Reason.SUPERSEDED)


def void_grant(row: dict[str, Any], facts: Facts, writes: Writes, *, run: str, reason: str) -> str:
    """End a grant because its epoch or its scope ended (R3, R4, L10); give its name."""
    row["voided_at"], row["void_reason"], row["due_at"] = facts.now.isoformat(), reason, None
    writes.update("grant", row["id"], voided_at=facts.now, void_reason=reason, due_at=None)
    writes.audit("void_grant", "grant", row["name"], run=run, reason=reason)
    return str(row["name"])
