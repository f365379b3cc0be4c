"""K2 to K4: what a token says, that it cannot be changed, and that only our keys make one."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fencing.protocol import tokens
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tokens import Claims, SigningKey

KEY = SigningKey(kid="k1", private=Ed25519PrivateKey.from_private_bytes(bytes(32)))
STRANGER = SigningKey(kid="k1", private=Ed25519PrivateKey.from_private_bytes(bytes([1] * 32)))
KEYS = {"k1": tokens.public_jwk(KEY)}
CLAIMS = Claims(
    jti="c-1",
    iat=1_767_233_640,
    run="run-88",
    step="pay",
    epoch=7,
    tool="refund",
    dig="sha256:" + "1" * 64,
    key="sha256:" + "1" * 64 + ":0",
    auth="agreement",
)


def bad(token: str) -> bool:
    verified = tokens.verify(token, KEYS)
    return isinstance(verified, Refusal) and verified.code is Code.BAD_TOKEN


def signed(*, typ: str = "commit+jwt", **more: object) -> str:
    """A token signed with our key, of another type or with other claims."""
    payload = {**CLAIMS.as_payload(), **more}
    return jwt.encode(payload, KEY.private, algorithm="EdDSA", headers={"kid": "k1", "typ": typ})


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_the_same_claims_give_the_same_token_byte_for_byte() -> None:
    assert tokens.mint(CLAIMS, KEY) == tokens.mint(CLAIMS, KEY)


@pytest.mark.parametrize("run", ["run-88", 'a "run"', "Läufe/\u2028", None])
def test_a_token_is_the_one_that_the_library_makes(run: str | None) -> None:
    place = {"run": run, "compensation": "c-2", "step": None, "epoch": None} if run is None else {"run": run}
    claims = Claims(**{**{name: getattr(CLAIMS, name) for name in CLAIMS.__slots__}, **place, "exp": 1_767_233_700})
    headers = {"kid": KEY.kid, "typ": "commit+jwt"}
    assert tokens.mint(claims, KEY) == jwt.encode(claims.as_payload(), KEY.private, algorithm="EdDSA", headers=headers)


def test_a_token_says_what_was_signed() -> None:
    token = tokens.mint(CLAIMS, KEY)
    assert tokens.verify(token, KEYS) == CLAIMS
    assert tokens.peek_jti(token) == "c-1"
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "kid": "k1", "typ": "commit+jwt"}
    assert "exp" not in jwt.decode(token, options={"verify_signature": False})


def test_an_end_that_has_passed_is_the_databases_to_judge() -> None:
    ended = Claims(**{**{name: getattr(CLAIMS, name) for name in CLAIMS.__slots__}, "exp": 1, "auth": "grant"})
    assert tokens.verify(tokens.mint(ended, KEY), KEYS) == ended


@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_part_of_it_can_be_changed(place: int) -> None:
    parts = tokens.mint(CLAIMS, KEY).split(".")
    payload = {**CLAIMS.as_payload(), "dig": "sha256:" + "2" * 64}
    header = {"alg": "EdDSA", "kid": "k1", "typ": "commit+jwt", "crit": []}
    parts[place] = [segment(header), segment(payload), segment("nothing")][place]
    assert bad(".".join(parts))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "....",
        tokens.mint(CLAIMS, STRANGER),
        tokens.mint(CLAIMS, SigningKey(kid="k2", private=KEY.private)),
        jwt.encode(CLAIMS.as_payload(), "", algorithm="none", headers={"kid": "k1", "typ": "commit+jwt"}),
        signed(typ="permit+jwt"),
        signed(typ="JWT"),
        signed(iss="else"),
        signed(more=1),
        jwt.encode({"iss": "commit-fence"}, KEY.private, algorithm="EdDSA", headers={"kid": "k1", "typ": "commit+jwt"}),
        tokens.mint(CLAIMS, KEY) + "x" * 9000,
    ],
)
def test_what_is_no_token_of_ours_is_refused_and_never_raises(token: str) -> None:
    assert bad(token)


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused() -> None:
    header, payload = segment({"alg": "HS256", "kid": "k1", "typ": "commit+jwt"}), segment(CLAIMS.as_payload())
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{header}.{payload}".encode(), KEYS["k1"]["x"].encode()
    )
    assert bad(f"{header}.{payload}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}")


@pytest.mark.parametrize("token", ["", "x", "a.b.c", f"{segment({'alg': 'none'})}.{segment([])}.", "\u202e"])
def test_peeking_believes_nothing_and_never_raises(token: str) -> None:
    assert tokens.peek_jti(token) is None


def test_the_public_half_is_all_that_is_published() -> None:
    assert set(KEYS["k1"]) == {"kty", "crv", "kid", "use", "alg", "x"}
    assert len(base64.urlsafe_b64decode(KEYS["k1"]["x"] + "=")) == 32
