"""The forks of a world: opened, reconciled once, and over by the clock (section 10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fencing.protocol import branches, fence, intents
from fencing.protocol.branches import Tree
from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.world import following
from fencing.protocol.world.events import OpenFork, Reconcile
from fencing.protocol.world.records import Done, ForkRecord, Result, StepRecord
from fencing.protocol.world.turn import Turn


def open_fork(event: OpenFork, turn: Turn) -> Result:
    """Open a fork of branches (B1)."""
    earlier = turn.forks.get(event.fork)
    if earlier is not None:
        if earlier.asked == event:
            return Done(duplicate=True)
        detail = "A fork of this name was opened with other content."
        return turn.refuse(Refusal(code=Code.FORK_CONFLICT, detail=detail, pointer="/fork"))
    opened = branches.open_fork(turn.tree, name=event.fork, branches=event.branches, parent=event.parent)
    if isinstance(opened, Refusal):
        return turn.refuse(opened)
    named = {**turn.tree.branches, **{each.name: each for each in opened.branches}}
    turn.grow(Tree(forks={**turn.tree.forks, event.fork: opened.fork}, branches=named))
    deadline_at = None if event.deadline_s is None else turn.now + timedelta(seconds=event.deadline_s)
    turn.forks[event.fork] = ForkRecord(asked=event, deadline_at=deadline_at)
    return Done()


def reconcile(event: Reconcile, turn: Turn) -> Result:
    """Reconcile a fork with one winner, or none; once, and then for good (B2)."""
    if event.fork not in turn.forks:
        return turn.refuse(Refusal(code=Code.NOT_FOUND, detail=f"There is no fork {event.fork} in this run."))
    verdict = branches.reconcile(turn.tree, event.fork, event.winner)
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case branches.Same():
            return Done(duplicate=True)
        case branches.Reconciled():
            return _play(verdict, turn)


def expire(turn: Turn) -> None:
    """Reconcile forks whose deadline passed, with no winner (B2)."""
    for name, record in turn.forks.items():
        is_over = record.deadline_at is not None and record.deadline_at <= turn.now
        if is_over and not turn.tree.forks[name].is_reconciled:
            reconcile(Reconcile(fork=name, winner=None), turn)


def _play(verdict: branches.Reconciled, turn: Turn) -> Done:
    turn.grow(verdict.tree)
    in_order = sorted(turn.steps.values(), key=lambda each: (each.facts.epoch, each.facts.step))
    losing = [each.place for each in in_order if each.facts.gate.is_lost]
    acting = [each.place for each in in_order if each.branch in verdict.acting]
    late = {each.place for each in in_order if each.branch in verdict.lost}
    touched = [each for each in turn.intents.values() if _is_touched(each.id, {*losing, *acting}, late, turn)]
    for place in losing:
        _lose(turn.steps[place], turn)
    won = {found for place in acting if (found := _may_act_now(turn.steps[place], turn)) is not None}
    cancelled, owed, withdrawn = [], [], []
    for before in touched:
        intent = turn.intents[before.id]
        if intent.facts.state is intents.State.CANCELLED is not before.facts.state:
            cancelled.append(intent.key)
        after = following.follow(intent, turn, has_won=intent.id in won)
        undone = turn.newest_undoing(intent.id)
        if after is State.WITHDRAWN and intents.is_admitted(intent.facts) and undone is not None:
            withdrawn.append(undone.id)
        made = following.propose_if_owed(turn.intents[intent.id], turn)
        owed += [] if made is None else [made]
    return Done(cancelled=tuple(sorted(cancelled)), owed=tuple(owed), withdrawn=tuple(withdrawn))


def _is_touched(intent: str, places: set[tuple[str, int]], late: set[tuple[str, int]], turn: Turn) -> bool:
    """Whether it is claimed or committed at `places`, or was claimed at `late`: it may have happened after all."""
    record = turn.intents[intent]
    claimed = any((each.step, each.epoch) in (late if each.is_lost else places) for each in record.claims)
    commits = (turn.steps[place].commit for place in places)
    return claimed or any(each is not None and each.stands and each.intent == intent for each in commits)


def _lose(record: StepRecord, turn: Turn) -> None:
    """B4: what is undecided is rejected, what has not left is taken back, what left loses its claim."""
    if record.phase in fence.UNDECIDED:
        turn.drop_claim(record, Reason.BRANCH_LOST)
        turn.move(record, Phase.REJECTED, Reason.BRANCH_LOST)
    elif record.commit is not None and record.commit.stands and turn.take_back(record) is None:
        turn.lose_claim(record.place, turn.intents[record.commit.intent], Reason.BRANCH_LOST)


def _may_act_now(record: StepRecord, turn: Turn) -> str | None:
    """B3: an agreement or a grant that waited is the fencer's to look at; an optimistic claim is won at once."""
    if record.phase in (Phase.AGREED, Phase.FENCED):
        turn.put(record, due_at=turn.now)
    if record.commit is None or not record.commit.stands:
        return None
    intent = turn.intents[record.commit.intent]
    won = tuple(
        replace(each, state=intents.ClaimState.WON)
        if (each.step, each.epoch) == record.place and each.state is intents.ClaimState.OPEN
        else each
        for each in intent.claims
    )
    turn.intents[intent.id] = intent.with_claims(won)
    return intent.id
