"""Claims: which step wants an effect, and which generation of its key serves it (L1, L2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fencing.protocol.fence import Gate, Reason
from fencing.protocol.intents import Claiming, ClaimState, Intent, Retries, State, claim, may_repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One step's wish for an effect. Lost claims are kept, with why. `is_committed`: the step's commit stands."""

    step: str
    epoch: int
    state: ClaimState
    at: datetime
    is_committed: bool = False
    lost_for: Reason | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nobody speaks for it any more."""
        return self.state is ClaimState.LOST


def is_key_taken(newest: Intent | None, fence_digest: str, *, has_own_claim: bool) -> bool:
    """Tell whether an invocation key serves another action (L1). A step never stands in its own way."""
    return not has_own_claim and claim(newest, fence_digest) is Claiming.CONFLICT


def generation_for(newest: Intent | None, fence_digest: str) -> int:
    """Give the generation that serves a step that wants this action: the newest one, or the next (L1, L7, B6)."""
    if newest is None:
        return 1
    shares = claim(newest, fence_digest) in (Claiming.SHARE, Claiming.REUSE)
    return newest.generation if shares else newest.generation + 1


def state_of(gate: Gate, *, is_committed: bool) -> ClaimState:
    """Give the state of a step's claim while its commit stands or is still to come, by what its branch may (L2, B3)."""
    if gate.is_lost:
        return ClaimState.LOST
    return ClaimState.WON if is_committed and gate.may_act else ClaimState.OPEN


def is_stuck(intent: Intent, retries: Retries, *, has_authority: bool) -> bool:
    """Tell whether something unknown waits that no machine may repeat: it goes to a person (L5)."""
    return intent.state is State.READY and not may_repeat(intent, retries, has_authority=has_authority)
