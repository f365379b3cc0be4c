from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fencing.client import BadToken, Malformed, TokenDiffers, check_token
from fencing.protocol.actions import Action, read_action
from fencing.protocol.tokens import Claims, SigningKey, mint, public_jwk

REFUND: dict[str, Any] = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
KEY = SigningKey(kid="k1", private=Ed25519PrivateKey.from_private_bytes(b"1" * 32))
OTHER = SigningKey(kid="k1", private=Ed25519PrivateKey.from_private_bytes(b"2" * 32))
JWKS = {"keys": [public_jwk(KEY)]}


def token(key: SigningKey = KEY, **change: Any) -> str:
    action = read_action(REFUND)
    assert isinstance(action, Action)
    claims: dict[str, Any] = {
        "jti": "c-1",
        "iat": 1_700_000_000,
        "run": "r",
        "step": "s",
        "epoch": 7,
        "tool": "refund",
        "dig": action.payload_digest,
        "key": "k",
        "auth": "agreement",
    }
    return mint(Claims(**claims | change), key)


@pytest.mark.parametrize("keys", [JWKS, {"k1": public_jwk(KEY)}])
def test_a_genuine_token_of_this_very_action_gives_its_claims(keys: dict[str, Any]) -> None:
    claims = check_token(token(), {"args": {"cents": 4200.0, "invoice": 9}, "tool": "refund"}, keys, run="r", epoch=7)
    assert (claims.run, claims.step, claims.auth) == ("r", "s", "agreement")


def test_a_changed_payload_is_found_without_the_service() -> None:
    with pytest.raises(TokenDiffers, match="payload: the token has 'sha256:") as caught:
        check_token(token(), {"tool": "refund", "args": {"invoice": 9, "cents": 420_000}}, JWKS)
    assert [each.member for each in caught.value.differences] == ["payload"]
    assert caught.value.claims.dig == caught.value.differences[0].token


def test_everything_that_differs_is_told() -> None:
    with pytest.raises(TokenDiffers) as caught:
        check_token(token(), {"tool": "hold", "args": {}}, JWKS, run="other", step="other", epoch=8)
    assert {each.member for each in caught.value.differences} == {"tool", "payload", "run", "step", "epoch"}


@pytest.mark.parametrize(
    "bad",
    [token(OTHER), token() + "x", token()[:-4], "", "no token", "eyJhbGciOiJub25lIn0.e30.", token(iss="elsewhere")],
)
def test_a_token_that_was_not_signed_here_is_none(bad: str) -> None:
    with pytest.raises(BadToken):
        check_token(bad, REFUND, JWKS)


def test_the_end_of_a_grant_is_not_for_a_clients_clock_to_say() -> None:
    assert check_token(token(exp=1_700_000_001, auth="grant"), REFUND, JWKS).exp == 1_700_000_001


def test_what_is_no_action_cannot_be_compared() -> None:
    with pytest.raises(Malformed):
        check_token(token(), {"tool": "refund"}, JWKS)
