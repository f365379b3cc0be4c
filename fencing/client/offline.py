"""Checking a commit token without the service (K4): was it signed here, and is this the payload that it was given for?

A good token opens nothing: whether the commit still stands, only an admission says. `exp` is not judged for the same
reason (the database's clock decides, N3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencing.client.calls import refusal
from fencing.client.errors import FenceError
from fencing.client.polling import keys_by_id
from fencing.protocol.actions import read_action
from fencing.protocol.errors import Refusal
from fencing.protocol.tokens import Claims, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A member in which the token and what was given differ; `payload` stands for the whole action."""

    member: str
    token: object
    given: object


class BadToken(FenceError):
    """It is no token, its signature is not by one of these keys, or it was changed."""


class TokenDiffers(FenceError):
    """The token is genuine and was given for something else; `differences` tell what."""

    def __init__(self, claims: Claims, differences: tuple[Difference, ...]) -> None:
        told = "; ".join(
            f"{each.member}: the token has {each.token!r}, given is {each.given!r}" for each in differences
        )
        super().__init__(told)
        self.claims = claims
        self.differences = differences


def check_token(
    token: str,
    action: Mapping[str, Any],
    keys: Mapping[str, Any],
    *,
    run: str | None = None,
    step: str | None = None,
    epoch: int | None = None,
) -> Claims:
    """Check a token against the action that is about to be sent, and return its claims.

    `keys` is the JWK set of `/.well-known/jwks.json`, or the same by `kid` as `signing_keys()` returns it. `run`,
    `step` and `epoch` are compared where they are given.
    Raises `BadToken`, `TokenDiffers`, or `Malformed` for what is no action.
    """
    by_id = keys_by_id(keys) if isinstance(keys.get("keys"), list) else keys
    claims = verify(token, by_id)
    if isinstance(claims, Refusal):
        raise BadToken(claims.detail)
    given = read_action(dict(action))
    if isinstance(given, Refusal):
        raise refusal(422, {"code": given.code, "detail": given.detail, "pointer": given.pointer})
    pairs = {
        "tool": (claims.tool, given.tool),
        "payload": (claims.dig, given.payload_digest),
        "run": (claims.run, claims.run if run is None else run),
        "step": (claims.step, claims.step if step is None else step),
        "epoch": (claims.epoch, claims.epoch if epoch is None else epoch),
    }
    differences = tuple(
        Difference(member=name, token=one, given=two) for name, (one, two) in pairs.items() if one != two
    )
    if differences:
        raise TokenDiffers(claims, differences)
    return claims
