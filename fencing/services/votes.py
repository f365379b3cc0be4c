"""Votes: what one path says about one step (F2, F5 to F8). Hearing one may take authority away, and gives none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencing.models import Incident, cold
from fencing.models.facts import Facts, StepFacts, lock_steps, lookup_of, resources_of_payload, resources_touched
from fencing.protocol import fence, intake
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intake import Late
from fencing.protocol.rules import deadline_of
from fencing.services import straight
from fencing.services.differing import difference_of
from fencing.services.requests import CastVote
from fencing.services.taking_back import subject_of, take_back
from fencing.services.writes import Writes, in_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A vote that was read: its fence digest, None for an abstention, and its action where it came with one."""

    request: CastVote
    path: str
    digest: str | None
    action: Action | None
    fault: str | None

    @property
    def pure(self) -> fence.Vote:
        """The vote as the pure core knows it."""
        return fence.Vote(
            path=self.path,
            digest=self.digest,
            payload=None if self.action is None else self.action.payload_digest,
            tool=None if self.action is None else self.action.tool,
            fault=self.fault,
            model=self.request.model,
            prompt=self.request.prompt,
        )


def cast_votes(requests: Sequence[CastVote], caller: Caller) -> list[Result]:
    """Hear votes of the caller's path (`POST /votes`)."""
    return straight.first(
        straight.VOTES, requests, caller, lambda rest: in_transaction(lambda: _cast_votes(rest, caller))
    )


