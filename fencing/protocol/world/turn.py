"""One transaction of a world: its working state, moving a step, and taking a commit back.

Like the services, this acts and has no rules of its own: what may move is in the tables of transitions, what loses its
authority in `fence.lost_authority`, what follows for an intent in `intents.state_after_claims`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fencing.protocol import compensations, fence, grants, intents, transitions
from fencing.protocol.branches import EMPTY, Tree
from fencing.protocol.epochs import RunEpochs, step_epoch
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.freezes import Freeze
from fencing.protocol.intake import Known
from fencing.protocol.rules import rules_of
from fencing.protocol.world import following
from fencing.protocol.world.records import (
    Commit,
    EffectRecord,
    ForkRecord,
    FreezeRecord,
    GrantRecord,
    Incident,
    IntentRecord,
    Opening,
    Place,
    SideRow,
    StepRecord,
    Tools,
    UndoingRecord,
)

if TYPE_CHECKING:
    from fencing.protocol.tools import ToolDefinition

_rules_of = lru_cache(maxsize=64)(rules_of)


class Impossible(AssertionError):
    """A rule of the core asked for what its tables and values do not allow: a fault of ours, never of a caller."""


class Turn:
    """What one event reads and changes. `now` is the clock of the whole turn (N3)."""

    def __init__(self, run: str, tools: Tools, epochs: RunEpochs, now: datetime) -> None:
        self.run, self.tools, self.now = run, tools, now
        self.epochs = epochs
        self.steps: dict[Place, StepRecord] = {}
        self.grants: dict[str, GrantRecord] = {}
        self.freezes: dict[str, FreezeRecord] = {}
        self.tree: Tree = EMPTY
        self.forks: dict[str, ForkRecord] = {}
        self.undoings: dict[str, UndoingRecord] = {}
        self.effects: dict[tuple[str, str], EffectRecord] = {}
        self.intents: dict[str, IntentRecord] = {}
        self.openings: list[Opening] = []
        self.incidents: list[Incident] = []
        self.side_log: list[SideRow] = []

    # ---- reading ----

    def definition(self, tool: str | None) -> ToolDefinition | None:
        """A tool's definition; None for an unknown one."""
        return None if tool is None else self.tools(tool)

    def rules(self, record: StepRecord) -> fence.Rules:
        """What the step's tool asks of the fence, as far as anybody told the tool."""
        return _rules_of(self.definition(fence.tool_of(record.facts)))

    def epochs_of(self, step: str) -> list[StepRecord]:
        """All epochs of a step, in their order."""
        return sorted((each for each in self.steps.values() if each.facts.step == step), key=lambda each: each.place)

    def own_epoch(self, step: str) -> int:
        """A step's own number (R1)."""
        return step_epoch(self.epochs, (each.facts.epoch for each in self.epochs_of(step)))

    def known(self, step: str) -> list[Known]:
        """What is on record for a step, as intake and admission judge it."""
        return [self.as_known(each) for each in self.epochs_of(step)]

    def as_known(self, record: StepRecord) -> Known:
        """One epoch of a step, as intake and admission judge it."""
        commit = None if record.commit is None else self.pure_commit(record.commit)
        return Known(step=record.facts, content=record.content, commit=commit, reason=record.reason)

    def pure_commit(self, commit: Commit) -> fence.Committed:
        """A commit as the fence knows it."""
        grant = None if commit.grant is None else self.grants[commit.grant].facts
        return fence.Committed(authority=commit.authority, digest=commit.digest, grant=grant, stands=commit.stands)

    def all_grants(self) -> list[grants.Grant]:
        """The run's grants."""
        return [each.facts for each in self.grants.values()]

    def standing_freezes(self) -> list[Freeze]:
        """The freezes that nobody lifted yet (L10)."""
        standing = (each for each in self.freezes.values() if each.lifted_by is None)
        return [
            Freeze(id=each.id, tool=each.asked.tool, run=None if each.asked.tool else self.run, at=each.at)
            for each in standing
        ]

    def newest_undoing(self, intent: str) -> UndoingRecord | None:
        """The newest act that would undo this very effect, as it is with any state (P1)."""
        found = (each for each in reversed(self.undoings.values()) if each.intent == intent and each.effect is None)
        return next(found, None)

    def lost_authority(self, record: StepRecord) -> Reason | None:
        """Why a standing commit must be taken back if its effect is not admitted (F8, G5, R3)."""
        if record.commit is None or not record.commit.stands:
            return None
        commit, rules = self.pure_commit(record.commit), self.rules(record)
        return fence.lost_authority(commit, record.facts, rules, run_epoch=self.epochs.epoch, now=self.now)

    # ---- writing ----

    def note(self, reason: str) -> None:
        """Write a side-log row (S1)."""
        self.side_log.append(SideRow(reason=reason, at=self.now))

    def refuse(self, refusal: Refusal) -> Refusal:
        """Write the side-log row of a refusal, and give it back as the result (N7)."""
        self.note(refusal.code.value)
        return refusal

    def put(self, record: StepRecord, **columns: Any) -> StepRecord:
        """Change a step's columns, never its phase."""
        self.steps[record.place] = replace(record, **columns)
        return self.steps[record.place]

    def move(self, record: StepRecord, phase: Phase, reason: Reason | None, **columns: Any) -> StepRecord:
        """Move a step to a phase that the table allows. `fenced_at` and `fenced_by` belong to its facts."""
        if phase is not record.phase and not transitions.allows(fence.TRANSITIONS, record.phase, phase, reason):
            raise Impossible(f"a step does not go from {record.phase} to {phase} by {reason}")
        if phase not in fence.UNDECIDED and record.decided_at is None:
            columns["decided_at"] = self.now
        if phase in (Phase.REJECTED, Phase.EXEMPT):
            columns["due_at"] = None
        fenced = {name: columns.pop(name) for name in ("fenced_at", "fenced_by") if name in columns}
        return self.put(record, facts=replace(record.facts, phase=phase, **fenced), reason=reason, **columns)

    def wake(self, epoch: int, step: str | None) -> None:
        """Have the fencer look again at the undecided steps that a grant of this epoch may cover."""
        for record in list(self.steps.values()):
            is_reached = record.facts.epoch == epoch and step in (None, record.facts.step)
            if is_reached and record.phase in fence.UNDECIDED:
                self.put(record, due_at=self.now)

    def open_incident(self, incident: Incident) -> None:
        """Call a person, once for each thing."""
        if incident not in self.incidents:
            self.incidents.append(incident)

    def contradict(self, intent: str) -> None:
        """Call a person to an effect about which two reports contradict each other, unless one was called already."""
        kind = "outcome_conflict"
        if not any((each.kind, each.intent) == (kind, intent) for each in self.incidents):
            self.incidents.append(Incident(kind=kind, intent=intent))

    def move_intent(self, record: IntentRecord, state: intents.State, **columns: Any) -> IntentRecord:
        """Move an intent to a state that the table allows. `columns` are those of its facts."""
        before = record.facts.state
        if state is not before and not transitions.allows(intents.TRANSITIONS, before, state):
            raise Impossible(f"an intent does not go from {before} to {state}")
        self.intents[record.id] = replace(record, facts=replace(record.facts, state=state, **columns))
        return self.intents[record.id]

    def put_undoing(self, record: UndoingRecord) -> UndoingRecord:
        """Write a compensation; its intent knows from then on whether it is being undone, or was (B6)."""
        before = self.undoings.get(record.id)
        is_moved = before is not None and record.state is not before.state
        if before and is_moved and not transitions.allows(compensations.TRANSITIONS, before.state, record.state):
            raise Impossible(f"a compensation does not go from {before.state} to {record.state}")
        self.undoings[record.id] = record
        if record.intent is not None and record.effect is None:
            intent, state = self.intents[record.intent], record.state
            is_being = state in (compensations.State.IN_FLIGHT, compensations.State.IN_DOUBT)
            is_done = state is compensations.State.DONE
            facts = replace(intent.facts, is_undone=is_done, is_being_undone=is_being)
            self.intents[intent.id] = replace(intent, facts=facts)
        return record

    def grow(self, tree: Tree) -> None:
        """Take another tree of forks; each step in a branch learns whether it may act now, or is lost (B3, B4)."""
        self.tree = tree
        for record in list(self.steps.values()):
            if record.branch is not None:
                self.put(record, facts=replace(record.facts, gate=tree.gate(record.branch)))

    # ---- taking authority away (F8, F9, G5, R3) ----

    def take_back(self, record: StepRecord) -> Reason | None:
        """Take back a standing commit that lost its authority, unless its effect is admitted. None: it stands on."""
        reason = self.lost_authority(record)
        if reason is None or record.commit is None or intents.is_admitted(self.intents[record.commit.intent].facts):
            return None
        closed = self.close_commit(record, reason)
        self.move(closed, Phase.REJECTED, reason)
        return reason

    def close_commit(self, record: StepRecord, reason: Reason) -> StepRecord:
        """Close a standing commit and lose its claim; the intent follows its claims (L2, L7)."""
        if record.commit is None or not record.commit.stands:
            raise Impossible("only a standing commit can be closed")
        closed = self.put(record, commit=replace(record.commit, closed_at=self.now, closed_reason=reason))
        self.lose_claim(closed.place, self.intents[record.commit.intent], reason)
        return closed

    def drop_claim(self, record: StepRecord, reason: Reason) -> None:
        """Let go of what an undecided step claimed: an agreement that waited, and comes to nothing (L2).

        It may have been the last that wanted what a lost branch sent (B4).
        """
        for intent in list(self.intents.values()):
            if record.phase is Phase.AGREED and intent.claim_of(record.place) is not None:
                self.lose_claim(record.place, intent, reason)
                following.propose_if_owed(self.intents[intent.id], self)

    def lose_claim(self, place: Place, intent: IntentRecord, reason: Reason) -> None:
        """Mark a step's claim lost, and move the intent, and what would undo its effect, as its claims say (L2, P4)."""
        mine = intent.claim_of(place)
        lost = tuple(
            replace(each, state=intents.ClaimState.LOST, is_committed=False, lost_for=reason) if each is mine else each
            for each in intent.claims
        )
        following.follow(self.follow_claims(intent.with_claims(lost)), self)

    def follow_claims(self, intent: IntentRecord) -> IntentRecord:
        """Move an intent as its claims say (L2)."""
        return self.move_intent(intent, intents.state_after_claims(intent.facts))
