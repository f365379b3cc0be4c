"""What a courier calls: deliveries that were admitted, of effects and of what undoes them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from fencing.protocol.callers import Caller, Role
from fencing.protocol.policies import Policy
from fencing.protocol.tools import ToolDefinition

COURIER: Final = Caller(credential_id=None, name="deliverer", role=Role.SYSTEM)
AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """What is called, and how: a push tool by the version of it under which the effect or its undoing was wanted."""

    tool: str
    endpoint: str
    credential: str | None
    policy: Policy

    @classmethod
    def of(cls, definition: ToolDefinition | None) -> Callee | None:
        """Read it from a definition; None where this system calls nobody."""
        if definition is None or definition.endpoint is None:
            return None
        return cls(
            tool=definition.tool,
            endpoint=definition.endpoint,
            credential=definition.credential,
            policy=definition.policy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A delivery that was admitted and is to be called now.

    `body` are the canonical bytes that were committed or approved, never another spelling.
    """

    delivery: str
    number: int
    callee: Callee
    body: bytes
    idempotency_key: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingEffect(Outgoing):
    """A delivery of an intent."""

    intent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingUndoing(Outgoing):
    """A delivery of a compensation (P5)."""

    compensation: str


class Refused:
    """What admission refused a moment ago, in this process, and is passed over for `AGAIN_S`.

    A few that are refused again and again, at the front of what is due, would else keep all others waiting.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, refused: str) -> None:
        """Pass over it for a while."""
        self._until[refused] = time.monotonic() + AGAIN_S

    def ids(self) -> list[str]:
        """Everything that is passed over now."""
        now = time.monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        return list(self._until)
