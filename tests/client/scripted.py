"""A real HTTP server on this machine that answers by a script, and hands to play talks without any I/O."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fencing.client.calls import Apply, Call, Clock, Lost, Pause, Reply, Talk


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server does with one request; `is_dropped` closes the connection, `is_cut` in the middle of the body."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0
    is_dropped: bool = False
    is_cut: bool = False


DROPPED = Answer(is_dropped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the server was sent."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


class ScriptedServer:
    """Answers each request with the next answer of its script, and the last one for ever."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.requests: list[Request] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                owner.handle(self)

            do_GET = do_POST = handle_any  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def will(self, *answers: Answer) -> None:
        """Set the script."""
        self.script = list(answers)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Note a request and answer it."""
        length = int(handler.headers.get("Content-Length") or 0)
        content = handler.rfile.read(length)
        parts = urlsplit(handler.path)
        request = Request(
            method=handler.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query)),
            headers={name.lower(): value for name, value in handler.headers.items()},
            body=json.loads(content) if content else None,
        )
        self.requests.append(request)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        time.sleep(answer.delay_s)
        handler.close_connection = answer.is_dropped or answer.is_cut
        if not answer.is_dropped:
            _send(handler, answer)

    @contextmanager
    def running(self) -> Iterator["ScriptedServer"]:
        """Serve in a thread."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    handler.send_response(answer.status)
    for name, value in {"Content-Type": "application/json", **answer.headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2] if answer.is_cut else content)


def problem(status: int, code: str, **more: Any) -> Answer:
    """A refusal as the service sends one."""
    headers = {"Content-Type": "application/problem+json"}
    if "retry_after" in more:
        headers["Retry-After"] = str(more["retry_after"])
    return Answer(
        status=status, body={"status": status, "code": code, "title": code, "detail": code, **more}, headers=headers
    )


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    """A reply to a talk that is played by hand."""
    return Reply(status=status, headers=headers, body=json.dumps(body).encode())


def refused(status: int, code: str, **more: Any) -> Reply:
    """A refusal to a talk that is played by hand."""
    return reply({"status": status, "code": code, "detail": code, **more}, status)


class Play:
    """Plays a talk by hand: calls are answered from a list or by a function, pauses move a clock."""

    def __init__(
        self, *answers: Reply | Lost, takes_s: float = 0, by: Callable[[Call], Reply | Lost] | None = None
    ) -> None:
        self.answers = list(answers)
        self.by = by
        self.takes_s = takes_s
        self.calls: list[Call] = []
        self.pauses: list[Pause] = []
        self.now = 1000.0

    def __call__(self, talk: Talk[Any]) -> Any:
        go_on: Callable[[], Any] = partial(next, talk)
        while True:
            try:
                wish = go_on()
            except StopIteration as end:
                return end.value
            try:
                go_on = partial(talk.send, self._granted(wish))
            except Exception as fault:  # noqa: BLE001 - as a shell does
                go_on = partial(talk.throw, fault)

    def _granted(self, wish: Any) -> Any:
        match wish:
            case Call():
                self.calls.append(wish)
                self.now += self.takes_s
                return self.by(wish) if self.by else self.answers.pop(0)
            case Pause():
                self.pauses.append(wish)
                self.now += wish.least_s
                return None
            case Clock():
                return self.now
            case Apply():
                return wish.function(*wish.args, **wish.kwargs)
