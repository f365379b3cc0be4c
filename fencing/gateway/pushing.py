"""Push delivery in the database: taking what is due, and writing down what became of it (T5, L5).

`take` admits deliveries of push tools as admission does for gateways, in one short transaction, and gives what is to
be called; `settle` records how calls ended. Between the two no transaction is open: who calls may die at any moment,
and then the lease alone says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from django.db import connection

from fencing.gateway import admissions
from fencing.gateway.effects import Effect, claimants, lock_effects
from fencing.gateway.outgoing import COURIER, Callee, OutgoingEffect, Refused
from fencing.gateway.pace import Pace, push_tools, tell_breakers, turn_to_take
from fencing.models import Commit
from fencing.models.facts import Facts, lock_steps, lookup_of
from fencing.protocol import intents, pushing
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import Answer
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.errors import Refusal
from fencing.protocol.pushing import Ended, Verdict
from fencing.protocol.tools import ToolDefinition
from fencing.services.requests import Admit
from fencing.services.writes import LostRace, Writes, in_transaction

_refused: Final = Refused()

# Ready intents of push tools, so many of each, the oldest first and each tool in its turn; with the commit that is
# delivered: the oldest whose claim is not lost, for one of a lost branch stands on once the effect may be out (B4), and
# lets nothing through. What a freeze stops, and what happened without authority already, is passed over (L8, L10).
DUE: Final = """
SELECT due.intent_id, due.commit_id, due.tool FROM (
    SELECT i.id AS intent_id, k.id AS commit_id, asked.tool,
        row_number() OVER (PARTITION BY asked.tool ORDER BY i.opened_at, i.id) AS place
    FROM unnest(%s::text[], %s::int[]) AS asked(tool, many)
    JOIN LATERAL (
        SELECT a.id, a.run_id, a.opened_at, a.payload_id FROM fencing_intent a
        WHERE a.tool = asked.tool AND a.state = 'ready' AND (a.not_before IS NULL OR a.not_before <= clock_timestamp())
          AND (SELECT v.mode FROM fencing_toolversion v
            WHERE v.tool = a.tool AND v.id <= a.registry ORDER BY v.id DESC LIMIT 1) = 'push'
          AND NOT EXISTS (SELECT FROM fencing_freeze f WHERE f.lifted_at IS NULL
            AND (f.tool IS NULL OR f.tool = a.tool) AND (f.run_id IS NULL OR f.run_id = a.run_id))
          AND EXISTS (SELECT FROM fencing_commit c WHERE c.intent_id = a.id AND c.closed_at IS NULL
            AND (a.payload_id IS NULL OR a.payload_id = c.payload_id)
            AND EXISTS (SELECT FROM fencing_claim l
              WHERE l.step_id = c.step_id AND l.intent_id = c.intent_id AND l.state <> 'lost')
            AND NOT EXISTS (SELECT FROM fencing_observedeffect e
              WHERE e.digest = c.payload_id AND e.match = 'escape' AND e.is_open))
          AND a.id <> ALL (%s::uuid[])
        ORDER BY a.opened_at, a.id LIMIT asked.many
    ) i ON true
    JOIN LATERAL (
        SELECT c.id FROM fencing_commit c WHERE c.intent_id = i.id AND c.closed_at IS NULL
          AND (i.payload_id IS NULL OR i.payload_id = c.payload_id)
          AND EXISTS (SELECT FROM fencing_claim l
            WHERE l.step_id = c.step_id AND l.intent_id = c.intent_id AND l.state <> 'lost')
        ORDER BY c.committed_at, c.id LIMIT 1
    ) k ON true
) due ORDER BY due.place, due.tool LIMIT %s
"""


def take(limit: int) -> list[OutgoingEffect]:
    """Admit what is due of push tools, `limit` at most, and give what is to be called."""
    tools = push_tools()
    return in_transaction(lambda: _take(limit, tools)) if tools else []


def _take(limit: int, tools: Mapping[str, ToolDefinition]) -> list[OutgoingEffect]:
    now = turn_to_take()
    if now is None:
        return []
    pace = Pace(tools, now)
    room = pace.room(limit)
    with connection.cursor() as cursor:
        cursor.execute(DUE, [list(room), list(room.values()), _refused.ids(), limit])
        due = [(str(intent), str(commit), str(tool)) for intent, commit, tool in cursor.fetchall()]
    if not due:
        return []
    writes = Writes(COURIER)
    taken = _admitted(due, writes)
    pace.note(Counter(each.callee.tool for each in taken), writes)
    writes.send()
    return taken


def _admitted(due: Sequence[tuple[str, str, str]], writes: Writes) -> list[OutgoingEffect]:
    """Judge each as admission does; what is refused stays where it is, and is told to nobody: nobody asked."""
    commits = {
        str(commit.id): commit
        for commit in Commit.objects.select_related("run", "payload").filter(id__in=[each[1] for each in due])
    }
    places = [(commit.run.name, commit.step_name) for commit in commits.values()]
    facts = lock_steps(places + claimants([each[0] for each in due]), strength="admit")
    found = []
    for intent_id, commit_id, _ in due:
        commit = commits[commit_id]
        facts.lock_intents(ids=[intent_id])
        admitted = _admit(commit, facts, writes)
        if admitted is None:
            _refused.note(intent_id)
        else:
            found.append(admitted)
    return found


def _admit(commit: Commit, facts: Facts, writes: Writes) -> OutgoingEffect | None:
    body = bytes(commit.payload.canonical)
    action = read_action(json.loads(body), lookup_of(facts.registry))
    if not isinstance(action, Action):
        raise LostRace("a stored action is none")
    call = admissions.Call(
        request=Admit(action=None, token=commit.token, run=commit.run.name, step=commit.step_name, epoch=commit.epoch),
        action=action,
        commit=commit,
    )
    step = admissions.judged(call, facts, writes)
    if isinstance(step, Refusal):
        return None
    effect = Effect(facts.intents[str(commit.intent_id)], facts, writes)
    if any(claim["step_id"] not in facts.steps for claim in effect.intent.row["claims"]):
        raise LostRace("a step claimed the intent meanwhile")
    callee = Callee.of(effect.definition)
    if callee is None:
        return None
    effect.expire_leases()
    answer = admissions.deliver(step, effect)
    if not isinstance(answer, Answer) or not answer.body.get("admit"):
        return None
    return OutgoingEffect(
        intent=str(answer.body["intent"]),
        delivery=str(answer.body["delivery"]),
        number=effect.intent.row["deliveries"][-1]["number"],
        callee=callee,
        body=body,
        idempotency_key=str(answer.body["idempotency_key"]),
        token=commit.token,
    )


def settle(ended: Sequence[tuple[OutgoingEffect, Ended]], chance: Sequence[float]) -> list[float]:
    """Record how calls ended. Gives for each how many seconds its intent waits for the next try, 0 where it has none.

    `chance` spreads the tries of many. An answer that comes when another delivery took over is a stale one, recorded
    and without effect (L5); a late success settles.
    """
    return in_transaction(lambda: _settle(ended, chance)) if ended else []


def _settle(ended: Sequence[tuple[OutgoingEffect, Ended]], chance: Sequence[float]) -> list[float]:
    writes = Writes(COURIER)
    facts = lock_effects(sorted({call.intent for call, _ in ended}))
    verdicts = [pushing.classify(end, call.callee.policy, now=facts.now) for call, end in ended]
    pauses = [
        _record(call, verdict, luck, facts, writes)
        for (call, _), verdict, luck in zip(ended, verdicts, chance, strict=True)
    ]
    told = [(call.callee.tool, verdict) for (call, _), verdict in zip(ended, verdicts, strict=True)]
    tell_breakers(told, facts.now, writes)
    writes.send()
    return pauses


def _record(call: OutgoingEffect, verdict: Verdict, chance: float, facts: Facts, writes: Writes) -> float:
    effect = Effect(facts.intents[call.intent], facts, writes)
    pause_s = pushing.pause_s(call.number, chance)
    recorded = effect.record(
        call.number,
        verdict.kind,
        source="push",
        response=None if verdict.response is None else canonical_bytes(verdict.response),
        retry_after_s=verdict.wait_s,
        pause_s=pause_s,
        evidence=verdict.says,
    )
    if recorded.refusal is not None:
        subject = {"run": effect.run.name, "tool": call.callee.tool, "resources": []}
        writes.refuse(recorded.refusal, "outcome", **subject)
        return 0.0
    if recorded.state is not intents.State.READY or recorded.not_before is None:
        return 0.0
    return max((recorded.not_before - facts.now).total_seconds(), 0.0)
