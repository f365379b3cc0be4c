"""Commit tokens (protocol K2 to K4): compact JWS, Ed25519, bound to one payload.

A token is a statement by the fencer, good for checking offline that a payload was not changed. It opens nothing by
itself: admission is online and alone decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jwt.utils import base64url_decode, base64url_encode

from fencing.protocol.errors import Code, Refusal

ALGORITHM = "EdDSA"
ISSUER = "commit-fence"
COMMIT = "commit+jwt"
PERMIT = "permit+jwt"
MAX_LENGTH = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A private Ed25519 key and its name."""

    kid: str
    private: Ed25519PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a commit token says. `dig` is the payload digest, `exp` (seconds) is there where a grant alone gave it.

    An approved compensation's token has `compensation` in place of `step` and `epoch`, and no run where its effect has
    none (K2).
    """

    jti: str
    iat: int
    run: str | None = None
    step: str | None = None
    epoch: int | None = None
    compensation: str | None = None
    tool: str
    dig: str
    key: str
    auth: str
    exp: int | None = None
    iss: str = ISSUER

    def __post_init__(self) -> None:
        """Refuse what is neither a step's nor a compensation's."""
        if (self.compensation is None) == (self.step is None) or (self.step is None) != (self.epoch is None):
            raise ValueError("it names neither a step nor a compensation")

    def as_payload(self) -> dict[str, Any]:
        """The claims as they are signed."""
        told = {
            "iss": self.iss,
            "jti": self.jti,
            "iat": self.iat,
            "run": self.run,
            "step": self.step,
            "epoch": self.epoch,
            "compensation": self.compensation,
            "tool": self.tool,
            "dig": self.dig,
            "key": self.key,
            "auth": self.auth,
            "exp": self.exp,
        }
        return {name: value for name, value in told.items() if value is not None}


def mint(claims: Claims, key: SigningKey) -> str:
    """Sign the claims. The same claims and key give the same token, byte for byte (Ed25519 is deterministic; K3)."""
    # What `jwt.encode` gives: of its work, all but the signature is the same for every token.
    said = _head_of(key.kid) + b"." + base64url_encode(_encode(claims.as_payload()).encode())
    return (said + b"." + base64url_encode(key.private.sign(said))).decode()


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


@lru_cache(maxsize=64)
def _head_of(kid: str) -> bytes:
    return base64url_encode(_encode({"alg": ALGORITHM, "kid": kid, "typ": COMMIT}).encode())


def public_jwk(key: SigningKey, use: str = "sig") -> dict[str, str]:
    """The public half, as it stands at `/.well-known/jwks.json`."""
    raw = key.private.public_key().public_bytes_raw()
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": key.kid,
        "use": use,
        "alg": ALGORITHM,
        "x": base64url_encode(raw).decode(),
    }


def verify(token: str, keys: Mapping[str, Mapping[str, Any]]) -> Claims | Refusal:
    """Check a token's signature with public keys (JWKs by `kid`) and read its claims; `bad_token` otherwise.

    `exp` is not judged here: whether an authority has ended is the database's clock to say (N3), and agreement outlives
    the grant that came first (F7).
    """
    if len(token) > MAX_LENGTH:
        return _bad("it is too long")
    try:
        header = jwt.get_unverified_header(token)
        jwk = keys.get(str(header.get("kid")))
        if header.get("alg") != ALGORITHM or header.get("typ") != COMMIT or jwk is None:
            return _bad("it names no key of this system")
        public = Ed25519PublicKey.from_public_bytes(base64url_decode(str(jwk["x"])))
        payload = jwt.decode(
            token, public, algorithms=[ALGORITHM], issuer=ISSUER, options={"verify_exp": False, "verify_iat": False}
        )
        return Claims(**payload)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as fault:
        return _bad(str(fault) or type(fault).__name__)


def peek_jti(token: str) -> str | None:
    """Read the `jti` of a token without believing it: where to look for the stored bytes to compare with (L3)."""
    if len(token) > MAX_LENGTH:
        return None
    try:
        payload = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return None
    jti = payload.get("jti")
    return jti if isinstance(jti, str) else None


def _bad(why: str) -> Refusal:
    return Refusal(code=Code.BAD_TOKEN, detail=f"This is no token of this system: {why}.", pointer="/token")
