"""What can happen to a world, as values: the calls of planners, paths, people and gateways, and the work of the fencer.

Actions stand here as they were read (`actions.read_action`): what has no canonical form never becomes an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fencing.protocol.actions import Action
from fencing.protocol.intents import Kind

WHY = "the replica's host is down since 02:10"


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """A planner registers a step (F1)."""

    step: str
    epoch: int
    action: Action | None = None
    digest: str | None = None
    tool: str | None = None
    key: str | None = None
    occurrence: int = 0
    deadline_s: float | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """A path votes: an action, a digest alone, or neither, which is an abstention (F2)."""

    path: str
    step: str
    epoch: int
    action: Action | None = None
    digest: str | None = None
    model: str | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A planner opens a fresh epoch of the run (R2)."""

    expected: int
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A planner or a reviewer gives one step the next number (R4)."""

    step: str
    from_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFork:
    """A planner opens speculative siblings, on the trunk or in a branch of another fork (B1)."""

    fork: str
    branches: tuple[str, ...]
    parent: str | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile:
    """A planner ends a fork with one winner, or with none (B2)."""

    fork: str
    winner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A person issues a grant (G1). `by` is who."""

    name: str
    epoch: int
    by: str
    step: str | None = None
    tool: str | None = None
    path: str = "production"
    digest: str | None = None
    max_uses: int = 1
    ttl_s: int = 60
    reason: str = WHY


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """A person approves a grant (G6)."""

    name: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """A person revokes a grant (G5)."""

    name: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A person reviews what a grant let through (G6)."""

    name: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFreeze:
    """A person freezes a tool, or without one the whole run (L10)."""

    by: str
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftFreeze:
    """A person lifts a freeze (L10)."""

    freeze: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The fencer looks at every step that is due, and mints the tokens of approvals (F9).

    A wake-up that is lost is this event left out.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Grants and forks whose time has come, and leases that ran out, are written down (G2, B2, L5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """A gateway asks whether a call may go to its tool, for a commit or for an approval (L3, P5)."""

    action: Action
    token: str | None = None
    step: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A gateway tells what became of a delivery (L5)."""

    intent: str
    number: int
    outcome: Kind
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolve:
    """A person says whether an effect in doubt happened (L6)."""

    intent: str
    happened: bool
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUndoing:
    """A gateway tells what became of the delivery of an approval (P5). Each approval is a `round` of its own."""

    undoing: str
    round: int
    number: int
    outcome: Kind
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """A tool's own ledger tells of an effect (L8).

    `of` is the intent, or the approval (by its token), whose idempotency key the row tells; any other text is a key
    that nobody gave.
    """

    tool: str
    external_id: str
    action: Action | None = None
    of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """A person says that an escape is the very effect that an intent wants (L8). `effect` is the ledger row's id."""

    intent: str
    effect: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A person asks that an effect be undone: that of an intent, or a ledger row that should not be there (P1)."""

    by: str
    intent: str | None = None
    effect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveUndoing:
    """A person approves what would be sent to undo an effect, by the digest that they saw (P2, P3)."""

    undoing: str
    by: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waive:
    """A person lets an effect stand (P6)."""

    undoing: str
    by: str
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A person records what they undid by hand (P6)."""

    undoing: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveUndoing:
    """A person says whether an undoing in doubt happened (P5)."""

    undoing: str
    happened: bool
    by: str


Event: TypeAlias = (
    Propose
    | Cast
    | Restart
    | Replay
    | OpenFork
    | Reconcile
    | Issue
    | Approve
    | Revoke
    | Review
    | SetFreeze
    | LiftFreeze
    | Work
    | Sweep
    | Admit
    | Report
    | Resolve
    | ReportUndoing
    | Observe
    | Adopt
    | Ask
    | ApproveUndoing
    | Waive
    | Record
    | ResolveUndoing
)
