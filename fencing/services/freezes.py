"""Freezes: on-call stops a tool, a run or everything at once, and another person lifts it (L10).

Setting one takes the locks that keep admissions and new grants of its scope waiting (`facts.sql`). So each admission is
either before it, and told as already out, or after it, and refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet

from fencing.models import Freeze
from fencing.models.bodies import freeze_body
from fencing.models.facts import Facts, lock_frozen, pure_grant, read_clock
from fencing.models.intents import MAY_BE_OUT
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import fence, grants
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.freezes import check_lift, scope_in_words
from fencing.services.requests import DecideGrant, SetFreeze
from fencing.services.runs import void_grant
from fencing.services.stopping import Reached, line_of, stop
from fencing.services.writes import Writes, in_transaction

MOST_LINES: Final = 1000

# What is about to leave, or may be out and has not come to an end, each by an index of its own; and of what has
# come to an end well, for a run everything, else what left within the hour (keys are ordered by time).
STANDING: Final = """
WITH found AS MATERIALIZED (
  SELECT i.id, i.run_id, i.state FROM fencing_intent i
   WHERE %(run)s::uuid IS NULL AND i.state = 'ready' AND (%(tool)s::text IS NULL OR i.tool = %(tool)s)
  UNION ALL
  SELECT i.id, i.run_id, i.state FROM fencing_intent i
   WHERE %(run)s::uuid IS NULL AND i.state = 'in_flight' AND i.due_at IS NOT NULL
     AND (%(tool)s::text IS NULL OR i.tool = %(tool)s)
  UNION ALL
  SELECT i.id, i.run_id, i.state FROM fencing_intent i
   WHERE %(run)s::uuid IS NULL AND i.state = 'in_doubt' AND (%(tool)s::text IS NULL OR i.tool = %(tool)s)
  UNION ALL
  SELECT i.id, i.run_id, i.state FROM (
      SELECT DISTINCT d.intent_id
        FROM (SELECT intent_id, admitted_at FROM fencing_delivery ORDER BY id DESC LIMIT 20000) d
       WHERE d.admitted_at >= clock_timestamp() - interval '1 hour') recent
    JOIN fencing_intent i ON i.id = recent.intent_id
   WHERE %(run)s::uuid IS NULL AND i.state = 'succeeded' AND (%(tool)s::text IS NULL OR i.tool = %(tool)s)
  UNION ALL
  SELECT i.id, i.run_id, i.state FROM fencing_intent i
   WHERE i.run_id = %(run)s AND i.state IN ('ready', 'in_flight', 'in_doubt', 'succeeded')
     AND (%(tool)s::text IS NULL OR i.tool = %(tool)s)
)
SELECT run, step_name, epoch, intent_id, is_out, total FROM (
  SELECT r.name AS run, c.step_name, c.epoch, c.intent_id::text, told.is_out,
      count(*) OVER (PARTITION BY told.is_out) AS total,
      row_number() OVER (PARTITION BY told.is_out ORDER BY c.committed_at DESC, c.id DESC) AS place
    FROM found JOIN fencing_commit c ON c.intent_id = found.id AND c.closed_at IS NULL
      JOIN fencing_run r ON r.id = found.run_id
      CROSS JOIN LATERAL (SELECT found.state <> 'ready' OR EXISTS (
          SELECT FROM fencing_delivery AS delivery WHERE delivery.intent_id = found.id AND {may_be_out}
        ) AS is_out) AS told) AS standing
 WHERE place <= %(most)s ORDER BY place
"""

# Undoings are admitted, and stopped, as effects are (P5): those that were approved, and those that may be out and have
# not come to an end. Their tool is the one that would be called.
UNDOINGS: Final = """
SELECT run, intent_id, id, is_out, total FROM (
  SELECT r.name AS run, c.intent_id::text, c.id::text, told.is_out,
      count(*) OVER (PARTITION BY told.is_out) AS total,
      row_number() OVER (PARTITION BY told.is_out ORDER BY c.decided_at DESC, c.id DESC) AS place
    FROM fencing_compensation c JOIN fencing_action a ON a.payload_digest = c.payload_id
      LEFT JOIN fencing_run r ON r.id = c.run_id
      CROSS JOIN LATERAL (SELECT c.state <> 'approved' AS is_out) AS told
   WHERE c.state IN ('approved', 'in_flight', 'in_doubt')
     AND (%(run)s::uuid IS NULL OR c.run_id = %(run)s) AND (%(tool)s::text IS NULL OR a.tool = %(tool)s)) AS standing
 WHERE place <= %(most)s ORDER BY place
