"""How the actions of a step that diverged differ, for people (C5). Told after the decision, never used by it."""

from __future__ import annotations

import json

from fencing.models import Action as ActionRow
from fencing.models.facts import StepFacts
from fencing.protocol.actions import Action, read_action
from fencing.protocol.differences import difference_class
from fencing.protocol.errors import Refusal


def difference_of(step: StepFacts) -> str | None:
    """Class the difference between the first two actions that disagree; None where fewer than two were named."""
    said: dict[str, str] = {}
    if step.row["pinned_digest"] and step.row["pinned_payload"]:
        said[step.row["pinned_digest"]] = step.row["pinned_payload"]
    for vote in step.votes:
        if vote["digest"] and vote["payload"]:
            said.setdefault(vote["digest"], vote["payload"])
    if len(said) <= 1:
        return None
    pair = list(said.values())[:2]
    stored = {row.payload_digest: bytes(row.canonical) for row in ActionRow.objects.filter(payload_digest__in=pair)}
    one, other = (_read(stored[payload], step) for payload in pair)
    definition = step.definition(one.tool)
    difference = difference_class(one, other, advisory=() if definition is None else definition.advisory)
    return None if difference is None else difference.value


def _read(raw: bytes, step: StepFacts) -> Action:
    action = read_action(json.loads(raw), step.definition)
    if isinstance(action, Refusal):
        raise TypeError(f"stored bytes are no action: {action.detail}")
    return action
