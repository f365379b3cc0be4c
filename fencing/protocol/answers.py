"""What a write service gives back for each request: an answer, or a refusal that is already on record (N7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencing.protocol.errors import Refusal

OK = 200
CREATED = 201


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A success: its HTTP status (201 for what is new, H4), and the members of the object as the protocol names them.

    `pending` names topics (`step:<run>/<step>/<epoch>`, …) on which a waiting read must wait, when what it waits for
    has not come yet (H5); `wait_s` is for how long, where the address does not say it.
    """

    status: int
    body: Mapping[str, object]
    pending: tuple[str, ...] = field(default=())
    wait_s: float | None = None


Result = Answer | Refusal
