"""The invariants, counted anew after each event (protocol, section 1): what must hold between a world and the next.

Each check is told what was on record before an event and after it, and what the history says by itself
(`Testimony`); it gives a sentence for each thing that is wrong. Together they are the judge of the simulator and of the
property tests, so none of them calls a function that decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import Kind, State
from fencing.protocol.simulate import past, undone
from fencing.protocol.simulate.speculated import ACTS
from fencing.protocol.simulate.testimony import MAY_BE_OUT, Testimony
from fencing.protocol.world import World
from fencing.protocol.world.events import Admit, Cast, Issue, Propose, Replay, Work
from fencing.protocol.world.records import Commit, Done, Entry, IntentRecord, StepRecord

REJECTS_AGREEMENT = frozenset({Reason.UNKNOWN_TOOL, Reason.INVALID_ARGS, Reason.KEY_CONFLICT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A property that does not hold, by the name of its invariant or rule, and the sentence that says how."""

    property: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One event with the worlds around it."""

    before: World
    after: World
    entry: Entry
    said: Testimony

    @property
    def done(self) -> Done | None:
        """The answer, if it was no refusal."""
        return self.entry.result if isinstance(self.entry.result, Done) else None


Check: TypeAlias = Callable[[Moment], Iterator[str]]


def check(before: World, after: World) -> tuple[Violation, ...]:
    """Give everything that is wrong after the last event of `after`, which followed on `before`."""
    moment = Moment(before=before, after=after, entry=after.history[-1], said=Testimony(after))
    return tuple(
        Violation(property=name, sentence=sentence)
        for name, checks in PROPERTIES.items()
        for each in checks
        for sentence in each(moment)
    )


def _commits(world: World) -> Iterator[tuple[StepRecord, Commit]]:
    return ((record, record.commit) for record in world.steps if record.commit is not None)


def _name(record: StepRecord) -> str:
    return f"{record.facts.step} of epoch {record.facts.epoch}"


# ---- I1: what is committed ----


def commits_have_authority(moment: Moment) -> Iterator[str]:
    """A commit needs one digest on record, and every required path or one live grant behind it."""
    known = {commit.token for _, commit in _commits(moment.before)}
    for record, commit in _commits(moment.after):
        if commit.token in known:
            continue
        said, name = moment.said, _name(record)
        if said.digests(record.place) != {commit.digest}:
            yield f"{name} was committed with {len(said.digests(record.place))} digests on record"
        if said.tools(record.place) != {commit.tool}:
            yield f"{name} was committed though {len(said.tools(record.place))} tools were named"
        if commit.grant is None:
            yield from _lacks_agreement(moment, record, commit)
        else:
            yield from _lacks_grant(moment, record, commit)


def _lacks_agreement(moment: Moment, record: StepRecord, commit: Commit) -> Iterator[str]:
    definition = moment.after.tools(commit.tool)
    if definition is None or definition.is_read_only:
        yield f"{_name(record)} was committed for a tool that is not registered, or only reads"
        return
    missing = set(definition.policy.required_paths) - moment.said.paths(record.place)
    if missing:
        yield f"{_name(record)} was committed by agreement without {', '.join(sorted(missing))}"
    trusted = None if not definition.advisory else definition.policy.trusted_path
    if not _is_said(moment, record, commit, trusted):
        yield f"{_name(record)} binds a payload that no path with the right to it asked for"


def _is_said(moment: Moment, record: StepRecord, commit: Commit, path: str | None) -> bool:
    return any(
        action is not None and action.payload_digest == commit.payload and path in (None, voter)
        for voter, _, action in moment.said.votes[record.place]
    )


def _lacks_grant(moment: Moment, record: StepRecord, commit: Commit) -> Iterator[str]:
    name, paths = _name(record), moment.said.paths(record.place)
    grant = moment.said.grants.get(commit.grant or "")
    definition = moment.after.tools(commit.tool)
    if grant is None or definition is None:
        yield f"{name} was committed under a grant that nobody issued"
        return
    asked, policy = grant.asked, definition.policy
    if grant.is_over(moment.entry.at):
        yield f"{name} was committed under {asked.name}, which is over"
    if moment.said.is_frozen(commit.tool):
        yield f"{name} was committed under {asked.name} while a freeze stood"
    if paths != {asked.path} or not _is_said(moment, record, commit, asked.path):
        yield f"{name} was committed under {asked.name} for {asked.path}, and {', '.join(sorted(paths))} voted"
    is_for = asked.step in (None, record.facts.step) and asked.tool in (None, commit.tool)
    if not is_for or asked.epoch != record.facts.epoch or asked.digest not in (None, commit.digest):
        yield f"{name} was committed under {asked.name}, which is for something else"
    if asked.path != policy.trusted_path and asked.digest is None:
        yield f"{name} was committed for a witness alone"
    if grant.approvals < policy.grant_approvals - 1 or asked.ttl_s > policy.max_grant_ttl_s:
        yield f"{name} was committed under {asked.name}, which is beyond the tool's policy"


def divergence_takes_commits_back(moment: Moment) -> Iterator[str]:
    """No commit stands beside two digests, unless its effect may be out already (F8)."""
    for record, commit in _commits(moment.after):
        is_divergent = len(moment.said.digests(record.place)) > 1
        if commit.stands and is_divergent and not moment.said.may_be_out(commit.intent):
            yield f"the commit of {_name(record)} stands beside a divergence, and nothing has left"


def one_commit_stands(moment: Moment) -> Iterator[str]:
    """A (run, step) has at most one standing commit over all epochs (R6)."""
    standing = Counter(record.facts.step for record, commit in _commits(moment.after) if commit.stands)
    yield from (f"{step} has {count} standing commits" for step, count in standing.items() if count > 1)
    event = moment.entry.event
    if not isinstance(event, Replay) or moment.done is None or moment.done.duplicate:
        return
    if any(record.facts.step == event.step and commit.stands for record, commit in _commits(moment.before)):
        yield f"{event.step} was replayed, and its commit stands"


def grants_keep_their_limit(moment: Moment) -> Iterator[str]:
    """A grant is never used beyond its limit, and each use is one commit (G3)."""
    used = Counter(commit.grant for _, commit in _commits(moment.after) if commit.grant is not None)
    for record in moment.after.grants:
        if used[record.facts.name] > record.asked.max_uses or used[record.facts.name] != record.facts.uses:
            yield f"{record.facts.name} has {used[record.facts.name]} commits of {record.asked.max_uses}"


# ---- F3, G2: what must follow once the fencer has looked ----


def the_fencer_follows_the_facts(moment: Moment) -> Iterator[str]:
    """A divergence rejects, an agreement commits whatever grants are over beside it, and silence rejects."""
    if not isinstance(moment.entry.event, Work):
        return
    for record in moment.before.steps:
        if record.phase in (Phase.PROPOSED, Phase.AGREED, Phase.FENCED):
            after = moment.after.step(*record.place)
            yield from () if after is None else _unfollowed(moment, after)


def _unfollowed(moment: Moment, record: StepRecord) -> Iterator[str]:
    said, name, place = moment.said, _name(record), record.place
    digests, tools = said.digests(place), said.tools(place)
    if len(digests) > 1 or len(tools) > 1:
        if record.phase is not Phase.REJECTED:
            yield f"{name} is {record.phase.value} beside a divergence"
        return
    definition = moment.after.tools(next(iter(tools), ""))
    paths = ("production", "replica") if definition is None else definition.policy.required_paths
    if said.paths(place) >= set(paths):
        is_open = record.phase in (Phase.COMMITTED, Phase.EXEMPT, Phase.AGREED)
        has_payload = any(action is not None for _, _, action in said.votes[place])
        may_act = said.gate(place) == ACTS or (definition is not None and definition.optimistic)
        has_all = has_payload and definition is not None and not definition.advisory
        is_idling = record.phase is Phase.AGREED and has_all and may_act
        if is_idling or (not is_open and record.reason not in REJECTS_AGREEMENT):
            yield f"{name} is {record.phase.value} ({record.reason}) though every path agreed"
    elif record.phase is Phase.PROPOSED and moment.entry.at >= record.facts.deadline_at:
        yield f"{name} still waits after its deadline"


# ---- I2: what leaves ----


def nothing_leaves_without_authority(moment: Moment) -> Iterator[str]:
    """A call is let through for a standing commit of exactly its payload, with its delivery on record."""
    event, done = moment.entry.event, moment.done
    if not isinstance(event, Admit) or done is None or done.settled is not None:
        return
    if done.undoing is not None:
        yield from () if done.number is None else _frozen(moment, event, whole_run=_is_in_run(moment, done.undoing))
        return
    if done.exempt:
        yield from _frozen(moment, event, whole_run=False)
        definition = moment.after.tools(event.action.tool)
        if definition is None or not definition.is_read_only:
            yield f"a call of {event.action.tool} was let through as if it only read"
        return
    found = next(((step, commit) for step, commit in _commits(moment.after) if commit.token == event.token), None)
    if found is None:
        yield "a call was let through with a token that nobody minted"
        return
    record, commit = found
    yield from _frozen(moment, event, whole_run=True)
    if not commit.stands:
        yield f"a call was let through for {_name(record)}, whose commit does not stand"
    if commit.payload != event.action.payload_digest:
        yield f"a call was let through for {_name(record)} with another payload than its commit binds"
    yield from _stray_delivery(moment, done, commit)
    yield from _ended_authority(moment, record, commit)


def _is_in_run(moment: Moment, undoing: str) -> bool:
    return next(each.in_run for each in moment.after.undoings if each.id == undoing)


def _frozen(moment: Moment, event: Admit, *, whole_run: bool) -> Iterator[str]:
    """A call that names no run lies in none; a token lies in its run (L10)."""
    tools = {each.tool for each in moment.said.freezes.values()}
    in_run = whole_run or event.step is not None
    if event.action.tool in tools or (None in tools and in_run):
        yield f"a call of {event.action.tool} was let through while a freeze stood"


def _stray_delivery(moment: Moment, done: Done, commit: Commit) -> Iterator[str]:
    intent = next((each for each in moment.after.intents if each.id == done.intent), None)
    delivery = None if intent is None else next((d for d in intent.facts.deliveries if d.number == done.number), None)
    if intent is None or delivery is None or delivery.payload != commit.payload or intent.id != commit.intent:
        yield "a call was let through without its delivery on record"
        return
    others = [kind for number, kind in moment.said.told[intent.id].items() if number != done.number]
    definition = moment.after.tools(commit.tool)
    if intent.id in moment.said.contradicted:
        yield f"{intent.id} was delivered again, though somebody says that it happened"
    if Kind.SUCCEEDED in others:
        yield f"{intent.id} was delivered again after it had succeeded"
    repeated = sum(kind in (None, Kind.UNKNOWN) for kind in others)
    if repeated and (definition is None or not definition.idempotent):
        yield f"{intent.id} was delivered again, its tool is not idempotent, and it may be out already"
    if definition is not None and repeated >= definition.policy.max_deliveries:
        yield f"{intent.id} was delivered more often than its tool allows"


def _ended_authority(moment: Moment, record: StepRecord, commit: Commit) -> Iterator[str]:
    if len(moment.said.digests(record.place)) > 1:
        yield f"a call was let through for {_name(record)} beside a divergence"
    grant = moment.said.grants.get(commit.grant or "")
    definition = moment.after.tools(commit.tool)
    paths = set() if definition is None else set(definition.policy.required_paths)
    is_alone = commit.grant is not None and not moment.said.paths(record.place) >= paths
    if is_alone and (grant is None or grant.is_over(moment.entry.at)):
        yield f"a call was let through for {_name(record)}, whose only authority is over"


# ---- I3: what happened, once and as wanted ----


def effects_are_neither_doubled_nor_lost(moment: Moment) -> Iterator[str]:
    """A key's next generation opens only when nothing of the last is wanted or out, and states are what was told."""
    standing = {commit.intent for _, commit in _commits(moment.after) if commit.stands}
    for intent in moment.after.intents:
        kinds = set(moment.said.told[intent.id].values())
        is_out = bool(kinds & MAY_BE_OUT)
        is_newest = all(each.facts.generation <= intent.facts.generation for each in _same_key(moment, intent.key))
        if not is_newest and (is_out or intent.id in standing) and not _is_undone(moment, intent):
            yield f"{intent.id} has a next generation, and is still wanted or may be out"
        if intent.facts.state is State.FAILED and (is_out or Kind.FAILED not in kinds):
            yield f"{intent.id} is taken as failed, and nobody said so of every delivery"
        has_happened = Kind.SUCCEEDED in kinds or intent.id in moment.said.adopted
        if (intent.facts.state is State.SUCCEEDED) != has_happened:
            told = "a report says" if has_happened else "no report says"
            yield f"{intent.id} is {intent.facts.state.value}, and {told} that it succeeded"


