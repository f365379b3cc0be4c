"""One step after the other, by eight planners over HTTP, beside pgbench and beside a bare handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.bench import handler, jobs, pgbench
from tests.bench.jobs import Played
from tests.bench.report import Figure, Found, Raw
from tests.bench.scale import Scale
from tests.bench.system import Measured

PLANNERS = 8


def measure(measured: Measured, scale: Scale) -> Found:
    """Measure the three rates in turns, and what share of the raw ones remains."""
    keys = measured.keys(PLANNERS)
    raws, bares, ours = [], [], []
    with handler.serving(measured) as (bare_url, process):
        for _ in range(scale.rounds):
            raws.append(pgbench.run(measured, clients=PLANNERS, seconds=scale.raw_s / scale.rounds))
            bares.append(_play(measured, bare_url, "bare", keys, scale, scale.raw_s, handler=process))
            ours.append(_play(measured, measured.base_url, "one_by_one", keys, scale, scale.window_s))
    raw, bare, played = pgbench.together(raws), Played.together(bares), Played.together(ours)
    beside = (Raw(what="pgbench", value=raw.rate), Raw(what="bare handler", value=bare.rate))
    figures = [
        Figure(
            name="one by one, of pgbench with six bare transactions",
            value=100 * played.rate / raw.rate,
            unit="%",
            least=15,
            aim=35,
        ),
        Figure(
            name="one by one, of a bare handler with one row a request",
            value=100 * played.rate / bare.rate,
            unit="%",
            least=45,
            aim=60,
        ),
        Figure(
            name=f"one by one, {PLANNERS} planners", value=played.rate, unit="steps/s", least=200, aim=550, raws=beside
        ),
    ]
    return Found(
        figures=figures,
        more={
            "cpu_ms_per_step": played.cpu_ms_per_step,
            "cpu_ms_per_step of the bare handler": bare.cpu_ms_per_step,
            "calls": played.calls,
            "bare calls": bare.calls,
        },
    )


def _play(
    measured: Measured,
    base_url: str,
    kind: str,
    keys: Mapping[str, Any],
    scale: Scale,
    seconds: float,
    **more: Any,
) -> Played:
    return jobs.play(
        measured.up,
        base_url,
        kind,
        keys,
        planners=PLANNERS,
        warm_s=scale.warm_s / scale.rounds,
        window_s=seconds / scale.rounds,
        **more,
    )
