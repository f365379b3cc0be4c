"""The steps and the state of things that a preview is made of, read without locks in a few statements."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from fencing.models import Action, Freeze, Grant, Run, Step, Vote
from fencing.models.bodies import grant_as_pure
from fencing.models.registry import registry_at
from fencing.protocol import fence, intake
from fencing.protocol.asking import Circumstances
from fencing.protocol.epochs import RunEpochs, step_epoch
from fencing.protocol.freezes import Freeze as Frozen
from fencing.protocol.rules import rules_of
from fencing.protocol.tools import ToolDefinition

PAST: Final = timedelta(hours=6)
MOST_STEPS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A step as it was read, with the moments of its votes and the tools of its time."""

    row: Step
    pure: fence.Step
    heard_at: tuple[datetime, ...]
    definition: ToolDefinition | None

    @property
    def rules(self) -> fence.Rules:
        """What its tool asks of the fence."""
        return rules_of(self.definition)


def own_epoch(run: Run, step: str | None) -> int:
    """The number that a grant of this scope must carry (R5)."""
    if step is None:
        return run.epoch
    numbers = Step.objects.filter(run=run, name=step).values_list("epoch", flat=True)
    return step_epoch(RunEpochs(epoch=run.epoch, counter=run.counter), numbers)


def steps_about(run: Run, *, step: str | None, tool: str | None, now: datetime) -> tuple[list[Seen], bool]:
    """The steps of the run that a grant may be about: undecided, or decided in the last hours, the newest first.

    Tells also whether there are more than are given.
    """
    lately = Q(decided_at__isnull=True) | Q(decided_at__gte=now - PAST)
    rows = Step.objects.filter(lately, run=run, proposed_at__isnull=False)
    if step is not None:
        rows = rows.filter(name=step)
    if tool is not None:
        rows = rows.filter(Q(pinned_tool__isnull=True) | Q(pinned_tool=tool))
    found = list(rows.order_by("-opened_at", "-id")[: MOST_STEPS + 1])
    votes: dict[Any, list[Vote]] = defaultdict(list)
    for vote in Vote.objects.filter(step__in=found[:MOST_STEPS]).order_by("received_at", "id"):
        votes[vote.step_id].append(vote)
    return [seen_from(row, votes[row.id]) for row in found[:MOST_STEPS]], len(found) > MOST_STEPS


def seen_from(row: Step, votes: Sequence[Vote]) -> Seen:
    """A step and its votes as the pure core knows them. The votes must be in the order in which they came."""
    pure = fence.Step(
        step=row.name,
        epoch=row.epoch,
        phase=fence.Phase(row.phase),
        deadline_at=row.deadline_at or row.opened_at,
        pinned_digest=row.pinned_digest,
        pinned_payload=row.pinned_payload_id,
        pinned_tool=row.pinned_tool,
        votes=tuple(
            fence.Vote(path=each.path, digest=each.digest, payload=each.payload_id, tool=each.tool, fault=each.fault)
            for each in votes
        ),
    )
    tool = fence.tool_of(pure)
    definition = None if tool is None or row.registry is None else registry_at(row.registry).get(tool)
    return Seen(row=row, pure=pure, heard_at=tuple(each.received_at for each in votes), definition=definition)


def circumstances(
    run: Run, known: Seen | None, *, own: int, issuer: int | None, now: datetime, without: str | None
) -> Circumstances:
    """The state of things that a grant is asked in. `without` names a grant that is not in its own way."""
    others = Grant.objects.filter(run=run, due_at__isnull=False).exclude(name=without or "")
    overdue = Grant.objects.filter(issuer_id=issuer, reviewed_at__isnull=True, review_due_at__lte=now)
    return Circumstances(
        run=run.name,
        own=own,
        known=None if known is None else _known(known),
        others=[grant_as_pure(other, approvals=0) for other in others],
        freezes=_freezes(run),
        overdue=list(overdue.values_list("name", flat=True)),
        now=now,
    )


def _known(seen: Seen) -> intake.Known:
    reason = None if seen.row.reason is None else fence.Reason(seen.row.reason)
    return intake.Known(step=seen.pure, content=seen.row.content_digest, reason=reason)


def _freezes(run: Run) -> list[Frozen]:
    rows = Freeze.objects.filter(Q(run__isnull=True) | Q(run=run), lifted_at__isnull=True)
    return [
        Frozen(id=str(row.id), tool=row.tool, run=None if row.run_id is None else run.name, at=row.set_at)
        for row in rows
    ]


def actions_of(payloads: Iterable[str | None]) -> dict[str, Any]:
    """The parsed actions of payload digests."""
    wanted = {payload for payload in payloads if payload is not None}
    rows = Action.objects.filter(payload_digest__in=wanted) if wanted else ()
    return {row.payload_digest: json.loads(bytes(row.canonical)) for row in rows}
