"""Proposals, votes, restarts and replays: what each writes once intake found it new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fencing.protocol import branches, epochs, fence, grants, intake
from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intake import Late
from fencing.protocol.rules import deadline_of
from fencing.protocol.world.events import Cast, Propose, Replay, Restart
from fencing.protocol.world.records import Done, Incident, Opening, Place, Result, StepRecord
from fencing.protocol.world.turn import Turn


def content_of(event: Propose) -> str:
    """What "the same content" means for a proposal (N2, R6): everything but its step and epoch."""
    members = {
        "action": None if event.action is None else event.action.payload_digest,
        "digest": event.digest,
        "tool": event.tool,
        "key": event.key,
        "occurrence": event.occurrence,
        "deadline_s": event.deadline_s,
        "branch": event.branch,
    }
    return digest_of(canonical_bytes(members))


def propose(event: Propose, turn: Turn) -> Result:
    """Register a step (F1)."""
    tool = event.tool if event.action is None else event.action.tool
    content, own = content_of(event), turn.own_epoch(event.step)
    verdict = intake.judge_proposal(turn.known(event.step), epoch=event.epoch, content=content, own=own)
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case intake.Repeated():
            if verdict.is_other:
                turn.note(Code.ALREADY_COMMITTED.value)
            commit = turn.steps[event.step, verdict.epoch].commit
            token = commit.token if commit is not None and commit.stands else None
            return Done(duplicate=True, epoch=verdict.epoch, token=token)
        case None:
            refusal = _check_branch(event, turn) or intake.check_tool(tool, event.action, turn.tools)
            return turn.refuse(refusal) if refusal is not None else _register(event, tool, content, turn)


def _check_branch(event: Propose, turn: Turn) -> Refusal | None:
    idle = turn.steps.get((event.step, event.epoch))
    if idle is not None and idle.branch != event.branch:
        detail = "A replayed step stays in the branch in which it was."
        return Refusal(code=Code.STEP_CONFLICT, detail=detail, pointer="/branch")
    return branches.check_branch(turn.tree, event.branch)


def _register(event: Propose, tool: str | None, content: str, turn: Turn) -> Done:
    deadline_at = deadline_of(turn.definition(tool), event.deadline_s, turn.now)
    idle = turn.steps.get((event.step, event.epoch))
    facts = fence.Step(
        step=event.step,
        epoch=event.epoch,
        phase=Phase.IDLE,
        deadline_at=deadline_at,
        pinned_digest=event.digest if event.action is None else event.action.fence_digest,
        pinned_payload=None if event.action is None else event.action.payload_digest,
        pinned_tool=tool,
        gate=turn.tree.gate(event.branch),
    )
    asked: dict[str, Any] = {name: getattr(event, name) for name in ("key", "occurrence", "deadline_s", "branch")}
    fresh = replace(idle or StepRecord(facts=facts), facts=facts, content=content, proposed_at=turn.now, **asked)
    phase, reason = intake.first_phase(tool, turn.tools)
    turn.move(fresh, phase, reason, due_at=deadline_at)
    return Done(epoch=event.epoch)


def cast(event: Cast, turn: Turn) -> Result:
    """Hear a vote (F2, F6 to F8). It may take authority away, and never gives any."""
    vote = vote_of(event, turn)
    own = turn.own_epoch(event.step)
    verdict = intake.judge_vote(turn.known(event.step), epoch=event.epoch, vote=vote, own=own)
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case intake.Repeated():
            if verdict.is_other:
                turn.note("conflicting_duplicate")
            return Done(duplicate=True, epoch=verdict.epoch)
        case intake.Heard():
            _store(vote, verdict, turn.steps[event.step, event.epoch], turn)
            if verdict.contradicts is not None:
                return turn.refuse(intake.equivocation(verdict.contradicts))
            return Done(epoch=event.epoch, late=verdict.late)


def vote_of(event: Cast, turn: Turn) -> fence.Vote:
    """A vote as the fence knows it."""
    action = event.action
    return fence.Vote(
        path=event.path,
        digest=event.digest if action is None else action.fence_digest,
        payload=None if action is None else action.payload_digest,
        tool=None if action is None else action.tool,
        fault=None if action is None else intake.fault_of(action, turn.tools),
        model=event.model,
        prompt=event.prompt,
    )


def _store(vote: fence.Vote, heard: intake.Heard, record: StepRecord, turn: Turn) -> None:
    facts = intake.with_vote(record.facts, vote)
    tells = record.deadline_s is None and heard.late is Late.NO and intake.tells_the_tool(record.facts, vote)
    definition = turn.definition(vote.tool)
    if tells and definition is not None and record.proposed_at is not None:
        facts = replace(facts, deadline_at=deadline_of(definition, None, record.proposed_at))
    record = turn.put(record, facts=facts, heard_at=(*record.heard_at, turn.now))
    match heard.late:
        case Late.NO:
            turn.put(record, due_at=turn.now)
        case Late.WITNESS_OR_DIVERGENCE:
            _hear_after_commit(record, turn)
        case Late.TOO_LATE:
            turn.note("late_vote")
        case Late.NOTHING_TO_DECIDE:
            pass


def _hear_after_commit(record: StepRecord, turn: Turn) -> None:
    """A witness may add the authority of agreement (F7); another digest takes the commit back, or calls people (F8)."""
    if len(fence.digests_on_record(record.facts)) == 1:
        turn.put(record, due_at=turn.now)
    elif turn.take_back(record) is None:
        turn.open_incident(Incident(kind="late_divergence", place=record.place))


def restart(event: Restart, turn: Turn) -> Result:
    """Open a fresh epoch and close every older one (R2, R3)."""
    if any(opening.asked == event for opening in turn.openings):
        return Done(duplicate=True, epoch=turn.epochs.epoch)
    number = epochs.restart_number(turn.epochs, expected=event.expected, named=event.number)
    if isinstance(number, Refusal):
        return turn.refuse(number)
    turn.epochs = turn.epochs.restarted(number)
    void_grants(turn, number=number, step=None)
    touched = []
    for record in list(turn.steps.values()):
        if record.phase in fence.UNDECIDED:
            turn.drop_claim(record, Reason.SUPERSEDED)
            turn.move(record, Phase.REJECTED, Reason.SUPERSEDED)
            touched.append(record.place)
        elif turn.take_back(record) is not None:
            touched.append(record.place)
    turn.openings.append(Opening(number=number, from_epoch=event.expected, asked=event))
    return Done(epoch=number, touched=tuple(touched))


def void_grants(turn: Turn, *, number: int, step: str | None) -> None:
    """End the grants that the opening of an epoch ends (R3, R4)."""
    for name, record in turn.grants.items():
        if grants.is_voided_by(record.facts, number=number, step=step, now=turn.now):
            turn.grants[name] = replace(record, facts=replace(record.facts, voided_at=turn.now))


def replay(event: Replay, turn: Turn) -> Result:
    """Give one step the next number (R4)."""
    own = turn.own_epoch(event.step)
    verdict = intake.judge_replay(
        turn.known(event.step), from_epoch=event.from_epoch, own=own, earlier=_earlier(event, turn)
    )
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case intake.Repeated():
            record = turn.steps.get((event.step, verdict.epoch))
            commit = None if record is None else record.commit
            token = commit.token if commit is not None and commit.stands else None
            return Done(duplicate=True, epoch=verdict.epoch, token=token)
        case None:
            branch = turn.steps[event.step, event.from_epoch].branch
            if turn.tree.gate(branch).is_lost:
                return turn.refuse(branches.branch_lost(str(branch), pointer="/step"))
            return _reopen(event, branch, turn)


def _earlier(event: Replay, turn: Turn) -> int | None:
    found = (each.number for each in turn.openings if (each.step, each.from_epoch) == (event.step, event.from_epoch))
    return next(found, None)


def _reopen(event: Replay, branch: str | None, turn: Turn) -> Done:
    turn.epochs = turn.epochs.replayed()
    place: Place = (event.step, turn.epochs.counter)
    gate = turn.tree.gate(branch)
    facts = fence.Step(step=event.step, epoch=place[1], phase=Phase.IDLE, deadline_at=turn.now, gate=gate)
    turn.steps[place] = StepRecord(facts=facts, branch=branch)
    void_grants(turn, number=place[1], step=event.step)
    turn.openings.append(Opening(number=place[1], from_epoch=event.from_epoch, asked=event, step=event.step))
    return Done(epoch=place[1])