"""


def freeze(request: SetFreeze, caller: Caller) -> Result:
    """Freeze a scope in the caller's name (`POST /freezes`): nothing of it is admitted, its grants are void.

    The answer lists what was stopped and what is out already. Set again by the same person while it stands, it is a
    duplicate; another person's freeze of the same scope is one of its own, which somebody else has to lift, too.
    """
    return in_transaction(lambda: _freeze(request, caller))


def lift_freeze(freeze_id: str, request: DecideGrant, caller: Caller) -> Result:
    """Lift somebody else's freeze, with a reason (`POST /freezes/{freeze}/lift`)."""
    return in_transaction(lambda: _lift(freeze_id, request, caller))


def _freeze(request: SetFreeze, caller: Caller) -> Result:
    writes = Writes(caller)
    refusal = _check_form(request)
    result = refusal or _set(request, lock_frozen(run=request.run, tool=request.tool), writes)
    if isinstance(result, Refusal):
        writes.refuse(result, "freeze", run=request.run, tool=request.tool)
    writes.send()
    return result


def _check_form(request: SetFreeze) -> Refusal | None:
    refusal = grants.check_readable(request.reason)
    if refusal is None and request.tool is not None and request.tool not in registry_at(current_registry()):
        # Whoever freezes a name that is spelt wrong has frozen nothing, and must be told at once.
        detail = f"No tool {request.tool} is registered: nothing was frozen."
        return Refusal(code=Code.UNKNOWN_TOOL, detail=detail, pointer="/scope/tool")
    return refusal


def _set(request: SetFreeze, facts: Facts, writes: Writes) -> Result:
    run = None if request.run is None else facts.runs.get(request.run)
    if request.run is not None and run is None:
        detail = f"There is no run {request.run}: nothing was frozen."
        return Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/scope/run")
    run_id = None if run is None else run.id
    earlier = _standing(request.tool, run_id, writes.caller)
    if earlier is not None:
        writes.count("duplicates")
        if earlier.reason != request.reason:
            detail = "Frozen again by the same person, with another reason: the first one stands."
            writes.side_log("freeze", "conflicting_duplicate", detail=detail, run=request.run, tool=request.tool)
        return Answer(status=OK, body={**freeze_body(earlier), "duplicate": True})
    ended = _void_grants(request, facts, writes)
    reached = stop(ended, facts, writes)
    writes.send()  # what stands is read from what is stored
    answer = {
        **_told(reached, _standing_commits(request.tool, run_id), _standing_undoings(request.tool, run_id)),
        "voided": sorted(str(facts.grants[grant_id]["name"]) for grant_id in ended),
    }
    owner = {"set_by_id": writes.caller.person_id, "by_id": writes.caller.credential_id, "reason": request.reason}
    freeze_id = writes.insert("freeze", tool=request.tool, run_id=run_id, set_at=facts.now, answer=answer, **owner)
    after = {"tool": request.tool, "run": request.run, "voided": answer["voided"], **_counted(answer)}
    writes.audit("set_freeze", "freeze", freeze_id, run=request.run, after=after, reason=request.reason)
    writes.send()
    return Answer(status=CREATED, body=_body(freeze_id))


def _standing(tool: str | None, run_id: str | None, caller: Caller) -> Freeze | None:
    scope: dict[str, Any] = {"tool": tool, "run_id": run_id}
    found = Freeze.objects.filter(set_by_id=caller.person_id, lifted_at__isnull=True, **scope)
    return _rows().filter(pk__in=found).first()


def _void_grants(request: SetFreeze, facts: Facts, writes: Writes) -> set[str]:
    """End the grants of the scope; give their ids."""
    ended = set()
    runs = {run.id: run.name for run in facts.runs.values()}
    for grant_id, row in facts.grants.items():
        run = runs[row["run_id"]]
        about = None if row["step_name"] is None else _tool_of(run, row, facts)
        if grants.is_voided_by_freeze(pure_grant(row), tool=request.tool, tool_of_step=about, now=facts.now):
            void_grant(row, facts, writes, run=run, reason=grants.FROZEN)
            ended.add(grant_id)
    return ended


def _tool_of(run: str, grant: dict[str, Any], facts: Facts) -> str | None:
    """The tool that a grant by step is about, as far as its step tells."""
    steps = facts.epochs_of(run, grant["step_name"])
    return next((fence.tool_of(step.pure()) for step in steps if step.epoch == grant["epoch"]), None)


Standing = tuple[str, str, int, str, bool, int]
StandingUndoing = tuple[str | None, str | None, str, bool, int]


