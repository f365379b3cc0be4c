"""What a world has on record: the rows of the database as frozen values, one class for each table that decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from fencing.protocol import fence, grants, intake, intents
from fencing.protocol.claims import Claim
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Phase, Reason

if TYPE_CHECKING:
    from fencing.protocol.tools import ToolDefinition
    from fencing.protocol.world.events import Event, Issue, Resolve, SetFreeze

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
class IntentRecord:
    """An intent with the steps that claim it. `resolved` is a person's last word about it (L6)."""

    id: str
    key: str
    tool: str | None
    facts: intents.Intent
    claims: tuple[Claim, ...] = ()
    resolved: Resolve | None = None

    def with_claims(self, held: tuple[Claim, ...]) -> IntentRecord:
        """Give the intent with these claims."""
        return replace(self, claims=held, facts=replace(self.facts, claims=tuple(each.state for each in held)))

    def claim_of(self, place: Place) -> Claim | None:
        """Find a step's claim that is not lost."""
        return next((each for each in self.claims if (each.step, each.epoch) == place and not each.is_lost), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An epoch that was opened: by a restart, or for one step by its replay."""

    number: int
    from_epoch: int
    asked: Event
    step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that a person must look at: a late divergence of a step, or a contradiction about an effect."""

    kind: str
    place: Place | None = None
    intent: str | None = None


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


Result: TypeAlias = Done | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event as it happened: when, what, and how it was answered."""

    at: datetime
    event: Event
    result: Result
