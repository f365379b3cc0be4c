"""From a commit to the receipt of a push tool, alone and beside two hundred calls that take long."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tests.bench.jobs import LoadFailed
from tests.bench.load import quantiles
from tests.bench.pushes import Pusher, Server, serving, until
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured

SLOW: Final = 200
SLOW_S: Final = 30
DELAY_MS: Final = 50
LEAST: Final = 3
PAUSE_S: Final = 0.04
WAIT_S: Final = 30.0
# From the moment that the fencer's decision is of: its rows are written and made durable after it.
COMMITS: Final = """
SELECT d.idempotency_key, extract(epoch FROM c.committed_at)::float8, extract(epoch FROM d.admitted_at)::float8
FROM fencing_commit c JOIN fencing_delivery d ON d.commit_id = c.id AND d.number = 1
WHERE c.tool = 'bench_pay' AND c.committed_at >= %s
"""
IN_FLIGHT: Final = "SELECT count(*) FROM fencing_intent WHERE tool LIKE 'bench\\_%' AND state = 'in_flight'"
TABLE: Final = """
CREATE SCHEMA IF NOT EXISTS bare_push;
CREATE TABLE IF NOT EXISTS bare_push.effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)
"""
NOT_CALLED: Final = "push tools on this machine are not called: start `up` with FENCE_TOOL_HOSTS=127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts:
    """How long effects took from commit to receipt, and of that until they were admitted, and then until received."""

    whole: Mapping[str, float]
    admitted: Mapping[str, float]
    called: Mapping[str, float]


def measure(measured: Measured, scale: Scale) -> Found:
    """Measure both, and a bare row and call beside them."""
    slow = max(2, round(SLOW * scale.size))
    with serving(measured) as server, contextlib.closing(Pusher(measured, measured.keys(1))) as pusher:
        pusher.commit()
        until(lambda: server.tries() > 0, WAIT_S, NOT_CALLED)
        window_s = min(scale.probe_s / 2, SLOW_S / 2)
        alone = _receipts(measured, server, pusher, window_s)
        bare = _bare(measured, server, min(1.0, window_s))
        before = server.tries()
        pusher.commit_slow(slow, SLOW_S)
        until(lambda: server.tries() >= before + slow, WAIT_S, "the slow calls did not begin")
        beside = _receipts(measured, server, pusher, window_s)
        if measured.one(IN_FLIGHT) < slow:
            raise LoadFailed("the slow calls ended before the figure beside them was there")
        server.ask("POST", "/hurry")
        until(lambda: measured.one(IN_FLIGHT) == 0, WAIT_S, "the slow calls did not end")
    name = "commit to a push tool's receipt"
    raws = [Raw(what="a bare row and a bare call, ms", value=bare["median_ms"])]
    figures = [
        Figure(
            name=f"{name}, idle, median",
            value=alone.whole["median_ms"],
            unit="ms",
            least=15,
            is_cost=True,
            raws=raws,
            note=f"99th {alone.whole['p99_ms']:.1f} ms",
        ),
        Figure(
            name=f"{name}, beside {slow} calls of {SLOW_S} s, median",
            value=beside.whole["median_ms"],
            unit="ms",
            least=round(alone.whole["median_ms"] + DELAY_MS, 1),
            is_cost=True,
            note=f"99th {beside.whole['p99_ms']:.1f} ms",
        ),
    ]
    more = {
        "alone": alone.whole,
        "alone, commit to admission": alone.admitted,
        "alone, admission to receipt": alone.called,
        "beside": beside.whole,
        "bare": bare,
    }
    return Found(figures=figures, more=more)


def _receipts(measured: Measured, server: Server, pusher: Pusher, window_s: float) -> Receipts:
    """Have effects committed for a while, and tell how long each took from its commit to the tool."""
    began = datetime.now(UTC)
    end, before, played = time.monotonic() + window_s, server.tries(), 0
    while time.monotonic() < end or played < LEAST:
        pusher.commit()
        played += 1
        time.sleep(PAUSE_S * (0.5 + random.random()))  # noqa: S311 - no secret
    until(lambda: server.tries() >= before + played, WAIT_S, "a committed effect did not arrive")
    received = server.receipts()
    with measured.connect() as connection:
        committed = connection.execute(COMMITS, [began]).fetchall()
    return Receipts(
        whole=quantiles([received[key] - at for key, at, _ in committed]),
        admitted=quantiles([admitted - at for _, at, admitted in committed]),
        called=quantiles([received[key] - admitted for key, _, admitted in committed]),
    )


def _bare(measured: Measured, server: Server, window_s: float) -> Mapping[str, float]:
    """The same without this system: a row that is committed, and then a call on a connection of its own."""
    began: dict[str, float] = {}
    end = time.monotonic() + window_s
    with measured.connect() as connection:
        connection.execute(TABLE)
        while time.monotonic() < end or len(began) < LEAST:
            key = f"bare-{len(began)}"
            body = json.dumps({"tool": "bare", "args": {"invoice": len(began), "do": "ok"}}).encode()
            began[key] = time.time()
            connection.execute("INSERT INTO bare_push.effect (body) VALUES (%s)", [body], prepare=True)
            server.ask("POST", "/pay", body, key)
            time.sleep(PAUSE_S / 2)
        connection.execute("DROP SCHEMA bare_push CASCADE")
    received = server.receipts()
    return quantiles([received[key] - at for key, at in began.items()])