def _standing_commits(tool: str | None, run_id: str | None) -> list[Standing]:
    """The commits of the scope that stand: whose effect waits, and whose effect may be out, the newest of each."""
    with connection.cursor() as cursor:
        cursor.execute(STANDING.replace("{may_be_out}", MAY_BE_OUT), {"tool": tool, "run": run_id, "most": MOST_LINES})
        return list(cursor.fetchall())


def _standing_undoings(tool: str | None, run_id: str | None) -> list[StandingUndoing]:
    """The undoings of the scope that wait to leave, and those that may be out, the newest of each."""
    with connection.cursor() as cursor:
        cursor.execute(UNDOINGS, {"tool": tool, "run": run_id, "most": MOST_LINES})
        return list(cursor.fetchall())


def _told(reached: Reached, standing: Iterable[Standing], undoings: Iterable[StandingUndoing]) -> dict[str, Any]:
    """Write what was stopped and what is out: the ends of grants, then each other step once, then undoings.

    `more` counts what is left out. The line of an undoing names no step, for several may have wanted its effect.
    """
    lists: dict[str, list[dict[str, Any]]] = {"stopped": [], "already_out": []}
    more = {"stopped": 0, "already_out": 0}
    for name, steps in (("stopped", reached.stopped), ("already_out", reached.already_out)):
        lists[name] = [{"run": step.run.name, **line_of(step)} for step in steps]
    seen = {(line["run"], line["step"], line["epoch"]) for lines in lists.values() for line in lines}
    for run, step, epoch, intent, is_out, total in standing:
        name = "already_out" if is_out else "stopped"
        more[name] = max(0, total - MOST_LINES)
        if (run, step, epoch) not in seen:
            lists[name].append({"run": run, "step": step, "epoch": epoch, "intent": intent})
    beyond = {"stopped": 0, "already_out": 0}
    for its_run, its_intent, undoing, is_out, total in undoings:
        name = "already_out" if is_out else "stopped"
        beyond[name] = max(0, total - MOST_LINES)
        line = {"run": its_run, "step": None, "epoch": None, "intent": its_intent, "compensation": undoing}
        lists[name].append(line)
    for name, lines in lists.items():
        more[name] += beyond[name] + max(0, len(lines) - MOST_LINES)
        del lines[MOST_LINES:]
    return {**lists, "more": more}


def _counted(answer: dict[str, Any]) -> dict[str, int]:
    return {name: len(answer[name]) + int(answer["more"][name]) for name in ("stopped", "already_out")}


def _rows() -> QuerySet[Freeze]:
    return Freeze.objects.select_related("run", "set_by", "lifted_by")


def _body(freeze_id: str) -> dict[str, Any]:
    return freeze_body(_rows().get(pk=freeze_id))


def _lift(freeze_id: str, request: DecideGrant, caller: Caller) -> Result:
    writes = Writes(caller)
    # The lock in a statement of its own: joined to it, the people would be those of before the wait.
    known = _uuid(freeze_id)
    locked = None if known is None else Freeze.objects.select_for_update().filter(pk=known).first()
    row = None if locked is None else _rows().get(pk=locked.pk)
    result: Result
    if row is None:
        result = Refusal(code=Code.NOT_FOUND, detail=f"There is no freeze {freeze_id}.")
    else:
        result = _lifted(row, request, writes)
    if isinstance(result, Refusal):
        scope = {} if row is None else {"run": row.run.name if row.run else None, "tool": row.tool}
        writes.refuse(result, "freeze", **scope)
    writes.send()
    return result


def _lifted(row: Freeze, request: DecideGrant, writes: Writes) -> Result:
    if row.lifted_at is not None and row.lifted_by_id == writes.caller.person_id:
        writes.count("duplicates")
        return Answer(status=OK, body={**freeze_body(row), "duplicate": True})
    by_setter = row.set_by_id == writes.caller.person_id
    refusal = check_lift(by_setter=by_setter, lifted=freeze_body(row)["lifted"])
    refusal = refusal or grants.check_readable(request.reason)
    if refusal is not None:
        return refusal
    freeze_id, run = str(row.id), row.run.name if row.run else None
    person: dict[str, Any] = {"lifted_by_id": writes.caller.person_id, "lift_reason": request.reason}
    writes.update("freeze", freeze_id, lifted_at=read_clock(), **person)
    before = {"scope": scope_in_words(row.tool, run)}
    writes.audit("lift_freeze", "freeze", freeze_id, run=run, before=before, reason=request.reason)
    # Whoever waits for something to deliver may find it now.
    tools = list(registry_at(current_registry())) if row.tool is None else [row.tool]
    writes.signal(*(f"gateway:{tool}" for tool in tools))
    writes.send()
    return Answer(status=OK, body=_body(freeze_id))


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
