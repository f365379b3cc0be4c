"""The invariants about branches, ledgers and undoing (protocol, sections 9 to 11), counted from what was said.

As in `invariants`, nothing here calls a function that decides: whether a branch acts, who approved what, and what
became of a call is read from the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencing.protocol import compensations
from fencing.protocol.branches import State as BranchState
from fencing.protocol.compensations import Cause
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import Kind, State
from fencing.protocol.ledgers import Match
from fencing.protocol.simulate.speculated import ACTS, LOST, WAITS
from fencing.protocol.world.events import Admit, Observe
from fencing.protocol.world.records import Commit, StepRecord, UndoingRecord

if TYPE_CHECKING:
    from fencing.protocol.simulate.invariants import Moment
    from fencing.protocol.world import World

DUE = frozenset({compensations.State.PROPOSED, compensations.State.APPROVED})
UNSETTLED = frozenset({State.READY, State.IN_FLIGHT, State.IN_DOUBT})
OF_NO_USE = frozenset({State.CANCELLED, State.HELD, State.FAILED})


def _commits(world: World) -> Iterator[tuple[StepRecord, Commit]]:
    return ((record, record.commit) for record in world.steps if record.commit is not None)


def _standing(moment: Moment, gate: str) -> list[tuple[StepRecord, Commit]]:
    """The standing commits of steps whose branch acts, waits, or is lost."""
    found = _commits(moment.after)
    return [(record, commit) for record, commit in found if commit.stands and moment.said.gate(record.place) == gate]


def _newest(world: World, intent: str) -> UndoingRecord | None:
    mine = _about(world, intent)
    return mine[-1] if mine else None


def _name(record: StepRecord) -> str:
    return f"{record.facts.step} of epoch {record.facts.epoch}"


# ---- B2 to B4: branches ----


def a_fork_has_one_winner(moment: Moment) -> Iterator[str]:
    """A fork is reconciled once, and its branches are what was said then (B2)."""
    yield from (f"fork {name} was reconciled twice" for name in moment.said.forks.again)
    won = Counter(each.fork for each in moment.after.tree.branches.values() if each.state is BranchState.WON)
    yield from (f"fork {name} has {count} winners" for name, count in won.items() if count > 1)
    for name, branch in moment.after.tree.branches.items():
        if (branch.state is BranchState.LOST) != (moment.said.forks.gate(name) == LOST):
            yield f"branch {name} is {branch.state.value}, and its fork said otherwise"


def branches_gate_commits(moment: Moment) -> Iterator[str]:
    """What is committed in a branch that does not act can be undone (B3, F4); in a lost one nothing is (B4)."""
    known = {commit.token for _, commit in _commits(moment.before)}
    for record, commit in _commits(moment.after):
        gate = moment.said.gate(record.place)
        definition = moment.after.tools(commit.tool)
        is_optimistic = definition is not None and definition.optimistic
        if commit.token not in known and (gate == LOST or (gate == WAITS and not is_optimistic)):
            yield f"{_name(record)} was committed in a branch that is {gate}"
        if gate == LOST and commit.stands and not moment.said.may_be_out(commit.intent):
            yield f"the commit of {_name(record)} stands in a lost branch, and nothing has left"


def lost_branches_send_nothing(moment: Moment) -> Iterator[str]:
    """No call is let through for a commit of a lost branch, and for one that waits only what can be undone (L2)."""
    event, done = moment.entry.event, moment.done
    if not isinstance(event, Admit) or done is None or done.number is None or done.undoing is not None:
        return
    found = next((pair for pair in _commits(moment.after) if pair[1].token == event.token), None)
    if found is None:
        return
    gate, definition = moment.said.gate(found[0].place), moment.after.tools(event.action.tool)
    if gate == LOST or (gate == WAITS and (definition is None or not definition.optimistic)):
        yield f"a call was let through for {_name(found[0])}, whose branch is {gate}"
    if event.action.payload_digest in moment.said.undone.escapes.values():
        yield "a call was let through while its very action had happened without authority, and nobody decided on that"
    if any(State.IN_DOUBT is each.facts.state for each in moment.before.intents if each.id == done.intent):
        yield f"{done.intent} was delivered again while it was in doubt"


def what_is_settled_was_told(moment: Moment) -> Iterator[str]:
    """Nobody is told that an effect is there, or failed, unless a gateway or a person said so (L3)."""
    done = moment.done
    if not isinstance(moment.entry.event, Admit) or done is None or done.settled is None or done.intent is None:
        return
    told = moment.said.told[done.intent].values()
    is_told = Kind.FAILED in told if done.settled is State.FAILED else Kind.SUCCEEDED in told
    if not is_told and done.intent not in moment.said.adopted:
        yield f"a call was told that {done.intent} has {done.settled.value}, and nobody said so"


# ---- I3: what stays, and what is undone ----


def what_is_wanted_stays(moment: Moment) -> Iterator[str]:
    """What a standing commit wants is on its way or there, and is not undone but by a person who asked (B5, B6)."""
    intents = {each.id: each for each in moment.after.intents}
    for record, commit in _standing(moment, ACTS):
        state = intents[commit.intent].facts.state
        if state in OF_NO_USE:
            yield f"{_name(record)} is committed and may act, and its effect is {state.value}"
        newest = _newest(moment.after, commit.intent)
        span = None if newest is None else moment.said.undone.done.get(newest.id)
        if newest is not None and span is not None and commit.at >= span.began:
            yield f"{_name(record)} wants what {newest.id} has undone, and it is not sent again"
        if newest is not None and newest.cause is Cause.BRANCH_LOST and newest.state in compensations.WITHDRAWABLE:
            yield f"{newest.id} would undo what {_name(record)} wants"
    for record, commit in _standing(moment, WAITS):
        newest = _newest(moment.after, commit.intent)
        if newest is not None and newest.state in DUE:
            yield f"{newest.id} is {newest.state.value}, and the branch of {_name(record)} may still want the effect"


def newly_won_claims_withdraw(moment: Moment) -> Iterator[str]:
    """What would undo an effect is withdrawn when a claim on it is won (P4)."""
    before = {commit.token for record, commit in _commits(moment.before) if _acted(moment, record)}
    for record, commit in _standing(moment, ACTS):
        newest = _newest(moment.after, commit.intent)
        if commit.token not in before and newest is not None and newest.state in compensations.WITHDRAWABLE:
            yield f"{newest.id} is {newest.state.value}, and {_name(record)} has just won the effect"


def _acted(moment: Moment, record: StepRecord) -> bool:
    return record.branch is None or moment.before.tree.gate(record.branch).may_act


def what_nobody_wants_is_owed(moment: Moment) -> Iterator[str]:
    """An effect of a lost branch that happened, and that no commit wants, is or was up to a person (B4, P1)."""
    wanted = {commit.intent for gate in (ACTS, WAITS) for _, commit in _standing(moment, gate)}
    for intent in moment.after.intents:
        open_claim = any(not each.is_lost for each in intent.claims)
        is_of_loser = any(_lost_with_its_branch(moment, (each.step, each.epoch)) for each in intent.claims)
        has_happened = Kind.SUCCEEDED in moment.said.told[intent.id].values() or intent.id in moment.said.adopted
        if not is_of_loser or not has_happened or open_claim or intent.id in wanted:
            continue
        newest = _newest(moment.after, intent.id)
        if newest is None or newest.state is compensations.State.WITHDRAWN:
            yield f"{intent.id} happened for a lost branch, nobody wants it, and nothing would undo it"


def at_rest_the_effects_are_what_is_wanted(moment: Moment) -> Iterator[str]:
    """I3 to the letter: what happened is what winners want, less what was undone, plus what a person let stand."""
    if not _is_at_rest(moment):
        return
    done = moment.said.undone.done
    wanted = {commit.intent for _, commit in _standing(moment, ACTS)}
    there: Counter[str | None] = Counter()
    due: Counter[str | None] = Counter()
    for intent in moment.after.intents:
        payload = None if intent.action is None else intent.action.payload_digest
        undone = any(each.id in done for each in _about(moment.after, intent.id))
        is_let_stand = any(each.state is compensations.State.WAIVED for each in _about(moment.after, intent.id))
        was_told = Kind.SUCCEEDED in moment.said.told[intent.id].values()
        there[payload] += was_told
        there[payload] -= undone
        # A person may let stand what turns out not to be there.
        stands = is_let_stand and (was_told or intent.id in moment.said.adopted)
        due[payload] += not undone and (intent.id in wanted or stands)
    for row in moment.after.effects:
        if row.match in (Match.ESCAPE, Match.DOUBLED):
            acts = [each for each in moment.after.undoings if (each.tool, each.effect) == (row.tool, row.id)]
            there[row.digest] += 1 - sum(each.id in done for each in acts)
            is_let_stand = any(each.state is compensations.State.WAIVED for each in acts)
            due[row.digest] += is_let_stand and not any(each.id in done for each in acts)
    if +there != +due or min(there.values(), default=0) < 0:
        yield f"at rest there are {sum(there.values())} effects, and {sum(due.values())} are wanted or were let stand"


def _about(world: World, intent: str) -> list[UndoingRecord]:
    return [each for each in world.undoings if each.intent == intent and each.effect is None]


def _is_at_rest(moment: Moment) -> bool:
    """Whether nothing is in flight, in doubt or awaiting a decision; a contradiction awaits one, too."""
    world = moment.after
    return (
        all(each.facts.state not in UNSETTLED for each in world.intents)
        and not any(each.is_open for each in world.undoings)
        and not any(each.kind == "outcome_conflict" for each in world.incidents)
        and not _standing(moment, WAITS)
        and not any(each.phase is Phase.AGREED for each in world.steps)
    )


def _lost_with_its_branch(moment: Moment, place: tuple[str, int]) -> bool:
    """Whether a step lost its effect with its branch. A commit that was taken back before is F8's, not B4's."""
    record = moment.after.step(*place)
    if record is None or moment.said.gate(place) != LOST:
        return False
    return record.reason is Reason.BRANCH_LOST or (record.commit is not None and record.commit.stands)


# ---- P3 to P5: one approval, one delivery ----


def undoings_have_approvals(moment: Moment) -> Iterator[str]:
    """A call that undoes is let through for exactly what enough people approved, once (P2, P3, P5)."""
    event, done = moment.entry.event, moment.done
    if not isinstance(event, Admit) or done is None or done.undoing is None or done.number is None:
        return
    record = next(each for each in moment.after.undoings if each.id == done.undoing)
    said = moment.said.undone
    people = {by for by, digest in said.approvals[record.id] if digest == event.action.payload_digest}
    definition = moment.after.tools(record.tool or "")
    needed = 1 if definition is None else definition.policy.compensation_approvals
    if len(people) < needed:
        yield f"{record.id} was let through with {len(people)} of {needed} approvals"
    if said.requester.get(record.id) in people:
        yield f"{record.id} was approved by who asked for it"
    if record.effect is None and record.intent is not None:
        kinds = set(moment.said.told[record.intent].values())
        if Kind.SUCCEEDED not in kinds and record.intent not in moment.said.adopted:
            yield f"{record.id} was let through, and nobody knows that there is something to undo"
    calls = said.calls[record.id]
    newest = max(calls)
    others = [kind for place, kind in calls.items() if place != newest]
    if Kind.SUCCEEDED in others:
        yield f"{record.id} was let through again after it was done"
    if any(kind in (None, Kind.UNKNOWN) for kind in others):
        yield f"{record.id} was let through again by a machine, and nobody knows whether it is done"


def undoings_end_as_they_were_told(moment: Moment) -> Iterator[str]:
    """What is done was told so, and what was let stand or withdrawn was not sent and stays so (P5, P6)."""
    before = {each.id: each for each in moment.before.undoings}
    for record in moment.after.undoings:
        is_done = record.state is compensations.State.DONE
        if is_done != (record.id in moment.said.undone.done):
            yield f"{record.id} is {record.state.value}, and what was told of it says otherwise"
        old = before.get(record.id)
        if old is not None and not old.is_open and record.state is not old.state:
            yield f"{record.id} was {old.state.value} and became {record.state.value}"
    for intent in moment.after.intents:
        mine = [each for each in moment.after.undoings if each.intent == intent.id and each.effect is None]
        if sum(each.is_open for each in mine) > 1:
            yield f"{intent.id} has more than one open compensation"
        if sum(each.state is compensations.State.DONE for each in mine) > 1:
            yield f"{intent.id} was undone twice"


# ---- L8: ledgers ----


def rows_belong_to_deliveries(moment: Moment) -> Iterator[str]:
    """A ledger row is an intent's only where that payload was delivered for it, once; anything else is an escape."""
    event, done = moment.entry.event, moment.done
    if not isinstance(event, Observe) or done is None or done.duplicate:
        return
    if done.match is Match.INTENT:
        if not moment.said.told[done.intent or ""]:
            yield f"a ledger row was taken for {done.intent}, which was never delivered"
        rows = [each for each in moment.after.effects if each.intent == done.intent and each.match is Match.INTENT]
        if len(rows) > 1:
            yield f"{done.intent} has {len(rows)} ledger rows that are taken as one effect"
    if event.of is not None and event.of not in _named(moment) and done.match is not Match.ESCAPE:
        yield "a ledger row with a key that nobody gave was taken for an effect of ours"


def _named(moment: Moment) -> set[str]:
    rounds = {f"{undoing}/{place[0]}" for undoing, calls in moment.said.undone.calls.items() for place in calls}
    return {intent for intent, told in moment.said.told.items() if told} | rounds


def escapes_wait_for_people(moment: Moment) -> Iterator[str]:
    """An escape is undone, let stand or adopted by a person; until then it stays open, with what would undo it (P1)."""
    for row in moment.after.effects:
        if row.match not in (Match.ESCAPE, Match.DOUBLED):
            continue
        acts = [each for each in moment.after.undoings if (each.tool, each.effect) == (row.tool, row.id)]
        is_adopted = row.id in moment.said.adopted.values()
        if not is_adopted and all(each.state is compensations.State.WITHDRAWN for each in acts):
            yield f"{row.id} should not be there, and nothing would undo it"
        if row.match is Match.ESCAPE and row.is_open is not (row.id in moment.said.undone.escapes) and row.asked.action:
            yield f"{row.id} is {'open' if row.is_open else 'closed'}, and no person said so"
        if row.adopted is not None and not is_adopted:
            yield f"{row.id} was adopted, and no person said so"
