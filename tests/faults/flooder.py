"""Floods a service with one key, in a process of its own, until its standard input is closed; tells what it heard.

`python -m tests.faults.flooder HOST PORT KIND CONNECTIONS`, the key as the first line of standard input.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

RUN: Final = "flooded"
DIGEST: Final = "sha256:" + "a" * 64
ITEMS: Final = 1000


def a_vote(digest: str) -> dict[str, Any]:
    return {"run": RUN, "step": f"s{random.random()}", "epoch": 1, "digest": digest}  # noqa: S311 - noise


# What is sent: votes that are none, each with a body of its own; and votes for steps that nobody proposed.
KINDS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "mixed": lambda: {"items": [a_vote(random.choice([DIGEST, "none" * 500])) for _ in range(ITEMS)]},  # noqa: S311
    "malformed": lambda: {"items": [a_vote("none" * 500) for _ in range(ITEMS)]},
    "unknown": lambda: {"items": [a_vote(DIGEST) for _ in range(ITEMS)]},
    "single": lambda: a_vote(DIGEST),
}


class Heard:
    """What a flood was told."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.refused = 0
        self.least_wait = 0.0
        self._lock = threading.Lock()

    def note(self, status: int, retry_after: str | None, raw: bytes) -> None:
        """Count an answer."""
        results = [] if status == 429 else json.loads(raw).get("results", [{"code": 1}] if status >= 400 else [])
        with self._lock:
            self.statuses[status] += 1
            self.refused += sum("code" in each for each in results)
            if status == 429 and b"refused" in raw:
                self.least_wait = min(self.least_wait or 1e9, float(retry_after or 0))


def flood(host: str, port: int, key: str, make: Callable[[], dict[str, Any]], heard: Heard) -> None:
    """Send without a pause, whatever is answered."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(host, port, timeout=60)
    body = json.dumps(make()).encode()
    while not OVER.is_set():
        try:
            connection.request("POST", "/api/v1/votes", body, headers)
            answer = connection.getresponse()
            heard.note(answer.status, answer.getheader("Retry-After"), answer.read())
        except (OSError, http.client.HTTPException):
            connection.close()


OVER: Final = threading.Event()


def main(host: str, port: str, kind: str, connections: str) -> None:
    """Flood until nobody holds the other end of standard input, and print what was heard, once a moment too."""
    key, heard = sys.stdin.readline().strip(), Heard()
    arguments = (host, int(port), key, KINDS[kind], heard)
    threads = [threading.Thread(target=flood, args=arguments, daemon=True) for _ in range(int(connections))]
    for thread in threads:
        thread.start()
    watch = threading.Thread(target=tell_now_and_then, args=(heard,), daemon=True)
    watch.start()
    sys.stdin.read()
    OVER.set()
    for thread in threads:
        thread.join(60)
    tell(heard)


def tell_now_and_then(heard: Heard) -> None:
    """Print what was heard so far, a few times a second."""
    while not OVER.wait(0.2):
        tell(heard)


def tell(heard: Heard) -> None:
    """Print what was heard as one line of JSON."""
    told = {"statuses": heard.statuses, "refused": heard.refused, "least_wait": heard.least_wait}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    time.sleep(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