def _cast_votes(requests: Sequence[CastVote], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    facts = lock_steps((request.run, request.step) for request in requests)
    results = [_cast(request, facts, writes) for request in requests]
    writes.send()
    return results


def _cast(request: CastVote, facts: Facts, writes: Writes) -> Result:
    rows = [row for row in facts.epochs_of(request.run, request.step) if row.row["content_digest"] is not None]
    step = _addressed(request, rows)
    said = _read(request, step, facts, path=writes.caller.path or "")
    if isinstance(said, Refusal):
        return _refuse(said, request, None, writes)
    run = facts.runs.get(request.run)
    own = request.epoch if run is None else facts.own_epoch(run, request.step)
    known = facts.known(request.run, request.step)
    verdict = intake.judge_vote(known, epoch=request.epoch, vote=said.pure, own=own)
    match verdict:
        case Refusal():
            return _refuse(verdict, request, said, writes)
        case intake.Repeated():
            return _repeated(verdict, said, step, writes)
        case intake.Heard():
            return _hear(said, verdict, step, facts, writes)


def _addressed(request: CastVote, rows: list[StepFacts]) -> StepFacts | None:
    """The row of the vote's own epoch, else the newest: the registry that reads its action (T1)."""
    return next((row for row in rows if row.epoch == request.epoch), rows[-1] if rows else None)


def _read(request: CastVote, step: StepFacts | None, facts: Facts, *, path: str) -> Said | Refusal:
    """Judge the form of a vote (C1 to C3, F2), and whether its action could ever be committed (F6)."""
    given = [name for name in ("action", "abstain") if getattr(request, name) is not None]
    if len(given) > 1 or (request.abstain is not None and request.digest is not None):
        return Refusal(
            code=Code.INVALID_VALUE, detail="A vote names an action, or a digest, or abstains.", pointer="/abstain"
        )
    if request.action is None:
        if request.digest is None and request.abstain is None:
            detail = "A vote names an action, or a digest, or abstains with a reason."
            return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/action")
        return Said(request=request, path=path, digest=request.digest, action=None, fault=None)
    registry = facts.registry if step is None else step.row["registry"]
    action = read_action(request.action, lookup_of(registry), at="/action")
    if isinstance(action, Refusal):
        return action
    if request.digest not in (None, action.fence_digest):
        detail = f"The action's fence digest is {action.fence_digest}."
        return Refusal(
            code=Code.DIGEST_MISMATCH, detail=detail, pointer="/digest", extras={"digest": action.fence_digest}
        )
    fault = intake.fault_of(action, lookup_of(registry))
    return Said(request=request, path=path, digest=action.fence_digest, action=action, fault=fault)


def _repeated(verdict: intake.Repeated, said: Said, step: StepFacts | None, writes: Writes) -> Answer:
    if verdict.is_other:
        # The same decision with other prose: the first stays (N2), and the second leaves a trace (I5).
        detail = "Sent again with other advisory members."
        writes.side_log("vote", "conflicting_duplicate", detail=detail, **_subject(said.request, said))
    writes.count("duplicates")
    phase = _of(step).phase.value
    return Answer(status=OK, body={"vote": "duplicate", "phase": phase, "digest": verdict.digest, "duplicate": True})


def _of(step: StepFacts | None) -> StepFacts:
    if step is None:
        raise AssertionError("what was heard or repeated has a step")
    return step


def _hear(said: Said, heard: intake.Heard, step: StepFacts | None, facts: Facts, writes: Writes) -> Result:
    """Store a vote that is new, and do at once what it takes away (F8)."""
    step = _of(step)
    before, is_late = step.pure(), heard.late is not Late.NO
    _store(said, step, facts, writes, is_late=is_late)
    if step.row["deadline_s"] is None and not is_late and intake.tells_the_tool(before, said.pure):
        _adopt_deadline(step, writes)
    match heard.late:
        case Late.NO:
            writes.update("step", step.id, due_at=facts.now)
            writes.wake("fence")
        case Late.WITNESS_OR_DIVERGENCE:
            _hear_after_commit(step, facts, writes)
        case Late.TOO_LATE:
            detail = f"The step was {step.phase.value} ({step.row['reason']}) already."
            writes.side_log("vote", "late_vote", detail=detail, **_subject(said.request, said))
        case Late.NOTHING_TO_DECIDE:
            pass
    if heard.contradicts is not None:
        return _refuse(intake.equivocation(heard.contradicts), said.request, said, writes)
    vote = "late" if is_late else "recorded"
    return Answer(status=CREATED, body={"vote": vote, "phase": step.phase.value, "digest": said.digest})


def _store(said: Said, step: StepFacts, facts: Facts, writes: Writes, *, is_late: bool) -> None:
    request, action = said.request, said.action
    if action is not None:
        writes.action(action)
    row: dict[str, Any] = {
        "path": said.path,
        "digest": said.digest,
        "tool": None if action is None else action.tool,
        "abstain": request.abstain,
        "fault": said.fault,
        "is_late": is_late,
        "model": request.model,
        "prompt": request.prompt,
        "received_at": facts.now,
    }
    payload = None if action is None else action.payload_digest
    rationale = None if request.rationale is None else cold.put(request.rationale.encode())
    keys = {"run_id": step.run.id, "step_id": step.id, "payload_id": payload, "rationale_ref": rationale}
    vote_id = writes.insert("vote", by_id=writes.caller.credential_id, **keys, **row)
    step.votes.append(
        {**row, "id": vote_id, "step_id": step.id, "payload": payload, "received_at": facts.now.isoformat()}
    )
    verb, after = (
        ("abstain" if said.digest is None else "vote"),
        {"path": said.path, "digest": said.digest, "late": is_late},
    )
    writes.audit(verb, "step", subject_of(step), run=step.run.name, after=after)


def _adopt_deadline(step: StepFacts, writes: Writes) -> None:
    """Once a vote tells the tool, its deadline counts from the proposal on (F1), unless the planner named one."""
    definition = step.definition(step.votes[-1]["tool"])
    if definition is not None:
        deadline_at = deadline_of(definition, None, datetime.fromisoformat(step.row["proposed_at"]))
        step.row["deadline_at"] = deadline_at.isoformat()
        writes.update("step", step.id, deadline_at=deadline_at)


def _hear_after_commit(step: StepFacts, facts: Facts, writes: Writes) -> None:
    """A witness may add the authority of agreement (F7); another digest takes the commit back, or pages people (F8)."""
    if len(fence.digests_on_record(step.pure())) == 1:
        if step.commit is not None and step.commit.authority == "grant" and fence.is_agreed(step.pure(), step.rules()):
            writes.update("step", step.id, due_at=facts.now)
            writes.wake("fence")
        return
    writes.send()  # the difference is read from what is stored
    step.row["difference"] = difference_of(step)
    writes.update("step", step.id, difference=step.row["difference"])
    if take_back(step, facts, writes) is None and not _has_incident(step):
        _open_incident(step, writes)


def _has_incident(step: StepFacts) -> bool:
    return Incident.objects.filter(kind="late_divergence", step_id=step.id).exists()


def _open_incident(step: StepFacts, writes: Writes) -> None:
    commit = step.commit
    intent_id = None if commit is None else commit.intent_id
    note = "A path voted another digest after the effect was admitted. Nothing is undone by itself."
    incident = writes.insert(
        "incident",
        kind="late_divergence",
        state="open",
        run_id=step.run.id,
        step_id=step.id,
        intent_id=intent_id,
        note=note,
        resources=[] if commit is None else resources_of_payload(commit.payload),
    )
    writes.audit(
        "open_incident",
        "incident",
        incident,
        run=step.run.name,
        after={"kind": "late_divergence", "step": subject_of(step)},
    )


def _refuse(refusal: Refusal, request: CastVote, said: Said | None, writes: Writes) -> Refusal:
    return writes.refuse(refusal, "vote", **{"path": writes.caller.path, **_subject(request, said)})


def _subject(request: CastVote, said: Said | None) -> dict[str, Any]:
    subject: dict[str, Any] = {"run": request.run, "step": request.step, "epoch": request.epoch}
    if said is None:
        return {**subject, "digest": request.digest}
    action = said.action
    return {
        **subject,
        "path": said.path,
        "digest": said.digest,
        "tool": None if action is None else action.tool,
        "resources": resources_touched(action),
    }
