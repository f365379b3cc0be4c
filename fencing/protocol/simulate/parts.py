"""The parts of the simulator that are always played, each with its figures and with what is wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from fencing.protocol.simulate.figures import figures_of
from fencing.protocol.simulate.grading import play_orders
from fencing.protocol.simulate.speculation import speculation
from fencing.protocol.simulate.traces import all_traces


class Part(Protocol):
    """What a part shows: lines for people, and a sentence for everything that is not as it must be."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The figures as they are printed."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What fails the run."""


def fence() -> Part:
    """The thirty-two traces through the leaky and the enforcing gateway."""
    return figures_of(all_traces())


def grading() -> Part:
    """Four orders of fragments, restarts and publications, on this core and on a publisher that appends."""
    return play_orders()


PARTS: Final[tuple[Callable[[], Part], ...]] = (fence, grading, speculation)
