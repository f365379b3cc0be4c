"""An OpenID provider in a process of its own: authorization code with PKCE, and every way in which one can go wrong.

Started as `python tests/oidc_provider.py PORT`. `POST /control` with JSON says how its next answers are: `claims` that
replace those of the ID token (null leaves one out), `key` ("other": one that is not published), `alg` ("none",
"HS256"), `issuer` of the discovery, `status` and `body` of every answer, `as` (who signs in).
"""

import base64
import hashlib
import hmac
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

CLIENT, SECRET = "fence", "a secret between the two"
KEYS: dict[str, RSAPrivateKey] = {name: generate_private_key(65537, 2048) for name in ("published", "other")}


class Provider(ThreadingHTTPServer):
    """The provider's state: what it was told to do, and the codes that it gave."""

    issuer = ""
    control: dict[str, Any]
    codes: dict[str, dict[str, str]]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Provider

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if "status" in self.server.control:
            self._send(self.server.control["status"], self.server.control.get("body", "not today"), "text/html")
        elif url.path == "/.well-known/openid-configuration":
            self._json(self._discovery())
        elif url.path == "/jwks":
            self._json({"keys": [self._jwk("published")]})
        elif url.path == "/authorize":
            self._authorize(asked)
        else:
            self._send(404, "nothing", "text/plain")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        if self.path == "/control":
            self.server.control = json.loads(body)
            self._json({})
        elif "status" in self.server.control:
            self._send(self.server.control["status"], self.server.control.get("body", "not today"), "text/html")
        else:
            self._token({name: values[0] for name, values in parse_qs(body).items()})

    def _discovery(self) -> dict[str, Any]:
        here = self.server.issuer
        return {
            "issuer": self.server.control.get("issuer", here),
            "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token",
            "jwks_uri": f"{here}/jwks",
            "userinfo_endpoint": f"{here}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def _authorize(self, asked: dict[str, str]) -> None:
        is_good = (
            asked.get("client_id") == CLIENT
            and asked.get("response_type") == "code"
            and "openid" in asked.get("scope", "").split()
            and asked.get("code_challenge_method") == "S256"
            and all(asked.get(name) for name in ("state", "nonce", "code_challenge", "redirect_uri"))
        )
        if not is_good:
            self._send(400, f"not a request that this provider takes: {asked}", "text/plain")
            return
        code = secrets.token_urlsafe(16)
        self.server.codes[code] = asked
        yes = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
        no = f"{asked['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': asked['state']})}"
        page = f'<!doctype html><title>Provider</title><p><a href="{yes.replace("&", "&amp;")}">It is me</a></p>'
        self._send(200, f'{page}<p><a href="{no.replace("&", "&amp;")}">It is not</a></p>', "text/html")

    def _token(self, sent: dict[str, str]) -> None:
        begun = self.server.codes.pop(sent.get("code", ""), None)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        is_good = (
            begun is not None
            and sent.get("grant_type") == "authorization_code"
            and (sent.get("client_id"), sent.get("client_secret")) == (CLIENT, SECRET)
            and sent.get("redirect_uri") == begun["redirect_uri"]
            and base64.urlsafe_b64encode(digest).decode().rstrip("=") == begun["code_challenge"]
        )
        if not is_good or begun is None:
            self._send(400, '{"error": "invalid_grant"}', "application/json")
            return
        self._json(
            {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "id_token": self._id_token(begun)}
        )

    def _id_token(self, begun: dict[str, str]) -> str:
        told, now = self.server.control, int(time.time())
        claims: dict[str, Any] = {
            "iss": self.server.issuer,
            "sub": told.get("as", "sub-of-lena"),
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": begun["nonce"],
            "preferred_username": "lena",
            **told.get("claims", {}),
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        headers = {"kid": "published"}
        if told.get("alg") == "none":
            return jwt.encode(claims, "", algorithm="none", headers=headers)
        if told.get("alg") == "HS256":
            # The published key as if it were a shared secret: a careless client would take it.
            parts = [json.dumps(part).encode() for part in ({"alg": "HS256", **headers}, claims)]
            signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
            secret = json.dumps(self._jwk("published")).encode()
            mark = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=")
            return (signed + b"." + mark).decode()
        return jwt.encode(claims, KEYS[told.get("key", "published")], algorithm="RS256", headers=headers)

    def _jwk(self, name: str) -> dict[str, Any]:
        numbers = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEYS[name].public_key()))
        return {**numbers, "kid": name, "use": "sig", "alg": "RS256"}

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value), "application/json")

    def _send(self, status: int, body: str, kind: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until the process ends."""
    port = int(sys.argv[1])
    provider = Provider(("127.0.0.1", port), Handler)
    provider.issuer, provider.control, provider.codes = f"http://127.0.0.1:{port}", {}, {}
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    provider.serve_forever()


if __name__ == "__main__":
    main()
