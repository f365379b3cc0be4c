"""A real local server that speaks the chat protocol, and does as it is told: answer, dawdle, fail, lie, restart."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, object]]


def completion(content: str | None = None, *, usage: object = None, calls: list[Any] | None = None) -> object:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls is not None:
        message["tool_calls"] = calls
    told = {"prompt_tokens": 900, "completion_tokens": 100} if usage is None else usage
    return {"choices": [{"index": 0, "message": message}], "usage": told}


def tool_call(tool: str, arguments: object) -> dict[str, Any]:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": "call-1", "type": "function", "function": {"name": tool, "arguments": given}}


def scored(_body: dict[str, Any]) -> tuple[int, object]:
    return 200, completion('{"score": 0.75, "why": "fine"}')


@dataclass
class ModelServer:
    """One server with an address that stays, also when it is stopped and started again."""

    answer: Answer = scored
    delay_s: float = 0.0
    seen: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    port: int = 0
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((dict(self.headers.items()), body))
                time.sleep(outer.delay_s)
                status, told = outer.answer(body)
                raw = told if isinstance(told, bytes) else json.dumps(told).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    return  # the caller has gone away

            def log_message(self, *_: Any) -> None:
                return

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
