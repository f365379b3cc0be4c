"""One step, as the API shows it; what a path may see of it is less (F10)."""

from __future__ import annotations

from fencing.models import Run, Step
from fencing.models.facts import Facts, StepFacts, read_facts, step_body
from fencing.protocol import fence
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.epochs import RunEpochs, step_epoch
from fencing.protocol.errors import Code, Refusal

DECIDED = frozenset({fence.Phase.COMMITTED, fence.Phase.REJECTED, fence.Phase.EXEMPT})


def get_step(
    run_name: str, step_name: str, epoch: int | None, caller: Caller, *, phase: str | None = None, wait: bool = False
) -> Result:
    """Read one step at an epoch, the step's own where none is named.

    With `wait`, an answer whose condition does not hold yet names the topic to wait on: decided, or with `phase` any
    other phase than that (H5).
    """
    run = Run.objects.filter(name=run_name).first()
    rows = [] if run is None else list(Step.objects.filter(run=run, name=step_name).values("id", "epoch"))
    if run is None or not rows:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no step {step_name} in a run {run_name}.")
    if caller.role is Role.PLANNER and run.owner_group != caller.group:
        return Refusal(code=Code.NOT_YOUR_RUN, detail=f"Run {run_name} belongs to another planner's key.")
    numbers = [row["epoch"] for row in rows]
    wanted = epoch if epoch is not None else _latest(RunEpochs(epoch=run.epoch, counter=run.counter), numbers)
    row_id = next((str(row["id"]) for row in rows if row["epoch"] == wanted), None)
    if row_id is None:
        known = ", ".join(str(number) for number in sorted(numbers))
        return Refusal(code=Code.NOT_FOUND, detail=f"The step has no epoch {wanted}; it has {known}.")
    facts = read_facts([str(run.id)], [row_id])
    return _answer(facts, facts.steps[row_id], caller, phase=phase, wait=wait)


def _latest(run: RunEpochs, numbers: list[int]) -> int:
    """The step's own number where it has a row, else its newest row: after a restart the old one is worth reading."""
    own = step_epoch(run, numbers)
    return own if own in numbers else max(numbers)


def _answer(facts: Facts, step: StepFacts, caller: Caller, *, phase: str | None, wait: bool) -> Result:
    holds = step.phase in DECIDED if phase is None else step.phase.value != phase
    pending = () if holds or not wait else (f"step:{step.run.name}/{step.name}/{step.epoch}",)
    if caller.role is not Role.PATH:
        return Answer(status=OK, body=step_body(facts, step), pending=pending)
    if not any(vote["path"] == caller.path for vote in step.votes):
        detail = (
            "Votes are blind: a path reads what it must vote on from /votes/wanted, and the phase once it has voted."
        )
        return Refusal(code=Code.FORBIDDEN_ROLE, detail=detail)
    body = {"run": step.run.name, "step": step.name, "epoch": step.epoch, "phase": step.phase.value}
    return Answer(status=OK, body=body, pending=pending)
