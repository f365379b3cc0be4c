"""What a courier calls: deliveries that were admitted, of effects and of what undoes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fencing.protocol.callers import Caller, Role
from fencing.protocol.policies import Policy

COURIER: Final = Caller(credential_id=None, name="deliverer", role=Role.SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A delivery that was admitted and is to be called now.

    `body` are the canonical bytes that were committed or approved, never another spelling.
    """

    delivery: str
    number: int
    tool: str
    endpoint: str
    credential: str | None
    body: bytes
    idempotency_key: str
    token: str
    timeout_s: float
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingEffect(Outgoing):
    """A delivery of an intent."""

    intent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingUndoing(Outgoing):
    """A delivery of a compensation (P5)."""

    compensation: str
