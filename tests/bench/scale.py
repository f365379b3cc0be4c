"""How long and how large: the same measurements in two minutes, at ease, or on ten million steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Seconds and sizes. `size` makes whatever counts things smaller, for a test of the machinery alone."""

    name: str
    warm_s: float
    window_s: float
    raw_s: float
    probe_s: float
    memory_s: float
    history_steps: int
    # Audit of a long history takes half of its room; older months may have been detached (design 3).
    audit_days: float = 36_500.0
    has_own_small: bool = True
    # In turns with what stands beside it: both see the same machine.
    rounds: int = 2
    size: float = 1.0
    # What is not measured unless it is asked for by its name: it would take longer than all the rest.
    left_out: frozenset[str] = frozenset()


TINY: Final = Scale(
    name="tiny",
    warm_s=0.1,
    window_s=0.4,
    raw_s=1.0,
    probe_s=0.4,
    memory_s=0.4,
    history_steps=0,
    has_own_small=False,
    rounds=1,
    size=0.02,
)
QUICK: Final = Scale(
    name="quick",
    warm_s=1.5,
    window_s=4.0,
    raw_s=2.5,
    probe_s=5.0,
    memory_s=5.0,
    history_steps=20_000,
    has_own_small=False,
    left_out=frozenset({"history"}),
)
NORMAL: Final = Scale(
    name="normal",
    warm_s=4.0,
    window_s=20.0,
    raw_s=10.0,
    probe_s=60.0,
    memory_s=60.0,
    history_steps=2_000_000,
    rounds=4,
)
FULL: Final = Scale(
    name="full",
    warm_s=5.0,
    window_s=30.0,
    raw_s=15.0,
    probe_s=120.0,
    memory_s=900.0,
    history_steps=10_000_000,
    audit_days=2.0,
    rounds=6,
)
SCALES: Final = {each.name: each for each in (TINY, QUICK, NORMAL, FULL)}
