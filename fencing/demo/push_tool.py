"""A push tool that can fail in every way, and keeps a ledger of its own: for the demonstration, and for tests.

`python -m fencing.demo.push_tool --port N` serves it. `POST /pay` honours the idempotency key, `POST /note` does not.
`GET /effects/<key>` reads one effect back, `GET /ledger?after=N&limit=N` lists all, the oldest first, `&tool=N` those
of one tool, `GET /tries` how often it was called. With `--late` there is a second address
that takes no connection before `POST /open`.
An action says in its argument `do` how its calls end: one name, or a list with one for each try, the last for all
further ones. A name with a number (`slow:0.2`, `busy:2`) takes it as seconds. `POST /hurry` has answered what is slow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

# Connections that hang are closed at the end, by their own tasks.
LEAVE_S: Final = 0.05
MAX_BODY: Final = 1_000_000
RESET: Final = struct.pack("ii", 1, 0)

# What a try does: whether the tool acts, and what it then sends: a status, and a body or none.
SENDS: Final[Mapping[str, tuple[bool, int, Any]]] = {
    "ok": (True, 200, None),
    "forgets": (False, 200, '{"id": "none"}'),
    "created": (True, 201, None),
    "no_content": (True, 204, ""),
    "wrong_body": (True, 200, '{"id": "cut o'),
    "wrong_shape": (True, 200, "[1, 2]"),
    "big_number": (True, 200, '{"id": 12345678901234567890}'),
    "wrong_type": (True, 200, "<html>ok</html>"),
    "redirect": (False, 302, ""),
    "timeout_status": (True, 408, "{}"),
    "in_progress": (False, 409, '{"code": "in_progress"}'),
    "exists": (False, 409, '{"code": "exists"}'),
    "too_early": (False, 425, "{}"),
    "busy": (False, 429, "{}"),
    "refused": (False, 422, '{"code": "no_such_invoice"}'),
    "broken_before": (False, 500, "{}"),
    "broken_after": (True, 500, "{}"),
    "proxy": (True, 504, "<html>gateway timeout</html>"),
}
RANDOM: Final = (*("ok",) * 12, "busy", "reset_before", "reset_after", "broken_before", "broken_after", "proxy", "half")


@dataclass(kw_only=True)
class Ledger:
    """What the tool did, and how often it was asked. Its ids of effects begin with `prefix`."""

    prefix: str = ""
    effects: list[dict[str, Any]] = field(default_factory=list)
    by_key: dict[str, dict[str, Any]] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def act(self, key: str, action: Any, *, once: bool) -> dict[str, Any]:
        """Do it, and give what was done; `once` for a key that has had its effect."""
        if once and key in self.by_key:
            return self.by_key[key]
        row = {
            "external_id": f"{self.prefix}eff-{len(self.effects) + 1}",
            "idempotency_key": key,
            "action": action,
            "occurred_at": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        self.effects.append(row)
        self.by_key[key] = row
        return row


class PushTool:
    """The tool as a server in an event loop."""

    def __init__(self, *, secret: str | None = None, seed: int = 1, prefix: str = "") -> None:
        self.ledger = Ledger(prefix=prefix)
        self.secret = secret
        self.chance = random.Random(seed)  # noqa: S311 - faults for tests, no secret
        self.retry_after = "1"
        self.is_hurried = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._late: socket.socket | None = None
        self._opened: asyncio.Server | None = None
        self._ended = asyncio.Event()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen; give the port."""
        self._server = await asyncio.start_server(self._serve, host, port, backlog=1024)
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    def bind_late(self, host: str = "127.0.0.1") -> int:
        """Take a port at which connections are refused until somebody asks to open it; give the port."""
        self._late = socket.socket()
        self._late.bind((host, 0))
        taken: int = self._late.getsockname()[1]
        return taken

    async def stop(self) -> None:
        """Listen no more, and let go of who was kept waiting."""
        self._ended.set()
        for server in (self._server, self._opened):
            if server is not None:
                server.close()
        if self._late is not None and self._opened is None:
            self._late.close()

    async def _open(self) -> None:
        if self._late is not None and self._opened is None:
            self._opened = await asyncio.start_server(self._serve, sock=self._late)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            method, target, _ = lines[0].split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            body = await reader.readexactly(min(int(headers.get("content-length", "0")), MAX_BODY))
            if method == "GET":
                await _send(writer, 200, json.dumps(self._read(target)))
            elif target == "/hurry":
                self.is_hurried.set()
                await _send(writer, 204, "")
            elif target == "/open":
                await self._open()
                await _send(writer, 204, "")
            else:
                await self._called(writer, target, headers, body)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _read(self, target: str) -> dict[str, Any]:
        url = urlsplit(target)
        if url.path.startswith("/effects/"):
            row = self.ledger.by_key.get(url.path.removeprefix("/effects/"))
            return {"happened": row is not None, **({} if row is None else {"external_id": row["external_id"]})}
        if url.path == "/calls":
            return {"calls": self.ledger.calls}
        if url.path == "/tries":
            return {"tries": self.ledger.tries.total()}
        asked = parse_qs(url.query)
        after, limit = int(asked.get("after", ["0"])[0]), int(asked.get("limit", ["100"])[0])
        wanted = asked.get("tool", [None])[0]
        all_of_it = [row for row in self.ledger.effects if wanted is None or row["action"].get("tool") == wanted]
        items = all_of_it[after : after + limit]
        following = after + len(items)
        return {"items": items, "next": str(following) if following < len(all_of_it) else None}

    async def _called(self, writer: asyncio.StreamWriter, target: str, headers: Mapping[str, str], body: bytes) -> None:
        key = headers.get("idempotency-key", "")
        self.ledger.calls.append({"key": key, "headers": dict(headers), "body": body.decode(), "target": target})
        if self.secret is not None and headers.get("authorization") != f"Bearer {self.secret}":
            await _send(writer, 401, "{}")
            return
        action = json.loads(body)
        how, seconds = self._how(action, key)
        once = target.startswith("/pay")
        if how in ("reset_before", "hang"):
            await self._leave(writer, hang=how == "hang")
            return
        if how == "slow":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.is_hurried.wait()
            how = "ok"
        if how in ("reset_after", "hang_after", "half"):
            self.ledger.act(key, action, once=once)
            if how == "half":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{")
                await writer.drain()
            await self._leave(writer, hang=how == "hang_after")
            return
        acts, status, text = SENDS[how]
        row = self.ledger.act(key, action, once=once) if acts else None
        if text is None and row is not None:
            text = json.dumps({"id": row["external_id"]})
        await _send(writer, status, text, retry_after=f"{seconds:g}" if seconds else self.retry_after)

    async def _leave(self, writer: asyncio.StreamWriter, *, hang: bool) -> None:
        """Answer nothing: close the connection hard, at once or long after anybody waits for it."""
        if hang:
            await self._ended.wait()
        taken = writer.get_extra_info("socket")
        if taken is not None:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

    def _how(self, action: Any, key: str) -> tuple[str, float]:
        wanted = action.get("args", {}).get("do", "ok")
        self.ledger.tries[key] += 1
        if isinstance(wanted, list):
            wanted = wanted[min(self.ledger.tries[key], len(wanted)) - 1]
        if wanted == "random":
            wanted = self.chance.choice(RANDOM)
        name, _, seconds = str(wanted).partition(":")
        return (name if name in SENDS or name in WAYS else "ok"), float(seconds or 0)


WAYS: Final = frozenset({"reset_before", "reset_after", "hang", "hang_after", "half", "slow"})


async def _send(writer: asyncio.StreamWriter, status: int, text: str, *, retry_after: str = "") -> None:
    kind = "text/html" if text.startswith("<") else "application/json"
    more = f"Retry-After: {retry_after}\r\n" if status in (408, 425, 429, 503) and retry_after else ""
    more += "Location: https://elsewhere.example/\r\n" if status == 302 else ""  # noqa: PLR2004 - a redirect
    head = f"HTTP/1.1 {status} Tool\r\nContent-Type: {kind}\r\nContent-Length: {len(text.encode())}\r\n{more}\r\n"
    writer.write(head.encode() + text.encode())
    await writer.drain()


async def serve(tool: PushTool, port: int, *, host: str = "127.0.0.1", is_late: bool = False) -> None:
    """Serve until a signal to stop."""
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    taken = await tool.start(host, port)
    late = f", and later at http://{host}:{tool.bind_late(host)}" if is_late else ""
    print(f"push tool at http://{host}:{taken}{late}", flush=True)  # noqa: T201 - who started it reads the ports
    await stop.wait()
    await tool.stop()
    await asyncio.sleep(LEAVE_S)


def main() -> None:
    """Serve a tool from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--secret", help="the bearer credential that every call must show")
    parser.add_argument("--seed", type=int, default=1, help="of the faults that are left to chance")
    parser.add_argument("--prefix", default="", help="what its ids of effects begin with")
    parser.add_argument("--late", action="store_true", help="have a second address that refuses connections at first")
    asked = parser.parse_args()
    tool = PushTool(secret=asked.secret, seed=asked.seed, prefix=asked.prefix)
    asyncio.run(serve(tool, asked.port, host=asked.host, is_late=asked.late))


if __name__ == "__main__":
    main()
