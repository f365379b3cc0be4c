"""What a run has on record, on the real database and in a world in memory, in words that both can say."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, Final

from django.db import connection

from fencing.protocol.world import World

# Everything of one run that decides anything, and the ledger rows and freezes of all, in one statement: it is asked
# after each event.
RECORD: Final = """
WITH run AS (SELECT id, epoch, counter FROM fencing_run WHERE id = %(run)s)
SELECT jsonb_build_object(
  'epochs', (SELECT jsonb_build_array(epoch, counter) FROM run),
  'steps', (SELECT jsonb_agg(jsonb_build_array(s.name, s.epoch, s.branch, s.phase, s.reason,
      (SELECT coalesce(jsonb_agg(jsonb_build_array(v.path, v.digest) ORDER BY v.received_at, v.id), '[]')
       FROM fencing_vote v WHERE v.step_id = s.id),
      (SELECT jsonb_build_array(c.authority, c.payload_id, c.closed_at IS NULL, i.key, i.generation)
       FROM fencing_commit c JOIN fencing_intent i ON i.id = c.intent_id WHERE c.step_id = s.id)))
    FROM fencing_step s JOIN run ON run.id = s.run_id),
  'grants', (SELECT jsonb_agg(jsonb_build_array(g.name, g.uses, g.reviewed_at IS NOT NULL, g.revoked_at IS NOT NULL,
      g.voided_at IS NOT NULL, g.expired_at IS NOT NULL, g.expires_at IS NOT NULL))
    FROM fencing_grant g JOIN run ON run.id = g.run_id),
  'freezes', (SELECT jsonb_agg(jsonb_build_array(tool, lifted_at IS NULL)) FROM fencing_freeze),
  'forks', (SELECT jsonb_agg(jsonb_build_array(f.name, f.winner, f.reconciled_at IS NOT NULL))
    FROM fencing_fork f JOIN run ON run.id = f.run_id),
  'branches', (SELECT jsonb_agg(jsonb_build_array(b.name, b.state))
    FROM fencing_branch b JOIN run ON run.id = b.run_id),
  'intents', (SELECT jsonb_agg(jsonb_build_array(i.key, i.generation, i.state,
      (SELECT jsonb_agg(jsonb_build_array(s.name, s.epoch, c.state) ORDER BY s.name, s.epoch, c.state)
       FROM fencing_claim c JOIN fencing_step s ON s.id = c.step_id WHERE c.intent_id = i.id),
      (SELECT coalesce(jsonb_agg((SELECT o.outcome FROM fencing_outcome o WHERE o.delivery_id = d.id AND o.is_effective
        ORDER BY o.recorded_at DESC, o.id DESC LIMIT 1) ORDER BY d.number), '[]')
       FROM fencing_delivery d WHERE d.intent_id = i.id)))
    FROM fencing_intent i JOIN run ON run.id = i.run_id),
  'undoings', (SELECT jsonb_agg(jsonb_build_array(i.key, i.generation, e.external_id, u.cause, u.state, u.round,
      u.payload_id, u.needed, u.run_id IS NOT NULL,
      (SELECT count(*) FROM fencing_compensationapproval a WHERE a.compensation_id = u.id AND a.round = u.round),
      (SELECT count(*) FROM fencing_compensationrelease r WHERE r.compensation_id = u.id),
      (SELECT coalesce(jsonb_agg(jsonb_build_array(r.round, d.number,
        (SELECT o.outcome FROM fencing_compensationoutcome o WHERE o.delivery_id = d.id AND o.is_effective
         ORDER BY o.recorded_at DESC, o.id DESC LIMIT 1)) ORDER BY r.round, d.number), '[]')
       FROM fencing_compensationdelivery d JOIN fencing_compensationrelease r ON r.id = d.release_id
       WHERE d.compensation_id = u.id)))
    FROM fencing_compensation u LEFT JOIN fencing_intent i ON i.id = u.intent_id
      LEFT JOIN fencing_observedeffect e ON e.id = u.effect_id),
  'effects', (SELECT jsonb_agg(jsonb_build_array(e.tool, e.external_id, e.match, e.is_open, e.digest, i.key,
      i.generation, e.adopted_by_id IS NOT NULL))
    FROM fencing_observedeffect e LEFT JOIN fencing_intent i ON i.id = e.intent_id),
  'incidents', (SELECT jsonb_agg(kind) FROM fencing_incident))
"""


def stored(run: uuid.UUID) -> dict[str, Any]:
    """What the database has on record, in the words of `record_of`."""
    with connection.cursor() as cursor:
        cursor.execute(RECORD, {"run": run})
        (found,) = cursor.fetchone()
    told: dict[str, Any] = json.loads(found) if isinstance(found, str) else found
    return {name: _sorted(rows or []) if name != "epochs" else rows for name, rows in told.items()}


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=json.dumps)


def record_of(world: World, name: Callable[[str], str]) -> dict[str, Any]:
    """What a world has on record. `name` is what a grant is called in the database."""
    named = {each.id: [each.key, each.facts.generation] for each in world.intents}
    commits = {
        each.place: [each.commit.authority, each.commit.payload, each.commit.stands, *named[each.commit.intent]]
        for each in world.steps
        if each.commit is not None
    }
    found: dict[str, list[Any]] = {
        "steps": [
            [
                *(each.facts.step, each.facts.epoch, each.branch, each.phase, each.reason),
                [[vote.path, vote.digest] for vote in each.facts.votes],
                commits.get(each.place),
            ]
            for each in world.steps
        ],
        "grants": [
            [
                *(name(each.facts.name), each.facts.uses, each.facts.reviewed_at is not None),
                *(each.facts.revoked_at is not None, each.facts.voided_at is not None),
                *(each.facts.expired_at is not None, each.facts.expires_at is not None),
            ]
            for each in world.grants
        ],
        "freezes": [[each.asked.tool, each.lifted_by is None] for each in world.freezes],
        "forks": [[each.name, each.winner, each.is_reconciled] for each in world.tree.forks.values()],
        "branches": [[each.name, each.state] for each in world.tree.branches.values()],
        "intents": [
            [
                *(each.key, each.facts.generation, each.facts.state),
                sorted([claim.step, claim.epoch, claim.state] for claim in each.claims),
                [delivery.outcome for delivery in each.facts.deliveries],
            ]
            for each in world.intents
        ],
        "undoings": [
            [
                *(named.get(each.intent or "", [None, None])),
                *(each.effect, each.cause, each.state, each.round, each.digest, each.needed, each.in_run),
                sum(said.round == each.round for said in each.approvals),
                len(each.released),
                [[made.round, made.delivery.number, made.delivery.outcome] for made in each.tries],
            ]
            for each in world.undoings
        ],
        "effects": [
            [
                *(each.tool, each.id, each.match, each.is_open, each.digest),
                *(named.get(each.intent or "", [None, None])),
                each.adopted is not None,
            ]
            for each in world.effects
        ],
        "incidents": [each.kind for each in world.incidents],
    }
    return {
        "epochs": [world.epochs.epoch, world.epochs.counter],
        **{name: _sorted(rows) for name, rows in found.items()},
    }
