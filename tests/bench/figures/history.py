"""What the length of history costs: the same load, sweeps and reads on two systems, one of them full of steps.

Both run beside each other and are measured in turns, so that both see the same machine.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from tests.bench import jobs
from tests.bench.jobs import Played
from tests.bench.reads import read_times
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured
from tests.live import TOP

PLANNERS = 8
SMALL = 10_000
TICKS = 40
SWEEP_ROUNDS = 2
SWEEP_S = 300.0


def measure(measured: Measured, scale: Scale) -> Found:
    """Measure a short history and a long one."""
    with contextlib.ExitStack() as stack:
        # With little time, the system that the other figures have used is the one with the short history.
        small = stack.enter_context(Measured.start(steps=SMALL)) if scale.has_own_small else measured
        large = measured
        if scale.history_steps:
            large = stack.enter_context(Measured.start(steps=scale.history_steps, audit_days=scale.audit_days))
        systems = {"short": small, "long": large}
        steps = {name: each.one("SELECT count(*) FROM fencing_step") for name, each in systems.items()}
        keys = {name: each.keys(PLANNERS) for name, each in systems.items()}
        played: dict[str, list[Played]] = {name: [] for name in systems}
        for _ in range(scale.rounds):
            for name, each in systems.items():
                played[name].append(_play(each, keys[name], scale))
        rates = {name: Played.together(found).rate for name, found in played.items()}
        swept: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(SWEEP_ROUNDS):
            for name, each in systems.items():
                swept[name] += _sweeps(each)
        sweeps = {name: 1000 * _undisturbed(found) for name, found in swept.items()}
        reads = {name: read_times(each.base_url, keys[name]["auditor"]) for name, each in systems.items()}
    figures = _figures(steps, rates, sweeps)
    more = {f"{name} {steps[name]:,} steps, ms": reads[name] for name in systems}
    more |= {f"{name} cpu_ms_per_step": Played.together(played[name]).cpu_ms_per_step for name in systems}
    return Found(figures=figures, more=more)


def _figures(steps: Mapping[str, int], rates: Mapping[str, float], sweeps: Mapping[str, float]) -> list[Figure]:
    long, short = f"{steps['long']:,} steps in the tables", f"with {steps['short']:,}"
    return [
        Figure(
            name=f"one by one with {long}, of the rate {short}",
            value=100 * rates["long"] / rates["short"],
            unit="%",
            least=85,
            aim=95,
        ),
        Figure(
            name=f"one by one with {long}",
            value=rates["long"],
            unit="steps/s",
            raws=[Raw(what=short, value=rates["short"])],
        ),
        Figure(
            name=f"a sweep with nothing due, {long}, of one {short}",
            value=100 * sweeps["long"] / sweeps["short"],
            unit="%",
            least=130,
            aim=110,
            is_cost=True,
            note=f"{sweeps['long']:.2f} ms and {sweeps['short']:.2f} ms",
        ),
    ]


def _play(system: Measured, keys: Mapping[str, Any], scale: Scale) -> Played:
    return jobs.play(
        system.up,
        system.base_url,
        "one_by_one",
        keys,
        planners=PLANNERS,
        warm_s=scale.warm_s / scale.rounds,
        window_s=scale.window_s / scale.rounds,
    )


def _undisturbed(seconds: list[float]) -> float:
    """What something takes while nothing else has the processor: the bound below which the fastest tenth lies."""
    return sorted(seconds)[len(seconds) // 10]


def _sweeps(system: Measured) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.sweeps", str(TICKS)],
        cwd=TOP,
        env=system.environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SWEEP_S,
        check=True,
    )
    took: list[float] = json.loads(done.stdout.splitlines()[-1])
    return took
