"""Many steps in each call (H3), beside pgbench with as many steps in each bare transaction."""

from __future__ import annotations

from functools import partial

from tests.bench import jobs, pgbench
from tests.bench.jobs import Played
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured

PLANNERS = 4


def measure(measured: Measured, scale: Scale, *, items: int, least: float, aim: float) -> Found:
    """Measure bulk calls of `items` steps each."""
    items = max(2, round(items * scale.size))
    keys = measured.keys(PLANNERS)
    raws, ours = [], []
    for _ in range(scale.rounds):
        raws.append(pgbench.run(measured, items=items, clients=PLANNERS, seconds=scale.raw_s / scale.rounds))
        ours.append(
            jobs.play(
                measured.up,
                measured.base_url,
                "bulk",
                keys,
                planners=PLANNERS,
                items=items,
                warm_s=scale.warm_s / scale.rounds,
                window_s=scale.window_s / scale.rounds,
            )
        )
    raw, played = pgbench.together(raws), Played.together(ours)
    name = f"bulk, {items:,} items a call"
    figures = [
        Figure(name=f"{name}, of pgbench with as many in a transaction", value=100 * played.rate / raw.rate, unit="%"),
        Figure(
            name=name,
            value=played.rate,
            unit="steps/s",
            least=least,
            aim=aim,
            raws=[Raw(what="pgbench, as many in a bare transaction", value=raw.rate)],
        ),
    ]
    return Found(figures=figures, more={"cpu_ms_per_step": played.cpu_ms_per_step, "calls": played.calls})


hundred = partial(measure, items=100, least=3000, aim=7000)
thousand = partial(measure, items=1000, least=4500, aim=10_000)
