"""Small values of the core for tests: a step, votes, grants and intents, with what matters named and the rest calm."""

from datetime import UTC, datetime, timedelta
from typing import Any

from fencing.protocol.fence import Phase, Rules, Step, Vote
from fencing.protocol.grants import Grant
from fencing.protocol.intents import ClaimState, Delivery, Intent, Kind, Retries, State

NOW = datetime(2026, 1, 1, 2, 14, tzinfo=UTC)
RULES = Rules()
ONE, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def later(seconds: float) -> datetime:
    """A moment after NOW."""
    return NOW + timedelta(seconds=seconds)


def vote(path: str, digest: str | None = ONE, **more: Any) -> Vote:
    """A vote with its action, for `refund`; without a digest an abstention."""
    said: dict[str, Any] = {} if digest is None else {"payload": f"payload of {digest[7:9]}", "tool": "refund"}
    return Vote(path=path, digest=digest, **{**said, **more})


def step(*votes: Vote, phase: Phase = Phase.PROPOSED, **more: Any) -> Step:
    """A step of epoch 7 whose deadline is two minutes away."""
    facts = {"step": "pay", "epoch": 7, "deadline_at": later(120), **more}
    return Step(phase=phase, votes=votes, **facts)


def grant(**more: Any) -> Grant:
    """A live grant for production and `refund`, with a minute to go."""
    facts: dict[str, Any] = {
        "name": "night-shift-3",
        "epoch": 7,
        "step": None,
        "tool": "refund",
        "path": "production",
        "digest": None,
        "max_uses": 1,
        "uses": 0,
        "ttl_s": 60,
        "approvals": 0,
        "approvals_needed": 0,
        "pending_until": None,
        "expires_at": later(60),
    }
    return Grant(**{**facts, **more})


def delivery(number: int = 1, outcome: Kind | None = None, *, payload: str = "p", lease_s: float = 60) -> Delivery:
    """A delivery whose lease runs from NOW."""
    return Delivery(number=number, payload=payload, lease_until=later(lease_s), outcome=outcome)


def intent(
    *deliveries: Delivery, state: State = State.READY, claims: tuple[ClaimState, ...] = (ClaimState.WON,), **more: Any
) -> Intent:
    """An intent that one step has won."""
    facts = {"generation": 1, "fence_digest": ONE, **more}
    return Intent(state=state, claims=claims, deliveries=deliveries, **facts)


IDEMPOTENT = Retries(is_idempotent=True, max_deliveries=3, lease_s=60)
ONCE = Retries(is_idempotent=False, max_deliveries=3, lease_s=60)
