"""What both paths do: look what awaits their vote, decide by their own rule, vote. Neither sees the other's vote."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from fencing.client import Path, Receipt, Wanted
from fencing.demo.actor import Verbs

PATIENCE_S = 10.0

Rule = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def cast_path(base_url: str, key: str, decide: Rule, *, model: str) -> Verbs:
    """What a path can be told to do: answer a step by its rule, or vote as it is told."""
    path = Path(base_url, key)

    def answer(run: str, step: str, epoch: int) -> Receipt:
        """Wait until the step is wanted of this path, and vote what the rule says about its context."""
        wanted = _awaited(path, run, step, epoch)
        return path.vote(run, step, epoch, action=decide(wanted.context), model=model)

    return {"answer": answer, "vote": path.vote}


def _awaited(path: Path, run: str, step: str, epoch: int) -> Wanted:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for each in path.wanted(wait_s=1):
            if (each.run, each.step, each.epoch) == (run, step, epoch):
                return each
        time.sleep(0.02)
    raise TimeoutError(f"{run}/{step} at epoch {epoch} was never wanted of this path")
