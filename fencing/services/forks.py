"""Forks: opening speculative siblings, and reconciling them once (protocol, section 10).

A reconciliation gives nothing by itself: it takes away from the branches that lose, in its own transaction, and tells
the fencer about those that may act now (F9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fencing.models import Claim, Fork
from fencing.models.facts import Facts, IntentFacts, RunFacts, StepFacts, lock_branches, lock_steps, read_clock
from fencing.protocol import branches, fence, intents
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import SYSTEM, Caller
from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import fork_object
from fencing.services import undoing
from fencing.services.identity import content_digest
from fencing.services.requests import OpenFork, ReconcileFork
from fencing.services.runs import check_run
from fencing.services.taking_back import drop_claim, lose_claim, take_back, touch
from fencing.services.writes import Writes, in_transaction


def open_fork(request: OpenFork, caller: Caller) -> Result:
    """Open a fork of branches in a run (`POST /forks`; B1). Asked for again alike it is a duplicate (N2)."""
    return in_transaction(lambda: _open_fork(request, caller))


def _open_fork(request: OpenFork, caller: Caller) -> Result:
    writes = Writes(caller)
    facts = lock_steps([(request.run, "")], strength="no key update")
    run = facts.runs.get(request.run)
    refusal = check_run(run, request.run, caller)
    if refusal is not None or run is None:
        result: Result = refusal or Refusal(code=Code.NOT_FOUND, detail="")
    elif request.fork in run.tree.forks:
        result = _opened_before(request, run, writes)
    else:
        result = _opened(request, run, facts, writes)
    if isinstance(result, Refusal):
        writes.refuse(result, "fork", run=request.run)
    writes.send()
    return result


def _opened_before(request: OpenFork, run: RunFacts, writes: Writes) -> Result:
    row = Fork.objects.get(run_id=run.id, name=request.fork)
    if row.content_digest != content_digest(request):
        detail = "A fork of this name was opened with other content."
        return Refusal(code=Code.FORK_CONFLICT, detail=detail, pointer="/fork")
    writes.count("duplicates")
    return Answer(status=OK, body={**body_of(row, run), "duplicate": True})


def body_of(row: Fork, run: RunFacts) -> dict[str, Any]:
    """The object of a fork."""
    return fork_object(
        run=run.name,
        fork=row.name,
        parent=run.tree.forks[row.name].parent,
        branches=[(each.name, each.state.value) for each in run.tree.of_fork(row.name)],
        winner=row.winner,
        deadline_at=row.deadline_at,
    )


def _opened(request: OpenFork, run: RunFacts, facts: Facts, writes: Writes) -> Result:
    opened = branches.open_fork(run.tree, name=request.fork, branches=tuple(request.branches), parent=request.parent)
    if isinstance(opened, Refusal):
        return opened
    deadline_at = None if request.deadline_s is None else facts.now + timedelta(seconds=request.deadline_s)
    fork = writes.insert(
        "fork",
        run_id=run.id,
        name=request.fork,
        parent_id=None if request.parent is None else run.branch_ids[request.parent],
        content_digest=content_digest(request),
        by_id=writes.caller.credential_id,
        opened_at=facts.now,
        deadline_at=deadline_at,
    )
    for place, branch in enumerate(opened.branches):
        columns = {"name": branch.name, "place": place, "state": branch.state.value}
        writes.insert("branch", run_id=run.id, fork_id=fork, **columns)
    after = {"branches": list(request.branches), "parent": request.parent}
    writes.audit("open_fork", "fork", f"{run.name}/{request.fork}", run=run.name, after=after)
    body = fork_object(
        run=run.name,
        fork=request.fork,
        parent=request.parent,
        branches=[(each.name, each.state.value) for each in opened.branches],
        winner=None,
        deadline_at=deadline_at,
    )
    return Answer(status=CREATED, body=body)


def reconcile_fork(request: ReconcileFork, caller: Caller) -> Result:
    """Reconcile a fork with one winner or none (`POST /forks/reconcile`; B2, B4). Once, and then for good."""
    return in_transaction(lambda: _reconcile_fork(request, caller))


def _reconcile_fork(request: ReconcileFork, caller: Caller) -> Result:
    writes = Writes(caller)
    facts = lock_branches(request.run)
    run = facts.runs.get(request.run)
    refusal = check_run(run, request.run, caller)
    if refusal is not None or run is None:
        result: Result = refusal or Refusal(code=Code.NOT_FOUND, detail="")
    elif request.fork not in run.tree.forks:
        detail = f"There is no fork {request.fork} in this run."
        result = Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/fork")
    else:
        result = _reconcile(request, run, facts, writes)
    if isinstance(result, Refusal):
        writes.refuse(result, "reconcile", run=request.run)
    writes.send()
    return result


def _reconcile(request: ReconcileFork, run: RunFacts, facts: Facts, writes: Writes) -> Result:
    verdict = branches.reconcile(run.tree, request.fork, request.winner)
    if isinstance(verdict, Refusal):
        return verdict
    if isinstance(verdict, branches.Same):
        writes.count("duplicates")
        row = Fork.objects.get(run_id=run.id, name=request.fork)
        # What ended with the branch that it lay in has no answer of its own.
        told = row.answer or Reached(fork=request.fork, winner=None).answer()
        return Answer(status=OK, body={**told, "duplicate": True})
    reached = _Reconciling(run, facts, writes, Reached(fork=request.fork, winner=request.winner)).play(verdict)
    return Answer(status=OK, body=reached.answer())


@dataclass(slots=True)
class Reached:
    """What a reconciliation reached: keys whose intents are cancelled, and compensations by id."""

    fork: str
    winner: str | None
    cancelled: list[str] = field(default_factory=list)
    compensations: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        """Write it as an answer."""
        return {
            "fork": self.fork,
            "winner": self.winner,
            "cancelled": sorted(self.cancelled),
            # What was done last is undone first, and shown first (P7).
            "compensations": self.compensations[::-1],
            "withdrawn": self.withdrawn,
        }


class _Reconciling:
    """One reconciliation under the run's lock: what loses lets go, what may act now is told to the fencer."""

    def __init__(self, run: RunFacts, facts: Facts, writes: Writes, reached: Reached) -> None:
        self.run, self.facts, self.writes, self.reached = run, facts, writes, reached

    def play(self, verdict: branches.Reconciled) -> Reached:
        self.run.tree = verdict.tree
        steps = sorted(self.facts.steps.values(), key=lambda step: (step.epoch, step.name))
        losing = [step for step in steps if step.gate.is_lost]
        acting = [step for step in steps if step.row["branch"] in verdict.acting]
        touched = self._lock(losing + acting, verdict.lost)
        before = {intent.id: intent.row["state"] for intent in touched}
        for step in losing:
            self._lose(step)
        won = {claimed for step in acting if (claimed := self._may_act_now(step)) is not None}
        for intent in sorted(touched, key=_left_at):
            self._settle(intent, before[intent.id], has_won=intent.id in won)
        self._write(verdict)
        return self.reached

    def _lock(self, steps: list[StepFacts], lost: Iterable[str]) -> list[IntentFacts]:
        """Lock every intent that these steps claim, or have committed, in the order of locks.

        Also what the branches that are `lost` claimed before, and may have happened after all: the run's lock keeps
        everybody else from its steps.
        """
        mine = {step.id for step in steps}
        ids = {step.commit.intent_id for step in steps if step.commit is not None and step.commit.stands} | {
            intent.id
            for intent in self.facts.intents.values()
            if any(claim["step_id"] in mine and claim["state"] != "lost" for claim in intent.row["claims"])
        }
        late = Claim.objects.filter(state="lost", step__run=self.run.id, step__branch__in=list(lost))
        ids |= {str(each) for each in late.exclude(intent__state="cancelled").values_list("intent_id", flat=True)}
        self.facts.lock_intents(ids=ids)
        return [self.facts.intents[intent_id] for intent_id in sorted(ids)]

    def _lose(self, step: StepFacts) -> None:
        """B4: what is undecided is rejected, what has not left is taken back, what left loses its claim."""
        if step.phase in fence.UNDECIDED:
            drop_claim(step, self.facts, self.writes, reason=fence.Reason.BRANCH_LOST)
            touch(step, self.facts, self.writes, phase=fence.Phase.REJECTED, reason=fence.Reason.BRANCH_LOST)
        elif step.commit is not None and take_back(step, self.facts, self.writes) is None:
            intent = self.facts.intents[step.commit.intent_id]
            lose_claim(step, intent, self.facts, self.writes, reason=fence.Reason.BRANCH_LOST)

    def _may_act_now(self, step: StepFacts) -> str | None:
        """B3: an agreement or a grant that waited is the fencer's to look at; an optimistic claim is won at once."""
        if step.phase in (fence.Phase.AGREED, fence.Phase.FENCED):
            self.writes.update("step", step.id, due_at=self.facts.now)
            self.writes.wake("fence")
        if step.commit is None or not step.commit.stands:
            return None
        intent = self.facts.intents[step.commit.intent_id]
        for claim in intent.row["claims"]:
            if claim["step_id"] == step.id and claim["state"] == intents.ClaimState.OPEN:
                claim["state"] = intents.ClaimState.WON.value
                self.writes.update("claim", claim["id"], state="won")
        return intent.id

    def _settle(self, intent: IntentFacts, before: str, *, has_won: bool) -> None:
        """Undo what nobody wants any more, and undo nothing that a winner wants (B4, B5, P4)."""
        if intent.row["state"] == intents.State.CANCELLED and before != intents.State.CANCELLED:
            self.reached.cancelled.append(intent.key)
        after = undoing.follow(intent, self.facts, self.writes, run=self.run.name, has_won=has_won)
        if after is State.WITHDRAWN and intent.is_admitted:
            self.reached.withdrawn.append(str(intent.row["compensation"]["id"]))
        made = undoing.propose_if_owed(intent, self.facts, self.writes, run=self.run.name)
        if made is not None:
            self.reached.compensations.append(made)

    def _write(self, verdict: branches.Reconciled) -> None:
        now, caller = self.facts.now, self.writes.caller
        for name in verdict.closed:
            is_asked = name == self.reached.fork
            self.writes.update(
                "fork",
                self.run.fork_ids[name],
                reconciled_at=now,
                winner=self.reached.winner if is_asked else None,
                reconciled_by_id=caller.credential_id if is_asked else None,
                answer=self.reached.answer() if is_asked else None,
            )
        winner = self.reached.winner
        for name in verdict.lost + (() if winner is None else (winner,)):
            state = verdict.tree.branches[name].state
            self.writes.update("branch", self.run.branch_ids[name], state=state.value, decided_at=now)
        after = {"winner": winner, "lost": list(verdict.lost), **self.reached.answer()}
        self.writes.audit(
            "reconcile_fork", "fork", f"{self.run.name}/{self.reached.fork}", run=self.run.name, after=after
        )


def _left_at(intent: IntentFacts) -> str:
    """A key that orders intents as their effects left (P7): ids of deliveries grow with time."""
    return max((str(each["id"]) for each in intent.row["deliveries"]), default="")


def expire_forks(limit: int = 100) -> int:
    """Reconcile forks whose deadline passed, with no winner (B2). Gives how many were looked at."""
    due = list(
        Fork.objects.filter(deadline_at__lte=read_clock(), reconciled_at__isnull=True)
        .order_by("deadline_at")
        .values_list("run__name", "name")[:limit]
    )
    for run, fork in due:
        in_transaction(lambda run=run, fork=fork: _expire(run, fork))  # type: ignore[misc]
    return len(due)


def _expire(run_name: str, fork: str) -> None:
    writes = Writes(SYSTEM)
    facts = lock_branches(run_name)
    run = facts.runs[run_name]
    if not run.tree.forks[fork].is_reconciled:
        _reconcile(ReconcileFork(run=run_name, fork=fork, winner=None), run, facts, writes)
    writes.send()
