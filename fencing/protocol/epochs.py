"""Epochs (protocol, section 5): a number of the run that only grows, and what belongs to a closed one is stale.

A run has an `epoch` (where it started, or the last restart) and a `counter` (the highest number given). A step has a
number of its own: the run's epoch, or the later one that a replay gave to it alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fencing.protocol.errors import Code, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEpochs:
    """The two numbers of a run (R1). `counter` is never below `epoch`, and both only grow."""

    epoch: int
    counter: int

    def restarted(self, number: int) -> RunEpochs:
        """Give the numbers after a restart that opened `number` (R2)."""
        return RunEpochs(epoch=number, counter=number)

    def replayed(self) -> RunEpochs:
        """Give the numbers after one step was given the next number of the counter (R4)."""
        return replace(self, counter=self.counter + 1)


def step_epoch(run: RunEpochs, opened: Iterable[int]) -> int:
    """Tell a step's own number: the highest that is open for it, else the run's epoch (R1).

    `opened` are the epochs at which the step has a row, of any age.
    """
    return max((number for number in opened if number >= run.epoch), default=run.epoch)


def check_epoch(*, given: int, own: int) -> Refusal | None:
    """Compare a proposal's, vote's, grant's or call's number with the step's own (R5)."""
    if given < own:
        detail = f"Epoch {given} is closed for this: it goes on in epoch {own}."
        return Refusal(code=Code.STALE_EPOCH, detail=detail, pointer="/epoch", extras={"current_epoch": own})
    if given > own:
        detail = f"Nobody opened epoch {given} for this: it is in epoch {own}."
        return Refusal(code=Code.FUTURE_EPOCH, detail=detail, pointer="/epoch", extras={"current_epoch": own})
    return None


def restart_number(run: RunEpochs, *, expected: int, named: int | None) -> int | Refusal:
    """Give the number that a restart opens, or refuse it: of two planners that race, one gets it (R2)."""
    if expected != run.epoch:
        detail = f"The run is in epoch {run.epoch}, not {expected}: somebody else opened it. Read the run, then decide."
        return Refusal(
            code=Code.STALE_EPOCH, detail=detail, pointer="/expected_epoch", extras={"current_epoch": run.epoch}
        )
    number = run.counter + 1 if named is None else named
    if number <= run.counter:
        detail = f"Number {run.counter} was given already: name a higher one, or none."
        return Refusal(code=Code.STALE_EPOCH, detail=detail, pointer="/epoch", extras={"current_epoch": run.epoch})
    return number