def _is_undone(moment: Moment, intent: IntentRecord) -> bool:
    """Whether a compensation of it is done, by what was told of it (B6)."""
    mine = (each.id for each in moment.after.undoings if each.intent == intent.id and each.effect is None)
    return any(each in moment.said.undone.done for each in mine)


def _same_key(moment: Moment, key: str) -> Iterator[IntentRecord]:
    return (each for each in moment.after.intents if each.key == key)


# ---- I5, N2: nothing that arrived is lost, and nothing counts twice ----


def every_input_leaves_a_trace(moment: Moment) -> Iterator[str]:
    """It was accepted, or was a duplicate and changed nothing, or stands in the side log with its reason."""
    before, after, result = moment.before, moment.after, moment.entry.result
    fresh = [row.reason for row in after.side_log[len(before.side_log) :]]
    kind = type(moment.entry.event).__name__
    if isinstance(result, Refusal):
        if result.code.value not in fresh:
            yield f"{kind} was refused ({result.code.value}) without a side-log row"
    elif result.duplicate:
        if before.record != after.record:
            yield f"{kind} was a duplicate and changed something"
    elif not _is_recorded(moment):
        yield f"{kind} was accepted and is not on record"


def _is_recorded(moment: Moment) -> bool:
    before, after, event = moment.before, moment.after, moment.entry.event
    match event:
        case Cast():
            old, new = before.step(event.step, event.epoch), after.step(event.step, event.epoch)
            return old is not None and new is not None and len(new.facts.votes) == len(old.facts.votes) + 1
        case Propose():
            new = after.step(event.step, event.epoch)
            return new is not None and new.content is not None
        case Issue():
            return any(record.asked == event for record in after.grants)
        case _:
            return True


