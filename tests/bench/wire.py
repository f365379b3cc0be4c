"""Kept-open connections of the load: `http.client`, and little beside it that takes the processor from the system.

Requests are bytes that were made beforehand; what an answer says is found in its bytes, without reading all of it.
"""

from __future__ import annotations

import socket
from http.client import HTTPResponse
from typing import Final
from urllib.parse import urlsplit

WAIT_S: Final = 30
TIMEOUT_S: Final = WAIT_S + 30.0


class Unexpected(Exception):
    """The system answered what the load did not ask for: a figure over such answers would mean nothing."""


class Line:
    """One connection of one key to the system."""

    def __init__(self, base_url: str, key: str) -> None:
        place = urlsplit(base_url)
        self._socket = socket.create_connection((place.hostname or "", place.port or 80), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        common = f"Host: {place.netloc}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        self._common = common.encode("ascii")

    def post(self, path: bytes, body: bytes, status: int) -> bytes:
        """Send a body to a path below `/api/v1` and return the answer's."""
        head = b"POST /api/v1%s HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (path, self._common, len(body))
        return self._exchange(head + body, status, "POST")

    def get(self, path: bytes, status: int = 200) -> bytes:
        """Ask for a path below `/api/v1` and return the answer's body."""
        return self._exchange(b"GET /api/v1%s HTTP/1.1\r\n%b\r\n" % (path, self._common), status, "GET")

    def ask(self, path: bytes) -> None:
        """Send what `get` sends, and do not wait for the answer."""
        self._socket.sendall(b"GET /api/v1%s HTTP/1.1\r\n%b\r\n" % (path, self._common))

    def answer(self, path: bytes, status: int = 200) -> bytes:
        """Take the answer to `ask`."""
        return self._take(path, status, "GET")

    def fileno(self) -> int:
        """The socket, for a selector."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _exchange(self, request: bytes, status: int, method: str) -> bytes:
        self._socket.sendall(request)
        return self._take(request.split(b" HTTP", 1)[0], status, method)

    def _take(self, asked: bytes, status: int, method: str) -> bytes:
        response = HTTPResponse(self._socket, method=method)
        response.begin()
        body = response.read()
        if response.status != status:
            words = body[:300].decode(errors="replace")
            raise Unexpected(f"{asked.decode()}: {response.status} instead of {status}: {words}")
        return body


def text_of(answer: bytes, name: bytes) -> bytes:
    """Find a text member by its name, wherever in the answer it stands first."""
    _, found, rest = answer.partition(b'"' + name + b'"')
    value = rest.lstrip(b": ")
    if not found or not value.startswith(b'"'):
        raise Unexpected(f"no text {name.decode()!r} in {answer[:300].decode(errors='replace')}")
    return value[1 : value.index(b'"', 1)]


def expect(answer: bytes, *parts: bytes) -> None:
    """Check that an answer holds these bytes, however it is spaced."""
    dense = answer.replace(b" ", b"")
    for part in parts:
        if part not in dense:
            raise Unexpected(f"no {part.decode()} in {answer[:400].decode(errors='replace')}")
