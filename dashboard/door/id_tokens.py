"""The check of an OpenID provider's ID token: signature, issuer, audience, times, nonce. Nothing is fetched here."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final

import jwt

# A key that verifies is public: a shared secret, or no signature at all, is none.
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
NEEDED: Final = ("iss", "sub", "aud", "exp", "iat", "nonce")
# How far the provider's clock may be from ours.
LEEWAY_S: Final = 60


class BadIdToken(Exception):
    """The token is not one that this provider made for this sign-in; the message says in what."""


def read_id_token(token: str, *, keys: Mapping[str, Any], issuer: str, client_id: str, nonce: str) -> Mapping[str, Any]:
    """Give the claims of a token that is good.

    Raises:
        BadIdToken: it is not.
    """
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg", "")
        if algorithm not in ALGORITHMS:
            raise BadIdToken(f"signed with {algorithm or 'nothing'}")
        claims: dict[str, Any] = jwt.decode(
            token,
            key=_key(keys, header.get("kid"), algorithm),
            algorithms=[algorithm],
            audience=client_id,
            issuer=issuer,
            leeway=LEEWAY_S,
            options={"require": list(NEEDED)},
        )
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadIdToken(str(error) or type(error).__name__) from error
    _check_binding(claims, client_id, nonce)
    return claims


def _check_binding(claims: Mapping[str, Any], client_id: str, nonce: str) -> None:
    if not hmac.compare_digest(str(claims["nonce"]), nonce):
        raise BadIdToken("another sign-in's nonce")
    is_for_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if is_for_several else client_id) != client_id:
        raise BadIdToken("made for another client")
    if not isinstance(claims["sub"], str) or not claims["sub"]:
        raise BadIdToken("it names nobody")


def _key(keys: Mapping[str, Any], kid: str | None, algorithm: str) -> Any:
    signing = [key for key in keys["keys"] if key.get("use", "sig") == "sig"]
    found = [key for key in signing if kid is None or key.get("kid") == kid]
    if len(found) != 1:
        raise BadIdToken("signed with a key that the provider does not publish")
    return jwt.PyJWK(found[0], algorithm=algorithm).key
