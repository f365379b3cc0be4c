"""What awaits a path's vote, and nothing that could sway it (F10)."""

from __future__ import annotations

from typing import Any

from django.db import connection

from fencing.models import Step, cold
from fencing.models.registry import registry_at
from fencing.protocol import strict_json
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Refusal
from fencing.protocol.objects import Object, rfc3339
from fencing.protocol.tools import Effect, Policy
from fencing.queries.pages import ALL_AT_ONCE, Page

# Undecided and not voted on by this path, which the tool asks as far as it is pinned; or agreed on digests alone,
# where the action is this path's to give: the trusted one's alone where the tool has advisory members (F5).
WANTED = """
  SELECT s.id, CASE WHEN s.phase = 'agreed' THEN 'action' ELSE 'vote' END
    FROM fencing_step s
    LEFT JOIN LATERAL (SELECT required_paths, trusted_path,
                              convert_from(definition, 'UTF8')::jsonb -> 'advisory' AS advisory
                         FROM fencing_toolversion v WHERE v.tool = s.pinned_tool AND v.id <= s.registry
                        ORDER BY v.id DESC LIMIT 1) t ON true
   WHERE s.phase IN ('proposed', 'agreed', 'fenced')
     AND %(path)s = ANY (coalesce(t.required_paths, %(paths)s))
     AND (s.phase <> 'agreed' OR t.trusted_path IS NULL OR t.trusted_path = %(path)s
          OR coalesce(t.advisory, '[]') = '[]')
     AND CASE WHEN s.phase = 'agreed'
           THEN EXISTS (SELECT FROM fencing_vote v
                         WHERE v.step_id = s.id AND v.path = %(path)s AND v.digest IS NOT NULL)
            AND NOT EXISTS (SELECT FROM fencing_vote v
                             WHERE v.step_id = s.id AND v.path = %(path)s AND v.payload_id IS NOT NULL)
           ELSE NOT EXISTS (SELECT FROM fencing_vote v WHERE v.step_id = s.id AND v.path = %(path)s) END
     AND (%(after)s::uuid IS NULL OR (s.proposed_at, s.id) > (%(at)s::timestamptz, %(after)s::uuid))
   ORDER BY s.proposed_at, s.id LIMIT %(limit)s
"""


def wanted(caller: Caller, page: Page = ALL_AT_ONCE, *, wait: bool = False) -> Result:
    """The steps that await this path's vote, or the action of a digest that it voted for; the oldest first."""
    if (refusal := page.fits(at="proposed_at")) is not None:
        return refusal
    with connection.cursor() as cursor:
        paths = list(Policy().required_paths)
        known = {"path": caller.path, "paths": paths, **_place(page), "limit": page.limit + 1}
        cursor.execute(WANTED, known)
        needs = dict(cursor.fetchall())
    found = list(Step.objects.filter(id__in=needs).select_related("run").order_by("proposed_at", "id"))
    steps, following = page.cut(found, at="proposed_at")
    items = [_item(step, needs[step.id]) for step in steps]
    pending = (f"wanted:{caller.path}",) if wait and not items else ()
    return Answer(status=OK, body={"items": items, "next": following}, pending=pending)


def _place(page: Page) -> dict[str, Any]:
    last = page.cursor
    return {"at": None, "after": None} if last is None else {"at": last.at, "after": last.id}


def _item(step: Step, need: str) -> Object:
    raw = cold.get(step.context_ref)
    context = None if raw is None else strict_json.parse(raw)
    return {
        "run": step.run.name,
        "step": step.name,
        "epoch": step.epoch,
        "need": need,
        "context": None if isinstance(context, Refusal) else context,
        "tools": _tools(step),
        "deadline_at": rfc3339(step.deadline_at),
    }


def _tools(step: Step) -> list[Any]:
    """The tools that a path may choose from, with their schemas: all that act, never the one that is pinned."""
    return [
        {"tool": definition.tool, "args_schema": definition.args_schema}
        for definition in registry_at(step.registry or 0).values()
        if definition.effect is Effect.SIDE_EFFECTING
    ]
