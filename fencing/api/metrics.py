"""Prometheus figures: how calls go in this process, and what the database counts for the whole system."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import structlog
from django.db import Error
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fencing.api.dependencies import queue_depths
from fencing.api.document import EIGHT, RATIOS
from fencing.queries.counters import phases, read_counters
from fencing.queries.sealing import last_finished, sealing_state, witnesses

BUCKETS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Counting walks through tables: however often somebody scrapes, it is done so often at most.
KEPT_S: Final = 2.0

log = structlog.get_logger(__name__)

REGISTRY: Final = CollectorRegistry()
_SECONDS: Final = Histogram(
    "fence_request_seconds",
    "How long calls of the API took in this process.",
    ["method", "route", "status"],
    buckets=BUCKETS,
    registry=REGISTRY,
)
_children: dict[tuple[str, str, int], Any] = {}


def observe(method: str, route: str, status: int, seconds: float) -> None:
    """Note one call. Routes are patterns, so that their number is bounded."""
    key = (method, route, status)
    child = _children.get(key)
    if child is None:
        known = method if method in ("GET", "POST", "HEAD") else "other"
        child = _children[key] = _SECONDS.labels(known, route, str(status))
    child.observe(seconds)


class System(Collector):
    """The counters, phases and queues of the whole system, read when somebody asks."""

    def __init__(self) -> None:
        self._kept: list[Metric] = []
        self._at = -KEPT_S

    def collect(self) -> Iterator[Metric]:
        """Read them; what cannot be read is left out, and `fence_up` tells."""
        if time.monotonic() - self._at >= KEPT_S:
            self._kept = list(self._read())
            self._at = time.monotonic()
        yield from self._kept

    def _read(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("fence_up", "Whether a dependency answers.", labels=["dependency"])
        try:
            counters, by_phase, sealing = read_counters(), phases(), list(_sealing())
            up.add_metric(["database"], 1)
        except Error as error:
            log.warning("metrics_without_database", error=type(error).__name__)
            counters, by_phase, sealing = {}, {}, []
            up.add_metric(["database"], 0)
        depths = queue_depths()
        up.add_metric(["redis"], 0 if depths is None else 1)
        yield up
        yield from _counted(counters)
        yield from sealing
        steps = GaugeMetricFamily("fence_steps", "Steps by phase.", labels=["phase"])
        for phase, number in by_phase.items():
            steps.add_metric([phase], number)
        yield steps
        queues = GaugeMetricFamily("fence_queue_depth", "Jobs that wait, by queue.", labels=["queue"])
        for name, depth in (depths or {}).items():
            queues.add_metric([name], depth)
        yield queues


def _sealing() -> Iterator[Metric]:
    """How far the audit is sealed, and what its last verification found (U2, U3)."""
    state, verified = sealing_state(), last_finished()
    for name, told, value in (
        ("audit_unsealed_rows", "Rows of the audit that wait for their seal.", state.unsealed),
        ("audit_sealing_lag_seconds", "For how long the oldest of them has waited.", state.lag_s),
        ("audit_seals", "Seals that were made.", 0 if state.last is None else state.last.number),
    ):
        yield GaugeMetricFamily(f"fence_{name}", told, value=value)
    if verified is not None and verified.finished_at is not None:
        held = GaugeMetricFamily("fence_audit_verified", "1 where the last verification found nothing wrong, else 0.")
        held.add_metric([], 1.0 if verified.state == "held" else 0.0)
        yield held
        at = verified.finished_at.timestamp()
        yield GaugeMetricFamily("fence_audit_verified_at_seconds", "When that was, in seconds since 1970.", value=at)
    behind = GaugeMetricFamily("fence_audit_witness_behind", "Seals whose heads a witness lacks.", labels=["witness"])
    for witness in witnesses():
        behind.add_metric([witness.url], (0 if state.last is None else state.last.number) - witness.number)
    yield behind


def _counted(counters: dict[str, Any]) -> Iterator[Metric]:
    for name, value in counters.items():
        if name in EIGHT:
            yield CounterMetricFamily(f"fence_{name}", name.replace("_", " ").capitalize() + ".", value=value)
        elif name in RATIOS:
            for part in ("n", "of"):
                yield GaugeMetricFamily(f"fence_{name}_{part}", f"{name.replace('_', ' ')}: {part}.", value=value[part])
        else:
            yield GaugeMetricFamily(f"fence_{name}", name.replace("_", " ").capitalize() + ".", value=value)


SYSTEM: Final = System()
REGISTRY.register(SYSTEM)


def exposition() -> bytes:
    """Everything, in Prometheus' text format."""
    return generate_latest(REGISTRY)
