"""Steps: proposing one, which is its registration (F1), and replaying one in a fresh epoch (R4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencing.models import EpochOpening, cold
from fencing.models.facts import Facts, RunFacts, StepFacts, lock_steps, lookup_of, pure_grant, step_body
from fencing.models.registry import registry_at
from fencing.protocol import branches, fence, grants, intake
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.rules import deadline_of, rules_of
from fencing.services import straight
from fencing.services.identity import content_digest
from fencing.services.requests import ProposeStep, ReplayStep
from fencing.services.runs import check_run, void_grant
from fencing.services.taking_back import step_topic, subject_of, touch
from fencing.services.writes import Writes, in_transaction

PINS = ("pinned_digest", "pinned_payload", "pinned_tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposal that was read: its action, the tool that it pins, and the digest of its content."""

    request: ProposeStep
    action: Action | None
    tool: str | None
    digest: str | None
    content: str


def propose_steps(requests: Sequence[ProposeStep], caller: Caller) -> list[Result]:
    """Propose steps (`POST /steps`; F1, R1, R5, R6)."""
    return straight.first(
        straight.PROPOSALS, requests, caller, lambda rest: in_transaction(lambda: _propose_steps(rest, caller))
    )


def _propose_steps(requests: Sequence[ProposeStep], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    facts = lock_steps((request.run, request.step) for request in requests)
    results = [_propose(request, facts, writes) for request in requests]
    writes.send()
    return results


def _propose(request: ProposeStep, facts: Facts, writes: Writes) -> Result:
    subject = {"run": request.run, "step": request.step, "epoch": request.epoch, "tool": request.tool}
    proposal = _read(request, facts.registry)
    if isinstance(proposal, Refusal):
        return writes.refuse(proposal, "step", **subject)
    run = facts.runs.get(request.run)
    refusal = check_run(run, request.run, writes.caller)
    if refusal is not None or run is None:
        return writes.refuse(refusal or Refusal(code=Code.NOT_FOUND, detail=""), "step", **subject)
    subject |= {"tool": proposal.tool, "digest": proposal.digest}
    own = facts.own_epoch(run, request.step)
    known = facts.known(run.name, request.step)
    verdict = intake.judge_proposal(known, epoch=request.epoch, content=proposal.content, own=own)
    if isinstance(verdict, intake.Repeated):
        return _repeated(verdict, request, subject, facts, writes)
    refusal = verdict or _check_registered(proposal, run, facts)
    if refusal is not None:
        return writes.refuse(refusal, "step", **subject)
    step = _record(proposal, run, facts, writes)
    return Answer(status=CREATED, body=step_body(facts, step))


def _read(request: ProposeStep, registry: int) -> Proposal | Refusal:
    """Judge the form of a proposal (C1 to C3, F1)."""
    action = None if request.action is None else read_action(request.action, lookup_of(registry), at="/action")
    if isinstance(action, Refusal):
        return action
    if action is not None and request.digest not in (None, action.fence_digest):
        detail = f"The action's fence digest is {action.fence_digest}."
        return Refusal(
            code=Code.DIGEST_MISMATCH, detail=detail, pointer="/digest", extras={"digest": action.fence_digest}
        )
    if action is not None and request.tool not in (None, action.tool):
        return Refusal(code=Code.INVALID_VALUE, detail=f"The action is a call of {action.tool}.", pointer="/tool")
    return Proposal(
        request=request,
        action=action,
        tool=action.tool if action is not None else request.tool,
        digest=action.fence_digest if action is not None else request.digest,
        # Run, step and epoch are the identity; a retry in a later epoch has the same content (R6).
        # A default that is spelt out is the same content as one that is left out (N2).
        content=content_digest(
            request,
            run=None,
            step=None,
            epoch=None,
            action=None if action is None else action.payload_digest,
            occurrence=request.occurrence or None,
        ),
    )


def _repeated(
    verdict: intake.Repeated, request: ProposeStep, subject: dict[str, Any], facts: Facts, writes: Writes
) -> Answer:
    """Answer a proposal whose step is known: by what was accepted, or by its standing commit (N2, R6)."""
    if verdict.is_other:
        detail = "Proposed again with other content after its commit."
        writes.side_log("step", Code.ALREADY_COMMITTED, detail=detail, **subject)
    else:
        writes.count("duplicates")
    return Answer(status=OK, body={**step_body(facts, _row(request, verdict.epoch, facts)), "duplicate": True})


def _row(request: ProposeStep | ReplayStep, epoch: int, facts: Facts) -> StepFacts:
    return next(row for row in facts.epochs_of(request.run, request.step) if row.epoch == epoch)


def _check_registered(proposal: Proposal, run: RunFacts, facts: Facts) -> Refusal | None:
    """Refuse what names a branch or a tool that is not there, or arguments that do not fit (B1, B4, T1, T3)."""
    idle = _idle(proposal.request, run, facts)
    if idle is not None and idle.row["branch"] != proposal.request.branch:
        detail = "A replayed step stays in the branch in which it was."
        return Refusal(code=Code.STEP_CONFLICT, detail=detail, pointer="/branch")
    refusal = branches.check_branch(run.tree, proposal.request.branch)
    return refusal or intake.check_tool(proposal.tool, proposal.action, lookup_of(facts.registry))


def _record(proposal: Proposal, run: RunFacts, facts: Facts, writes: Writes) -> StepFacts:
    """Write the proposal down: a new row, or the idle one that a replay opened."""
    request, action = proposal.request, proposal.action
    definition = None if proposal.tool is None else registry_at(facts.registry).get(proposal.tool)
    if action is not None:
        writes.action(action)
    deadline_at = deadline_of(definition, request.deadline_s, facts.now)
    columns: dict[str, Any] = {
        "registry": facts.registry,
        "pinned_digest": proposal.digest,
        "pinned_payload_id": None if action is None else action.payload_digest,
        "pinned_tool": proposal.tool,
        "key": request.key,
        "occurrence": request.occurrence or 0,
        "deadline_s": request.deadline_s,
        "deadline_at": deadline_at,
        "content_digest": proposal.content,
        "context_ref": None if request.context is None else cold.put(json.dumps(request.context).encode()),
        "proposed_at": facts.now,
    }
    phase, reason = intake.first_phase(proposal.tool, lookup_of(facts.registry))
    is_decided = phase not in fence.UNDECIDED
    columns |= {"decided_at": facts.now, "due_at": None} if is_decided else {"due_at": deadline_at}
    step = _idle(request, run, facts)
    if step is None:
        columns |= {"phase": phase.value, "reason": None if reason is None else reason.value}
        step = _inserted(request, run, columns, facts, writes)
    else:
        touch(step, facts, writes, phase=phase, reason=reason, **columns)
        step.row["pinned_payload"] = columns["pinned_payload_id"]
    writes.audit(
        "propose_step", "step", subject_of(step), run=run.name, after={"tool": proposal.tool, "digest": proposal.digest}
    )
    writes.signal(*(f"wanted:{path}" for path in rules_of(definition).required_paths))
    return step


def _idle(request: ProposeStep, run: RunFacts, facts: Facts) -> StepFacts | None:
    rows = facts.epochs_of(run.name, request.step)
    return next((row for row in rows if row.epoch == request.epoch and row.phase is fence.Phase.IDLE), None)


def _inserted(request: ProposeStep, run: RunFacts, columns: dict[str, Any], facts: Facts, writes: Writes) -> StepFacts:
    row = {
        "name": request.step,
        "epoch": request.epoch,
        "branch": request.branch,
        **columns,
    }
    step_id = writes.insert("step", run_id=run.id, is_correlated=False, **row)
    texts = {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
    absent = {"fenced_at": None, "fenced_by": None, "difference": None, "is_correlated": False}
    step = StepFacts(
        id=step_id, run=run, row={**absent, **texts, "id": step_id, "pinned_payload": columns["pinned_payload_id"]}
    )
    facts.steps[step_id] = step
    if step.phase not in fence.UNDECIDED:
        writes.feed("decided", run_id=run.id, step_id=step_id, owner_group=run.owner_group)
    return step


def replay_step(request: ReplayStep, caller: Caller) -> Result:
    """Give a rejected step, or one whose effect failed, the next number of the counter (`POST /steps/replay`; R4)."""
    return replay_steps([request], caller)[0]


def replay_steps(
    requests: Sequence[ReplayStep], caller: Caller, *, only: frozenset[fence.Reason] | None = None
) -> list[Result]:
    """Replay several steps in one transaction; what is refused does not hurt the others.

    With `only`, a step that was rejected for another reason than these is refused, too: `not_rejected`.
    """
    return in_transaction(lambda: _replay_steps(requests, caller, only))


Openings = dict[tuple[str, str, int], int]


def _replay_steps(requests: Sequence[ReplayStep], caller: Caller, only: frozenset[fence.Reason] | None) -> list[Result]:
    writes = Writes(caller)
    facts = lock_steps([(request.run, request.step) for request in requests], strength="no key update")
    earlier = _opened_before(requests, facts)
    results: list[Result] = []
    for request in requests:
        result = _replay(request, facts, writes, earlier, only)
        if isinstance(result, Refusal):
            writes.refuse(result, "replay", run=request.run, step=request.step, epoch=request.from_epoch)
        results.append(result)
    writes.send()
    return results


def _replay(
    request: ReplayStep, facts: Facts, writes: Writes, earlier: Openings, only: frozenset[fence.Reason] | None
) -> Result:
    run = facts.runs.get(request.run)
    refusal = check_run(run, request.run, writes.caller)
    if refusal is not None or run is None:
        return refusal or Refusal(code=Code.NOT_FOUND, detail="")
    place = (run.id, request.step, request.from_epoch)
    verdict = intake.judge_replay(
        facts.known(run.name, request.step),
        from_epoch=request.from_epoch,
        own=facts.own_epoch(run, request.step),
        earlier=earlier.get(place),
    )
    if isinstance(verdict, Refusal):
        return verdict
    if isinstance(verdict, intake.Repeated):
        writes.count("duplicates")
        return Answer(status=OK, body={**_replay_body(request, verdict, facts), "duplicate": True})
    last = _row(request, request.from_epoch, facts)
    if last.gate.is_lost:
        return branches.branch_lost(str(last.row["branch"]), pointer="/step")
    if only is not None and last.row["reason"] not in only:
        detail = f"The step was not decided by silence, but is {last.phase.value} ({last.row['reason']})."
        return Refusal(code=Code.NOT_REJECTED, detail=detail, extras={"phase": last.phase.value})
    answer = _replayed(request, run, last, facts, writes)
    earlier[place] = run.counter
    return answer


def _opened_before(requests: Sequence[ReplayStep], facts: Facts) -> Openings:
    """The numbers that replays of these steps opened before, by run, step and the epoch from which (R4)."""
    openings = EpochOpening.objects.filter(
        run_id__in=[run.id for run in facts.runs.values()],
        kind="replay",
        step_name__in={request.step for request in requests},
    )
    return {
        (str(run_id), str(step), int(epoch or 0)): number
        for run_id, step, epoch, number in openings.values_list("run_id", "step_name", "from_epoch", "number")
    }


def _replay_body(request: ReplayStep, verdict: intake.Repeated, facts: Facts) -> dict[str, Any]:
    """The standing commit's step (R6), or what the first replay answered."""
    row = _row(request, verdict.epoch, facts)
    if row.commit is not None and row.commit.stands:
        return step_body(facts, row)
    return {"run": request.run, "step": request.step, "epoch": verdict.epoch}


def _replayed(request: ReplayStep, run: RunFacts, last: StepFacts, facts: Facts, writes: Writes) -> Answer:
    run.counter = number = run.epochs.replayed().counter
    row = {"name": request.step, "epoch": number, "branch": last.row["branch"], "phase": "idle", "occurrence": 0}
    step_id = writes.insert("step", run_id=run.id, is_correlated=False, **row)
    # The next replay of the same bulk sees this one.
    absent = dict.fromkeys(("content_digest", "reason", "fenced_at", "deadline_at", *PINS))
    facts.steps[step_id] = StepFacts(id=step_id, run=run, row={**absent, **row, "id": step_id})
    for grant in facts.grants.values():
        is_ended = grants.is_voided_by(pure_grant(grant), number=number, step=request.step, now=facts.now)
        if grant["run_id"] == run.id and is_ended:
            void_grant(grant, facts, writes, run=run.name, reason="step_replayed")
    writes.update("run", run.id, counter=number)
    opening = {"number": number, "step_name": request.step, "from_epoch": request.from_epoch, "reason": request.reason}
    author = {"by_id": writes.caller.credential_id, "person_id": writes.caller.person_id}
    writes.insert("epochopening", run_id=run.id, kind="replay", answer={}, **author, **opening)
    before, after = {"epoch": request.from_epoch}, {"epoch": number}
    writes.audit(
        "replay_step", "step", subject_of(last), run=run.name, before=before, after=after, reason=request.reason
    )
    writes.feed("replayed", run_id=run.id, step_id=step_id, owner_group=run.owner_group)
    writes.signal(step_topic(run.name, request.step, request.from_epoch))
    return Answer(status=CREATED, body={"run": run.name, "step": request.step, "epoch": number})
