"""Changes of tools as rules (T1): which waits, for whom, until when, and who ends the waiting.

A change that weakens the fence waits for a second administrator. It is compared with one version, its base, and says
what it says of that one alone: when another version became current meanwhile, people would approve what they never saw,
so it can only be proposed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fencing.protocol.errors import Code, Refusal

LIFE_S: Final = 7 * 86_400  # a change that nobody looked at for a week is not approved by whoever finds it later


class State(StrEnum):
    """Where a change is. `pending` and `expired` follow from the clock, the others were written."""

    PENDING = "pending"
    APPROVED = "approved"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


# From → to, and what moves it.
TRANSITIONS: Final = MappingProxyType(
    {
        State.PENDING: MappingProxyType(
            {
                State.APPROVED: "the last approval that was needed",
                State.REFUSED: "another administrator",
                State.WITHDRAWN: "who proposed it",
                State.EXPIRED: "the clock",
            }
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A change as facts. People are ids; `proposer` is None where the command line asked, which names nobody.

    `base` and `current` are the versions that it was compared with and that is current now.
    """

    tool: str
    base: int
    current: int
    digest: str
    proposer: int | None
    approvers: frozenset[int]
    approvals_needed: int
    expires_at: datetime
    closed_as: str | None = None

    @property
    def is_stale(self) -> bool:
        """Whether another version became current since it was proposed."""
        return self.base != self.current

    @property
    def missing(self) -> int:
        """How many approvals it still waits for."""
        return max(0, self.approvals_needed - len(self.approvers - {self.proposer}))


def approvals_needed(proposer: int | None) -> int:
    """Tell how many administrators approve: one beside the named one, or two where nobody is named."""
    return 2 if proposer is None else 1


def expires_at(proposed_at: datetime) -> datetime:
    """Tell when a change stops waiting."""
    return proposed_at + timedelta(seconds=LIFE_S)


def state_of(change: Pending, now: datetime) -> State:
    """Tell the state of a change at a moment of the database's clock. At the very instant `expires_at` it is over."""
    if change.closed_as is not None:
        return State(change.closed_as)
    return State.EXPIRED if now >= change.expires_at else State.PENDING


def check_approval(change: Pending, *, person: int, digest: str, now: datetime) -> Refusal | None:
    """Refuse an approval by who proposed it, of what no longer waits, of something else than what was shown."""
    if person == change.proposer:
        detail = "You proposed this change: another administrator approves it, or refuses it."
        return Refusal(code=Code.OWN_CHANGE, detail=detail)
    refusal = check_waiting(change, now)
    if refusal is not None:
        return refusal
    if digest != change.digest:
        detail = "The definition that you were shown is not the one that waits: read it again."
        return Refusal(code=Code.CHANGED, detail=detail, pointer="/digest", extras={"digest": change.digest})
    if change.is_stale:
        detail = (
            f"{change.tool} has version {change.current} now, and this change was compared with version {change.base}: "
            "what it would do is something else than what was shown. Propose it again."
        )
        extras = {"base": change.base, "current": change.current}
        return Refusal(code=Code.CHANGED, detail=detail, extras=extras)
    return None


def check_refusal(change: Pending, *, person: int, now: datetime) -> Refusal | None:
    """Refuse that somebody refuses their own change (they withdraw it), or one that no longer waits."""
    if person == change.proposer:
        detail = "You proposed this change: withdraw it."
        return Refusal(code=Code.OWN_CHANGE, detail=detail)
    return check_waiting(change, now)


def check_withdrawal(change: Pending, *, person: int, now: datetime) -> Refusal | None:
    """Refuse that somebody withdraws another's change (they refuse it), or one that no longer waits."""
    if person != change.proposer:
        detail = "Somebody else proposed this change: you can refuse it."
        return Refusal(code=Code.NOT_YOUR_CHANGE, detail=detail)
    return check_waiting(change, now)


def check_waiting(change: Pending, now: datetime) -> Refusal | None:
    """Refuse to decide on a change that no longer waits."""
    state = state_of(change, now)
    if state is State.PENDING:
        return None
    return Refusal(code=Code.ALREADY_DECIDED, detail=f"The change no longer waits: it is {state.value}.")