def stale_inputs_are_refused(moment: Moment) -> Iterator[str]:
    """A proposal or a vote counts at its step's own number alone, or at that of its standing commit (R5)."""
    event = moment.entry.event
    if not isinstance(event, Cast | Propose) or not _is_new(moment, event):
        return
    own = Testimony(moment.before).own_epoch(event.step, moment.before.start)
    record = moment.before.step(event.step, event.epoch)
    has_commit = record is not None and record.commit is not None and record.commit.stands
    if event.epoch != own and not has_commit:
        yield f"{type(event).__name__} for epoch {event.epoch} was taken, and the step is in epoch {own}"


def _is_new(moment: Moment, event: Cast | Propose) -> bool:
    if isinstance(event, Propose):
        return moment.done is not None and not moment.done.duplicate
    old, new = (world.step(event.step, event.epoch) for world in (moment.before, moment.after))
    return old is not None and new is not None and len(new.facts.votes) > len(old.facts.votes)


PROPERTIES: dict[str, tuple[Check, ...]] = {
    "I1": (commits_have_authority, divergence_takes_commits_back, undone.branches_gate_commits),
    "I2": (nothing_leaves_without_authority, undone.lost_branches_send_nothing, undone.undoings_have_approvals),
    "I3": (
        effects_are_neither_doubled_nor_lost,
        undone.what_is_wanted_stays,
        undone.what_nobody_wants_is_owed,
        undone.at_rest_the_effects_are_what_is_wanted,
    ),
    "I5": (every_input_leaves_a_trace,),
    "I6": (past.the_past_stays,),
    "R5": (stale_inputs_are_refused,),
    "R6": (one_commit_stands,),
    "G3": (grants_keep_their_limit,),
    "F3": (the_fencer_follows_the_facts,),
    "B2": (undone.a_fork_has_one_winner,),
    "P4": (undone.newly_won_claims_withdraw,),
    "P5": (undone.undoings_end_as_they_were_told,),
    "L3": (undone.what_is_settled_was_told,),
    "L8": (undone.rows_belong_to_deliveries, undone.escapes_wait_for_people),
}
"""Every property that is checked, by the invariant or rule that it is one of."""
