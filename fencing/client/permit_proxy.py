"""A small proxy before a model's server: what carries no permit of an open epoch is refused before it costs anything.

It checks the permit's signature by the fence's public keys, and asks the fence whether the epoch is still the open one
(A6). Whatever cannot be checked is refused. Between the question and the model's first token an attempt may be
restarted: what that call costs is zombie spend, and its fragment is refused.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from fencing.client.errors import FenceError, NotFound
from fencing.client.marker import Scorer
from fencing.client.objects import AttemptSeen
from fencing.client.shells import LOOPBACK
from fencing.protocol.errors import Refusal
from fencing.protocol.permits import HEADER, PermitClaims, verify_permit

MAX_BODY: Final = 16 * 1024 * 1024
KEYS_LIVE_S: Final = 60.0
# What belongs to one connection, and what would let a caller choose the server.
NOT_PASSED_ON: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "keep-alive", "upgrade", "te", HEADER.lower()}
)


class PermitCheck:
    """Tells whether a permit is good now."""

    def __init__(self, fence: Scorer) -> None:
        self._fence = fence
        self._keys: Mapping[str, Mapping[str, Any]] = {}
        self._read_at = 0.0
        self._lock = threading.Lock()

    def why_not(self, token: str | None) -> tuple[str, str] | None:
        """Give the code and the sentence of a refusal; None for a permit whose epoch is open."""
        if not token:
            return "bad_permit", f"A model call needs a permit in the header {HEADER} (POST /permits)."
        try:
            claims = verify_permit(token, self._public_keys())
            if isinstance(claims, Refusal):
                return claims.code.value, claims.detail
            seen = self._fence.get_attempt(claims.attempt)
        except NotFound:
            return "unknown_attempt", "There is no such attempt."
        except FenceError as trouble:
            return "unavailable", f"The permit cannot be checked now: {trouble}"
        return _why_not_open(claims, seen)

    def _public_keys(self) -> Mapping[str, Mapping[str, Any]]:
        with self._lock:
            if time.monotonic() - self._read_at > KEYS_LIVE_S or not self._keys:
                self._keys = self._fence.signing_keys()
                self._read_at = time.monotonic()
            return self._keys


def _why_not_open(claims: PermitClaims, seen: AttemptSeen) -> tuple[str, str] | None:
    if seen.epoch != claims.epoch:
        return "stale_epoch", f"Epoch {claims.epoch} of {claims.attempt} is closed: it is in {seen.epoch}."
    return ("already_published", f"{claims.attempt} is published.") if seen.state == "published" else None


def make_proxy(
    address: tuple[str, int], *, fence: Scorer, endpoint: str, timeout_s: float = 120.0
) -> ThreadingHTTPServer:
    """Make the proxy, listening at `address`; `serve_forever` runs it."""
    check = PermitCheck(fence)
    parts = urlsplit(endpoint)
    http = httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=parts.hostname not in LOOPBACK)
    base = endpoint.rstrip("/")

    class Handler(BaseHTTPRequestHandler):
        """Passes one call on, or refuses it."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Check the permit, then pass the call on."""
            body = self._body()
            if body is None:
                return
            refused = check.why_not(self.headers.get(HEADER))
            if refused is not None:
                status = 503 if refused[0] == "unavailable" else 403
                self._answer(status, "application/problem+json", _problem(status, *refused))
                return
            given = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON}
            try:
                answer = http.post(f"{base}{self.path}", content=body, headers=given)
            except httpx.HTTPError as fault:
                self._answer(502, "application/problem+json", _problem(502, "bad_gateway", type(fault).__name__))
                return
            self._answer(answer.status_code, answer.headers.get("content-type", "application/json"), answer.content)

        def log_message(self, *_: Any) -> None:
            """Say nothing for each request."""

        def _body(self) -> bytes | None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MAX_BODY:
                self.close_connection = True
                self._answer(413, "application/problem+json", _problem(413, "too_large", "The body is not read."))
                return None
            return self.rfile.read(int(length))

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    class Server(ThreadingHTTPServer):
        """A thread for each call; closed, it lets go of the model's server as well."""

        daemon_threads = True

        def server_close(self) -> None:
            """Close what listens, and what calls."""
            super().server_close()
            http.close()

    return Server(address, Handler)


def _problem(status: int, code: str, detail: str) -> bytes:
    return json.dumps({"type": f"urn:fence:{code}", "status": status, "code": code, "detail": detail}).encode()
