"""Long polls: one waiting read after the other, never in a hurry, and what every client may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fencing.client.calls import Call, Clock, Json, Pause, Talk
from fencing.client.errors import BadAnswer
from fencing.client.shells import Shell, asks

T = TypeVar("T")
MAX_WAIT_S = 30.0
"""The longest wait that the service grants (H5)."""

LEAST_WAIT_S = 0.001
# A service that cannot wait (its Redis is away, say) answers at once: then the client is the one to slow down.
LEAST_TURN_S = 0.25


class KeyTalks(Shell):
    """What every key may read."""

    @asks
    def signing_keys(self) -> Talk[Mapping[str, Mapping[str, Json]]]:
        """Read the public keys by `kid`, for `check_token` (K2). They may be kept: old ones stay, new ones come."""
        answer = yield from self.asked(Call(method="GET", path="/.well-known/jwks.json", is_rooted=True))
        return keys_by_id(answer)


def keys_by_id(jwks: Json) -> Mapping[str, Mapping[str, Json]]:
    """Index a JWK set by `kid`. Raises `BadAnswer` for anything else."""
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(keys, list) or not all(isinstance(key, Mapping) and "kid" in key for key in keys):
        raise BadAnswer("This is no set of public keys.")
    return {key["kid"]: key for key in keys}


def patient(
    shell: Shell, look: Callable[[float], Call], found: Callable[[Json], T | None], *, patience_s: float | None
) -> Talk[tuple[T | None, Json]]:
    """Look (with a wait in seconds) until something is found or `patience_s` is over; return it and the last answer."""
    begun_at = now = yield Clock()
    while True:
        wait_s = MAX_WAIT_S if patience_s is None else min(MAX_WAIT_S, max(0.0, begun_at + patience_s - now))
        looked_at = now
        answer = yield from shell.asked(look(wait_s))
        hit = found(answer)
        now = yield Clock()
        if hit is not None or (patience_s is not None and now >= begun_at + patience_s):
            return hit, answer
        if now < looked_at + LEAST_TURN_S:
            yield Pause(least_s=looked_at + LEAST_TURN_S - now)
            now = yield Clock()


def wait_of(wait_s: float) -> str | None:
    """The `wait` of a query, or None where nothing is waited for."""
    return f"{wait_s:.3f}" if wait_s >= LEAST_WAIT_S else None
