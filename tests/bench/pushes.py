"""Effects that push tools are called for: their tool as a server of its own, and a planner that has them committed."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from tests.bench import bodies
from tests.bench.bodies import Place
from tests.bench.jobs import LoadFailed
from tests.bench.planners import Playing
from tests.bench.system import Measured
from tests.bench.wire import WAIT_S, expect
from tests.live import TOP, bare_environment

REGISTER_S: Final = 60.0
ACTION: Final = b'{"tool":"%b","args":{"invoice":%d,"do":"%b"}}'
PROPOSAL: Final = b'{"run":"%b","step":"%b","epoch":1,"tool":"%b"}'
VOTE: Final = b'{"run":"%b","step":"%b","epoch":1,"action":%b}'


class Server:
    """The tool: what it is called for stands in its ledger, with the moment at which the call had arrived."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._port = port

    def ask(self, method: str, path: str, body: bytes = b"", key: str = "") -> Any:
        """Send a request on a connection of its own; give the JSON of the answer, None where there is none."""
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT_S)
        with contextlib.closing(line):
            line.request(method, path, body or None, {"Content-Type": "application/json", "Idempotency-Key": key})
            answer = line.getresponse().read()
        return json.loads(answer) if answer else None

    def receipts(self) -> dict[str, float]:
        """When each effect was received, by its idempotency key, in seconds of this machine's clock."""
        found: dict[str, float] = {}
        after = "0"
        while after:
            page = self.ask("GET", f"/ledger?after={after}&limit=1000")
            found |= {row["idempotency_key"]: _moment(row["occurred_at"]) for row in page["items"]}
            after = page["next"]
        return found

    def tries(self) -> int:
        """How often it was called, the calls that it is still busy with among them."""
        return int(self.ask("GET", "/tries")["tries"])


@contextlib.contextmanager
def serving(measured: Measured) -> Iterator[Server]:
    """Serve the bench's push tools in a process of its own, registered in the measured system."""
    command = [sys.executable, "-m", "fencing.demo.push_tool"]
    with subprocess.Popen(command, cwd=TOP, env=bare_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            server = Server(int(process.stdout.readline().rpartition(":")[2]))
            subprocess.run(
                [sys.executable, "-m", "tests.bench.push_tools", server.address],
                cwd=TOP,
                env={**measured.environment, "FENCE_TOOL_HOSTS": "127.0.0.1"},
                timeout=REGISTER_S,
                check=True,
            )
            yield server
        finally:
            process.terminate()


class Pusher(Playing):
    """Has effects of push tools committed, one after the other or many at once."""

    def __init__(self, measured: Measured, keys: Mapping[str, Any]) -> None:
        super().__init__(measured.base_url, keys, 0, 1, secrets.token_hex(2))

    def commit(self) -> None:
        """Have one effect committed, and wait until that is known."""
        place = self.places.take()
        self.planner.post(b"/steps", PROPOSAL % (place.run, place.step, b"bench_pay"), 201)
        for line in self.paths.values():
            line.post(b"/votes", VOTE % (place.run, place.step, _action(b"bench_pay", b"ok", place)), 201)
        expect(self.planner.get(bodies.WAITING % (place.run, place.step, WAIT_S)), b'"phase":"committed"')

    def commit_slow(self, many: int, take_s: int) -> None:
        """Have effects committed whose calls take so many seconds."""
        places = [self.places.take() for _ in range(many)]
        slow = b"slow:%d" % take_s
        wanted = [PROPOSAL % (place.run, place.step, b"bench_slow") for place in places]
        said = [VOTE % (place.run, place.step, _action(b"bench_slow", slow, place)) for place in places]
        answers = [self.planner.post(b"/steps", bodies.items(wanted), 200)]
        answers += [line.post(b"/votes", bodies.items(said), 200) for line in self.paths.values()]
        if any(answer.replace(b" ", b"").count(b'"status":201') != many for answer in answers):
            raise LoadFailed(f"slow effects were not taken: {answers[-1][:400].decode(errors='replace')}")


def until(holds: Any, within_s: float, words: str) -> None:
    """Wait until something holds. Raises `LoadFailed` with `words` where it never does."""
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise LoadFailed(words)
        time.sleep(0.02)


def _action(tool: bytes, do: bytes, place: Place) -> bytes:
    return ACTION % (tool, 1 + place.number, do)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
