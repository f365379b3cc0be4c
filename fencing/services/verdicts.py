"""Verdicts: what a reviewer says about a divergence, for people to learn from. Nothing of the fence ever reads one."""

from __future__ import annotations

from dataclasses import dataclass

from fencing.models import Verdict
from fencing.models.facts import StepFacts, lock_steps
from fencing.protocol import fence
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.services.taking_back import subject_of
from fencing.services.writes import Writes, in_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveVerdict:
    """A verdict on one epoch of a step. `seen` is the id of the newest verdict that the person saw, None for none."""

    run: str
    step: str
    epoch: int
    verdict: Verdict.Choice
    note: str
    seen: str | None


def give_verdict(request: GiveVerdict, caller: Caller) -> Result:
    """Write down a verdict. Given again alike it is a duplicate; `changed` where somebody spoke meanwhile."""
    return in_transaction(lambda: _give_verdict(request, caller))


def _give_verdict(request: GiveVerdict, caller: Caller) -> Result:
    writes = Writes(caller)
    facts = lock_steps([(request.run, request.step)])
    step = next((row for row in facts.epochs_of(request.run, request.step) if row.epoch == request.epoch), None)
    result: Result
    if step is None:
        result = Refusal(code=Code.NOT_FOUND, detail="There is no such step.")
    elif fence.divergence(step.pure()) is None:
        result = Refusal(
            code=Code.NOT_DIVERGED, detail="The paths did not disagree on this step: there is nothing to judge."
        )
    else:
        result = _judged(request, step, writes)
    if isinstance(result, Refusal):
        writes.refuse(result, "verdict", run=request.run, step=request.step, epoch=request.epoch)
    writes.send()
    return result


def _judged(request: GiveVerdict, step: StepFacts, writes: Writes) -> Result:
    newest = Verdict.objects.filter(step_id=step.id).select_related("person").order_by("-given_at", "-id").first()
    is_mine = newest is not None and newest.person_id == writes.caller.person_id
    if newest is not None and is_mine and (newest.verdict, newest.note) == (request.verdict.value, request.note):
        writes.count("duplicates")
        return Answer(status=OK, body={"id": str(newest.id), "duplicate": True})
    if newest is not None and str(newest.id) != request.seen:
        by = newest.person.get_username()
        extras = {"decided_by": by, "decided_at": rfc3339(newest.given_at)}
        return Refusal(
            code=Code.CHANGED,
            detail=f"{by} gave a verdict since you looked: {newest.get_verdict_display()}.",
            extras=extras,
        )
    keys = {"run_id": step.run.id, "step_id": step.id, "person_id": writes.caller.person_id}
    verdict_id = writes.insert("verdict", verdict=request.verdict.value, note=request.note, **keys)
    after = {"verdict": request.verdict.value}
    writes.audit("give_verdict", "step", subject_of(step), run=step.run.name, after=after, reason=request.note)
    return Answer(status=CREATED, body={"id": verdict_id})
