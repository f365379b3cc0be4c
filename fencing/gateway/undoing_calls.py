"""Push delivery of what undoes effects: taking approvals that are due, and writing down what came of their calls (P5).

As `pushing` is for effects. Each is taken and settled in a transaction of its own, for it locks otherwise. What nobody
knows is never sent again by a machine, whether the tool is idempotent or not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from django.db import connection

from fencing.gateway import undoings
from fencing.gateway.acts import Act
from fencing.gateway.outgoing import COURIER, Callee, OutgoingUndoing, Refused
from fencing.gateway.pace import Pace, push_tools, tell_breakers, turn_to_take
from fencing.models import CompensationDelivery, CompensationRelease
from fencing.models.facts import lookup_of
from fencing.models.registry import current_registry
from fencing.protocol import pushing
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import Answer
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.pushing import Ended
from fencing.protocol.tools import ToolDefinition
from fencing.services.requests import Admit
from fencing.services.writes import LostRace, Writes, in_transaction

# Approvals whose token is there and whose tool is called by this system, the oldest first and each tool in its turn.
# Passed over is what a freeze stops (L10), what waits for the tool, and what a later effect of the run comes before
# (P7).
DUE: Final = """
SELECT due.release_id, due.tool FROM (
    SELECT r.id AS release_id, a.tool, row_number() OVER (PARTITION BY a.tool ORDER BY r.released_at, r.id) AS place
    FROM fencing_compensation c
    JOIN fencing_compensationrelease r ON r.compensation_id = c.id AND r.round = c.round
    JOIN fencing_action a ON a.payload_digest = c.payload_id
    WHERE c.state = 'approved' AND (c.not_before IS NULL OR c.not_before <= clock_timestamp())
      AND a.tool = ANY (%s::text[])
      AND (SELECT v.mode FROM fencing_toolversion v
        WHERE v.tool = a.tool AND v.id <= c.registry ORDER BY v.id DESC LIMIT 1) = 'push'
      AND NOT EXISTS (SELECT FROM fencing_freeze f WHERE f.lifted_at IS NULL
        AND (f.tool IS NULL OR f.tool = a.tool) AND (f.run_id IS NULL OR f.run_id = c.run_id))
      AND NOT EXISTS (SELECT FROM fencing_compensation later WHERE later.run_id = c.run_id
        AND later.effect_at > c.effect_at AND later.state IN ('approved', 'in_flight', 'in_doubt'))
      AND r.id <> ALL (%s::uuid[])
) due ORDER BY due.place, due.tool LIMIT %s
"""

_refused: Final = Refused()


def take(limit: int) -> list[OutgoingUndoing]:
    """Admit the calls of approvals that are due, `limit` at most, and give what is to be called."""
    tools = push_tools()
    if not tools or limit <= 0:
        return []
    with connection.cursor() as cursor:
        cursor.execute(DUE, [list(tools), _refused.ids(), limit])
        due = [(str(release), str(tool)) for release, tool in cursor.fetchall()]
    taken = [in_transaction(partial(_take, release, tool, tools)) for release, tool in due]
    return [each for each in taken if each is not None]


def _take(release_id: str, tool: str, tools: Mapping[str, ToolDefinition]) -> OutgoingUndoing | None:
    now = turn_to_take()
    if now is None:
        return None
    pace = Pace({tool: tools[tool]}, now)
    writes = Writes(COURIER)
    taken = _admit(release_id, writes) if pace.room(1) else None
    if taken is not None:
        pace.note({tool: 1}, writes)
        writes.send()
    return taken


def _admit(release_id: str, writes: Writes) -> OutgoingUndoing | None:
    """Judge as admission does; what is refused stays where it is, and is told to nobody: nobody asked."""
    release = CompensationRelease.objects.select_related("payload").get(pk=release_id)
    body = bytes(release.payload.canonical)
    action = read_action(json.loads(body), lookup_of(current_registry()))
    if not isinstance(action, Action):
        raise LostRace("a stored action is none")
    request = Admit(action=None, token=release.token)
    act, answer = undoings.judged(request, action, str(release.compensation_id), writes)
    callee = Callee.of(act.definition)
    if callee is None or not isinstance(answer, Answer) or not answer.body.get("admit"):
        _refused.note(release_id)
        return None
    return OutgoingUndoing(
        compensation=act.id,
        delivery=str(answer.body["delivery"]),
        number=len(act.tries) + 1,
        callee=callee,
        body=body,
        idempotency_key=str(answer.body["idempotency_key"]),
        token=release.token,
    )


def settle(ended: Sequence[tuple[OutgoingUndoing, Ended]], chance: Sequence[float]) -> list[float]:
    """Record how calls ended. Gives for each how many seconds its approval waits for the next try, 0 for none.

    What is told again, after a database was away in the middle, changes nothing. A report that comes after a person
    decided is a stale or a contradicting one, recorded and without effect.
    """
    return [in_transaction(partial(_settle, call, end, luck)) for (call, end), luck in zip(ended, chance, strict=True)]


def _settle(call: OutgoingUndoing, end: Ended, chance: float) -> float:
    writes = Writes(COURIER)
    act = Act.locked(call.compensation, writes)
    if act is None:
        raise AssertionError("what was delivered is there")
    verdict = pushing.classify(end, call.callee.policy, now=act.now)
    told = undoings.Told(
        outcome=verdict.kind,
        source="push",
        response=None if verdict.response is None else canonical_bytes(verdict.response),
        retry_after_s=verdict.wait_s,
        pause_s=pushing.pause_s(call.number, chance),
        evidence=verdict.says,
    )
    recorded = undoings.write_outcome(act, CompensationDelivery.objects.get(pk=call.delivery), told)
    if recorded.refusal is not None:
        writes.refuse(recorded.refusal, "outcome", **{**act.subject, "tool": call.callee.tool})
    if recorded.is_news:
        tell_breakers([(call.callee.tool, verdict)], act.now, writes)
    writes.send()
    return 0.0 if recorded.not_before is None else max((recorded.not_before - act.now).total_seconds(), 0.0)
