"""What the end of a grant reaches: fenced steps fall back, commits that rest on it alone are taken back (G5, L10)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from fencing.models.facts import Facts, StepFacts
from fencing.protocol import fence
from fencing.services.taking_back import take_back, touch
from fencing.services.writes import Writes


@dataclass(slots=True)
class Reached:
    """What the end of grants stopped, and what was out already: nothing takes that back."""

    stopped: list[StepFacts] = field(default_factory=list)
    already_out: list[StepFacts] = field(default_factory=list)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """Write both as an answer tells them, within one run."""
        return {
            "stopped": [line_of(step) for step in self.stopped],
            "already_out": [line_of(step) for step in self.already_out],
        }


def line_of(step: StepFacts) -> dict[str, Any]:
    """One step of such a list."""
    return {"step": step.name, "epoch": step.epoch, "intent": step.commit.intent_id if step.commit else None}


def stop(grant_ids: Collection[str], facts: Facts, writes: Writes) -> Reached:
    """Take back what rests on grants that have just ended in `facts`. Their runs must be locked alone."""
    reached = Reached()
    for step in sorted(facts.steps.values(), key=lambda step: (step.run.name, step.epoch, step.name)):
        commit = step.commit
        if step.phase is fence.Phase.FENCED and step.row["fenced_by"] in grant_ids:
            cleared = {"due_at": facts.now, "fenced_at": None, "fenced_by_id": None}
            touch(step, facts, writes, phase=fence.Phase.PROPOSED, reason=None, **cleared)
            writes.wake("fence")
            reached.stopped.append(step)
        elif commit is not None and commit.grant_id in grant_ids and facts.lost_authority(step) is not None:
            is_out = take_back(step, facts, writes) is None
            (reached.already_out if is_out else reached.stopped).append(step)
    return reached
