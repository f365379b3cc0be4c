"""Effects for pages: intents with their claims, deliveries, outcomes and ledger rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Prefetch

from fencing.models import Action, Breaker, Claim, Commit, Compensation, Incident, Intent, ObservedEffect
from fencing.models.registry import registry_at
from fencing.protocol.errors import Refusal
from fencing.protocol.tools import ToolDefinition
from fencing.queries.pages import Filters, Page, keep
from fencing.queries.tries import Try, deliveries, tries_of_undoings, try_of

COLUMNS = {"state": "state", "tool": "tool", "run": "run__name", "key": "key"}
MOST: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A step that wants, or wanted, the effect."""

    run: str
    step: str
    epoch: int
    state: str
    phase: str
    reason: str
    authority: str
    claimed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectLine:
    """An effect in a list."""

    id: uuid.UUID
    run: str
    key: str
    generation: int
    tool: str
    state: str
    opened_at: datetime
    settled_at: datetime | None
    claims: tuple[Claimed, ...]
    tries: tuple[Try, ...]

    @property
    def last(self) -> Try | None:
        """Its newest try."""
        return self.tries[-1] if self.tries else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectTrace:
    """Everything about one effect. `escapes` are open ones of this very action, which a reviewer may adopt.

    `undoings` are what would undo it or did, each with its calls.
    """

    line: EffectLine
    action: Any
    payload: str | None
    definition: ToolDefinition | None
    ledger: tuple[ObservedEffect, ...]
    adopted: ObservedEffect | None
    incidents: tuple[Incident, ...]
    escapes: tuple[Incident, ...]
    breaker: Breaker | None
    undoings: tuple[tuple[Compensation, tuple[Try, ...]], ...]


def list_effects(filters: Filters, page: Page) -> tuple[list[EffectLine], str | None] | Refusal:
    """One page of effects, newest first."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    # Out of the index alone: rows are read for the page, not for what was passed over on the way to it.
    chosen, following = page.of(Intent.objects.filter(**keep(filters, COLUMNS)).only("id", "opened_at"))
    return _lines([row.pk for row in chosen]), following


def doubts(limit: int = MOST) -> list[EffectLine]:
    """Effects of which nobody knows whether they happened, the oldest first."""
    found = Intent.objects.filter(state="in_doubt").order_by("opened_at", "id").values_list("id", flat=True)[:limit]
    return _lines(list(found))


def read_effect(intent_id: uuid.UUID) -> EffectTrace | None:
    """Everything about one effect; None where there is no such intent."""
    lines = _lines([intent_id])
    if not lines:
        return None
    intent = Intent.objects.select_related("payload").get(id=intent_id)
    payload = intent.payload or next(
        (each.payload for each in Commit.objects.filter(intent_id=intent_id).select_related("payload")), None
    )
    ledger = ObservedEffect.objects.filter(intent_id=intent_id).select_related("by", "person").order_by("observed_at")
    digest = None if payload is None else payload.payload_digest
    escapes = Incident.objects.filter(
        kind="landed_escape", effect__digest=digest, effect__is_open=True, effect__match="escape"
    ).select_related("effect")
    return EffectTrace(
        line=lines[0],
        action=None if payload is None else json.loads(bytes(payload.canonical)),
        payload=digest,
        definition=None if intent.tool is None else registry_at(intent.registry).get(intent.tool),
        ledger=tuple(ledger),
        adopted=ObservedEffect.objects.filter(adopted_by_id=intent_id).select_related("adopter").first(),
        incidents=tuple(Incident.objects.filter(intent_id=intent_id).order_by("-opened_at")[:MOST]),
        escapes=() if digest is None else tuple(escapes.order_by("opened_at")[:MOST]),
        breaker=None if intent.tool is None else Breaker.objects.filter(tool=intent.tool).first(),
        undoings=_undoings(intent_id),
    )


def _undoings(intent_id: uuid.UUID) -> tuple[tuple[Compensation, tuple[Try, ...]], ...]:
    rows = list(Compensation.objects.filter(intent_id=intent_id).order_by("-proposed_at", "-id")[:MOST])
    tries = tries_of_undoings([row.pk for row in rows])
    return tuple((row, tries.get(row.pk, ())) for row in rows)


def troubled_tools() -> list[Breaker]:
    """Push tools that are left alone, or are being tried."""
    return list(Breaker.objects.exclude(state="closed").order_by("tool"))


def action_of(effect: ObservedEffect) -> Any:
    """The action of a ledger row, None where nobody stored it."""
    stored = None if effect.digest is None else Action.objects.filter(payload_digest=effect.digest).first()
    return None if stored is None else json.loads(bytes(stored.canonical))


def _lines(ids: Sequence[uuid.UUID]) -> list[EffectLine]:
    claims = Claim.objects.order_by("claimed_at", "id").select_related("step__run", "step__commit")
    found = (
        Intent.objects.filter(id__in=list(ids))
        .select_related("run")
        .prefetch_related(Prefetch("deliveries", queryset=deliveries()), Prefetch("claims", queryset=claims))
        .in_bulk()
    )
    return [_line(found[each]) for each in ids if each in found]


def _line(intent: Intent) -> EffectLine:
    return EffectLine(
        id=intent.id,
        run=intent.run.name,
        key=intent.key,
        generation=intent.generation,
        tool=intent.tool or "",
        state=intent.state,
        opened_at=intent.opened_at,
        settled_at=intent.settled_at,
        claims=tuple(_claimed(each) for each in intent.claims.all()),
        tries=tuple(try_of(each) for each in intent.deliveries.all()),
    )


def _claimed(claim: Claim) -> Claimed:
    step = claim.step
    commit = getattr(step, "commit", None)
    return Claimed(
        run=step.run.name,
        step=step.name,
        epoch=step.epoch,
        state=claim.state,
        phase=step.phase,
        reason=step.reason or "",
        authority="" if commit is None else commit.authority,
        claimed_at=claim.claimed_at,
    )
