"""The story of a step of a world, as `explain` tells it: facts from the record, actions and times from the history."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from fencing.protocol import fence
from fencing.protocol.explain import Effect, Heard, Story
from fencing.protocol.grants import Grant
from fencing.protocol.world import World
from fencing.protocol.world.events import Admit, Cast, Propose
from fencing.protocol.world.records import Done, IntentRecord, StepRecord


def story_of(world: World, record: StepRecord, now: datetime) -> Story:
    """Collect what the sentence of a step tells at a moment."""
    turn = world.turn(now)
    actions = _actions(world)
    votes = zip(record.facts.votes, record.heard_at, strict=True)
    heard = tuple(
        Heard(
            path=vote.path,
            at=at,
            digest=vote.digest,
            action=actions.get(vote.payload or ""),
            abstain=None if vote.digest is not None else "it could not",
        )
        for vote, at in votes
    )
    commit = record.commit
    intent = next((each for each in world.intents if commit is not None and each.id == commit.intent), None)
    rules = turn.rules(record)
    return Story(
        step=record.facts,
        reason=record.reason,
        rules=rules,
        now=now,
        heard=heard,
        tools=world.tools,
        pinned=actions.get(record.facts.pinned_payload or ""),
        commit=None if commit is None else turn.pure_commit(commit),
        effect=None if intent is None or commit is None else _effect(world, intent, actions.get(commit.payload)),
        grants=_grants(world, record.decided_at or now),
        proposed_at=record.proposed_at,
        decided_at=record.decided_at,
        committed_at=None if commit is None else commit.at,
        is_correlated=fence.is_agreed(record.facts, rules) and fence.is_correlated(record.facts, rules),
    )


def _grants(world: World, at: datetime) -> tuple[Grant, ...]:
    """The grants of a moment, as they were then: what ended later had not ended."""
    return tuple(
        replace(
            record.facts,
            expired_at=_unless_later(record.facts.expired_at, at),
            revoked_at=_unless_later(record.facts.revoked_at, at),
            voided_at=_unless_later(record.facts.voided_at, at),
        )
        for record in world.grants
        if record.at <= at
    )


def _unless_later(moment: datetime | None, at: datetime) -> datetime | None:
    return None if moment is None or moment > at else moment


def _actions(world: World) -> dict[str, Any]:
    found = (entry.event.action for entry in world.history if isinstance(entry.event, Propose | Cast))
    return {action.payload_digest: json.loads(action.canonical) for action in found if action is not None}


def _effect(world: World, intent: IntentRecord, action: Any) -> Effect:
    left = [
        entry.at
        for entry in world.history
        if isinstance(entry.event, Admit)
        and isinstance(entry.result, Done)
        and entry.result.intent == intent.id
        and entry.result.number is not None
    ]
    return Effect(
        state=intent.facts.state,
        tries=len(intent.facts.deliveries),
        may_be_out=sum(each.may_be_out for each in intent.facts.deliveries),
        left_at=left[0] if left else None,
        action=action,
        tools=world.tools,
    )
