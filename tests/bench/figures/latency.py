"""From the second vote's answer to the decision in a waiting reader's hands, idle and at 100 steps a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.bench import jobs, pgbench
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured

STEPS_PER_S = 100
# So many planners that a step may take this many times as long as the pause between two of the whole system.
PACED = 16


def measure(measured: Measured, scale: Scale) -> Found:
    """Measure both."""
    one = measured.keys(1)
    raw = pgbench.run(measured, clients=1, seconds=scale.raw_s)
    idle = _probe(measured, one, scale)
    pace = {"planners": PACED, "items": PACED / (STEPS_PER_S * max(scale.size, 0.1)), "warm_s": scale.warm_s}
    with jobs.beside(measured.up, measured.base_url, "paced", measured.keys(PACED), **pace) as counted:
        busy = _probe(measured, one, scale)
    transaction = [Raw(what="one bare transaction, ms", value=raw.transaction_ms)]
    name = "second vote to decision read"
    pace_note = f"beside {counted[0].rate:.0f} steps/s"
    figures = [
        Figure(
            name=f"{name}, idle, median",
            value=idle["median_ms"],
            unit="ms",
            least=10,
            aim=5,
            is_cost=True,
            raws=transaction,
        ),
        Figure(name=f"{name}, idle, 99th", value=idle["p99_ms"], unit="ms", least=50, aim=20, is_cost=True),
        Figure(name=f"{name}, at {STEPS_PER_S} steps/s, median", value=busy["median_ms"], unit="ms", note=pace_note),
        Figure(
            name=f"{name}, at {STEPS_PER_S} steps/s, 99th",
            value=busy["p99_ms"],
            unit="ms",
            least=100,
            aim=50,
            is_cost=True,
            note=pace_note,
        ),
    ]
    return Found(figures=figures, more={"idle": idle, "busy": busy, "cpu_ms_per_step": counted[0].cpu_ms_per_step})


def _probe(measured: Measured, keys: Mapping[str, Any], scale: Scale) -> Mapping[str, float]:
    played = jobs.play(
        measured.up,
        measured.base_url,
        "probe",
        keys,
        planners=1,
        warm_s=min(1.0, scale.warm_s),
        window_s=scale.probe_s,
    )
    return played.calls["decided"]
