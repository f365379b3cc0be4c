"""Permits (A6): leave for one model call, for one fragment of the open epoch. A token like a commit's, and never one.

Its type and its key are others, so that admission refuses it whatever it says. A proxy can check it offline for being
genuine; whether its epoch is still open only the store tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jwt.utils import base64url_decode

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tokens import ALGORITHM, ISSUER, MAX_LENGTH, PERMIT, SigningKey

HEADER: Final = "Fence-Permit"
"""The header by which a permit goes with the model call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitClaims:
    """What a permit says: for which fragment of which epoch, in which lane."""

    jti: str
    iat: int
    attempt: str
    epoch: int
    seq: int
    lane: str
    iss: str = ISSUER

    def as_payload(self) -> dict[str, Any]:
        """The claims as they are signed."""
        return {name: getattr(self, name) for name in ("iss", "jti", "iat", "attempt", "epoch", "seq", "lane")}


def mint_permit(claims: PermitClaims, key: SigningKey) -> str:
    """Sign the claims with the web's own key."""
    return jwt.encode(claims.as_payload(), key.private, algorithm=ALGORITHM, headers={"kid": key.kid, "typ": PERMIT})


def verify_permit(token: str, keys: Mapping[str, Mapping[str, Any]]) -> PermitClaims | Refusal:
    """Check a permit's signature with public keys (JWKs by `kid`) and read its claims; `bad_permit` otherwise."""
    if len(token) > MAX_LENGTH:
        return _bad("it is too long")
    try:
        header = jwt.get_unverified_header(token)
        jwk = keys.get(str(header.get("kid")))
        if header.get("alg") != ALGORITHM or header.get("typ") != PERMIT or jwk is None:
            return _bad("it names no key of this system")
        public = Ed25519PublicKey.from_public_bytes(base64url_decode(str(jwk["x"])))
        payload = jwt.decode(token, public, algorithms=[ALGORITHM], issuer=ISSUER, options={"verify_iat": False})
        return PermitClaims(**payload)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as fault:
        return _bad(str(fault) or type(fault).__name__)


def _bad(why: str) -> Refusal:
    return Refusal(code=Code.BAD_PERMIT, detail=f"This is no permit of this system: {why}.", pointer="/permit")
