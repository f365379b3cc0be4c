"""Real receivers on this machine: what a mail server, a webhook and a chat server take, and those that misbehave."""

from __future__ import annotations

import email
import email.policy
import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


class MailServer(socketserver.ThreadingTCPServer):
    """Takes mail by SMTP, as far as a client needs it."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Smtp)
        self.mails: list[EmailMessage] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.say("220 here")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                self.say("250-here\r\n250 8BITMIME")
            elif verb == b"DATA":
                self.say("354 go on")
                self.take()
                self.say("250 taken")
            elif verb == b"QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        mail = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        cast("MailServer", self.server).mails.append(mail)

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class WebServer(ThreadingHTTPServer):
    """Takes JSON by HTTP; answers as it is told to: a status, an address to go to, or nothing for so many seconds."""

    daemon_threads = True

    def __init__(self, *, status: int = 200, location: str = "", silent_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.status, self.location, self.silent_s = status, location, silent_s
        self.calls: list[tuple[str, dict[str, Any]]] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Web(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast("WebServer", self.server)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        server.calls.append((self.path, json.loads(body)))
        time.sleep(server.silent_s)
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", server.location)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST  # noqa: N815 - the library's own form

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def nobody() -> int:
    """Give a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
