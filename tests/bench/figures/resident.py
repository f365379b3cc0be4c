"""Memory of web, workers and ticker at 100 steps a second, and whether it stays level."""

from __future__ import annotations

import time

from tests.bench import groups, jobs
from tests.bench.figures.latency import PACED, STEPS_PER_S
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured

MB = 1024 * 1024
# The ticker is a thread of each worker.
OURS = ("web", "workers")
LEVEL = 1.05


def measure(measured: Measured, scale: Scale) -> Found:
    """Measure memory at rest, half-way and at the end of a time at that pace."""
    rest = groups.memory(measured.up)
    pace = {"planners": PACED, "items": PACED / (STEPS_PER_S * max(scale.size, 0.1)), "warm_s": scale.warm_s}
    with jobs.beside(measured.up, measured.base_url, "paced", measured.keys(PACED), **pace) as counted:
        time.sleep(scale.memory_s / 2)
        half = groups.memory(measured.up)
        time.sleep(scale.memory_s / 2)
        end = groups.memory(measured.up)
    growth = _resident(end) / _resident(half)
    name = f"memory after {scale.memory_s:.0f} s at {counted[0].rate:.0f} steps/s"
    figures = [
        Figure(
            name=name,
            value=_resident(end),
            unit="MB",
            least=900,
            aim=600,
            is_cost=True,
            raws=[Raw(what="at rest", value=_resident(rest)), Raw(what="shared pages once", value=_proportional(end))],
            note=f"{'level' if growth <= LEVEL else 'GROWING'}: {100 * (growth - 1):+.1f} % in its second half",
        )
    ]
    parts = {
        group: {"resident_mb": each.resident / MB, "proportional_mb": each.proportional / MB}
        for group, each in end.items()
    }
    return Found(figures=figures, more={"memory": parts, "cpu_ms_per_step": counted[0].cpu_ms_per_step})


def _resident(memory: dict[str, groups.Memory]) -> float:
    return sum(memory[group].resident for group in OURS) / MB


def _proportional(memory: dict[str, groups.Memory]) -> float:
    return sum(memory[group].proportional for group in OURS) / MB
