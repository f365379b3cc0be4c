"""What a world has on record: the rows of the database as frozen values, one class for each table that decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from fencing.protocol import compensations, fence, grants, intake, intents
from fencing.protocol.claims import Claim
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.ledgers import Match

if TYPE_CHECKING:
    from fencing.protocol.actions import Action
    from fencing.protocol.tools import ToolDefinition
    from fencing.protocol.world.events import (
        Adopt,
        Event,
        Issue,
        Observe,
        OpenFork,
        Record,
        Resolve,
        ResolveUndoing,
        SetFreeze,
        Waive,
    )

Place: TypeAlias = "tuple[str, int]"
"""A step's name and epoch."""

Tools: TypeAlias = "Callable[[str], ToolDefinition | None]"
"""The registry: a tool's definition by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit (K1). It stands while `closed_at` is None."""

    token: str
    tool: str
    payload: str
    digest: str
    key: str
    authority: str
    grant: str | None
    intent: str
    at: datetime
    expires_at: datetime | None
    closed_at: datetime | None = None
    closed_reason: Reason | None = None

    @property
    def stands(self) -> bool:
        """Whether it was neither taken back nor closed by a failed effect."""
        return self.closed_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One epoch of a step. `heard_at` has the time of each vote of `facts`, `due_at` says when the fencer looks."""

    facts: fence.Step
    branch: str | None = None
    reason: Reason | None = None
    content: str | None = None
    key: str | None = None
    occurrence: int = 0
    deadline_s: float | None = None
    proposed_at: datetime | None = None
    decided_at: datetime | None = None
    heard_at: tuple[datetime, ...] = ()
    due_at: datetime | None = None
    commit: Commit | None = None

    @property
    def place(self) -> Place:
        """Its name and epoch."""
        return self.facts.step, self.facts.epoch

    @property
    def phase(self) -> Phase:
        """Where it is."""
        return self.facts.phase

    def key_for(self, digest: str) -> str:
        """The invocation key under which it wants an action of this digest (L1)."""
        return self.key or intents.default_key(digest, self.occurrence)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """A grant, as what was asked and what became of it."""

    asked: Issue
    facts: grants.Grant
    at: datetime
    approvers: tuple[str, ...] = ()
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeRecord:
    """A freeze, with who lifted it once somebody did."""

    id: str
    asked: SetFreeze
    at: datetime
    lifted_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRecord:
    """A fork, as what was asked. What became of it is in the world's tree."""

    asked: OpenFork
    deadline_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRecord:
    """An intent with the steps that claim it.

    `resolved` is a person's last word about it (L6), `sent` what left, or may have, in its order, and `left_at` when
    the last of it did; `behind` are the people behind grants that let it through (P3).
    """

    id: str
    key: str
    tool: str | None
    facts: intents.Intent
    claims: tuple[Claim, ...] = ()
    resolved: Resolve | None = None
    sent: tuple[Action, ...] = ()
    left_at: datetime | None = None
    behind: frozenset[str] = frozenset()

    @property
    def action(self) -> Action | None:
        """What left last, or may have."""
        return self.sent[-1] if self.sent else None

    def with_claims(self, held: tuple[Claim, ...]) -> IntentRecord:
        """Give the intent with these claims."""
        is_optimistic = any(each.state is intents.ClaimState.OPEN and each.is_committed for each in held)
        states = tuple(each.state for each in held)
        return replace(self, claims=held, facts=replace(self.facts, claims=states, is_optimistic=is_optimistic))

    def claim_of(self, place: Place) -> Claim | None:
        """Find a step's claim that is not lost."""
        return next((each for each in self.claims if (each.step, each.epoch) == place and not each.is_lost), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """That a person approved, in one round, what they saw the digest of."""

    round: int
    by: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One delivery of an approval."""

    round: int
    at: datetime
    delivery: intents.Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoingRecord:
    """A compensation: what would undo an intent's effect, or a ledger row that should not be there (P1 to P7).

    `action` is what would be sent, None where a person does it by hand. `round` counts approvals that were used up;
    `released` are the rounds whose token was minted. `said` is a person's word that ended it, `resolved` the last word
    about an act in doubt.
    """

    id: str
    tool: str | None
    cause: compensations.Cause
    state: compensations.State
    needed: int
    action: Action | None
    intent: str | None = None
    effect: str | None = None
    effect_at: datetime | None = None
    in_run: bool = True
    requester: str | None = None
    round: int = 1
    approvals: tuple[Approval, ...] = ()
    released: tuple[int, ...] = ()
    tries: tuple[Try, ...] = ()
    not_before: datetime | None = None
    said: Waive | Record | None = None
    resolved: ResolveUndoing | None = None

    @property
    def digest(self) -> str | None:
        """The digest of what would be sent."""
        return None if self.action is None else self.action.payload_digest

    @property
    def is_open(self) -> bool:
        """Whether it is neither done nor given up."""
        return self.state in compensations.OPEN

    def token(self, number: int) -> str:
        """The token of one round's approval."""
        return f"{self.id}/{number}"

    def tries_of(self, number: int) -> tuple[intents.Delivery, ...]:
        """The deliveries of one round, by their numbers."""
        return tuple(each.delivery for each in self.tries if each.round == number)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """A ledger row. `is_open`: it should not be there, and no person said yet what becomes of it (L8)."""

    asked: Observe
    match: Match
    at: datetime
    tool: str
    digest: str | None
    action: Action | None
    intent: str | None = None
    undoing: str | None = None
    is_open: bool = False
    adopted: Adopt | None = None

    @property
    def id(self) -> str:
        """The tool's own name of the row."""
        return self.asked.external_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An epoch that was opened: by a restart, or for one step by its replay."""

    number: int
    from_epoch: int
    asked: Event
    step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something for a person to look at: a late divergence, a contradiction, an effect that should not be there."""

    kind: str
    place: Place | None = None
    intent: str | None = None
    undoing: str | None = None
    effect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRow:
    """An input that was refused or ignored, and why (S1)."""

    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The answer "yes". `duplicate`: nothing new was written (N2).

    `token` is a standing commit's; `intent` and `number` name a delivery that was opened, `settled` what is known of an
    effect that is not delivered again; `exempt` is a call that needs no commit; `touched` are the steps that a
    restart, a revocation or a freeze moved, or that the fencer looked at; `freeze` is the freeze that was set.
    `undoing` is the compensation that a call is let through for, or that was asked for; `match` is what a ledger row
    is; `cancelled`, `owed` and `withdrawn` are the keys and compensations that a reconciliation reached.
    """

    duplicate: bool = False
    epoch: int | None = None
    token: str | None = None
    intent: str | None = None
    number: int | None = None
    settled: intents.State | None = None
    exempt: bool = False
    late: intake.Late = intake.Late.NO
    touched: tuple[Place, ...] = ()
    freeze: str | None = None
    undoing: str | None = None
    match: Match | None = None
    cancelled: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()


Result: TypeAlias = Done | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event as it happened: when, what, and how it was answered."""

    at: datetime
    event: Event
    result: Result
