"""Everything about one resource, over all runs: what was wanted, decided, sent, seen in ledgers, refused and undone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from fencing.models import Compensation, Incident, ObservedEffect, SideLogRow
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.pointers import parts_of
from fencing.queries.tries import Try, tries_of_undoings

MOST: Final = 200

LOOKED_AT: Final = 50_000

# The newest effects, and of them those whose action names the resource where its tool says so. What is looked at is
# bounded, and the page tells how far that went.
EVENTS: Final = """
WITH newest AS MATERIALIZED (
    SELECT id, tool, opened_at FROM fencing_intent ORDER BY opened_at DESC, id DESC LIMIT %(look)s),
asked AS (SELECT * FROM jsonb_to_recordset(%(asked)s::jsonb) AS a(tool text, path text[]))
SELECT k.committed_at, r.name, k.step_name, k.epoch, k.tool, k.authority, k.closed_reason, i.id, i.state, i.settled_at,
    (SELECT g.name FROM fencing_grant g WHERE g.id = k.grant_id)
FROM newest n JOIN asked ON asked.tool = n.tool
JOIN LATERAL (SELECT c.* FROM fencing_commit c WHERE c.intent_id = n.id) k ON true
JOIN LATERAL (SELECT convert_from(a.canonical, 'UTF8') AS text FROM fencing_action a
    WHERE a.payload_digest = k.payload_id) a ON position('\\u0000' IN a.text) = 0
JOIN fencing_run r ON r.id = k.run_id
JOIN fencing_intent i ON i.id = k.intent_id
WHERE a.text::json #>> (ARRAY['args'] || asked.path) = %(name)s
ORDER BY k.committed_at DESC, k.id DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorised:
    """A commit that is about the resource: who authorised it, and what became of the effect."""

    at: datetime
    run: str
    step: str
    epoch: int
    tool: str
    authority: str
    grant: str | None
    closed: str | None
    intent: uuid.UUID
    state: str
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What is on record about one resource, each list newest first and of bounded length.

    A compensation stands with the calls that were made for it.
    """

    name: str
    authorised: tuple[Authorised, ...]
    ledger: tuple[ObservedEffect, ...]
    incidents: tuple[Incident, ...]
    compensations: tuple[tuple[Compensation, tuple[Try, ...]], ...]
    refused: tuple[SideLogRow, ...]

    @property
    def is_known(self) -> bool:
        """Whether anything is on record."""
        return any((self.authorised, self.ledger, self.incidents, self.compensations, self.refused))


def read_resource(name: str) -> Resource:
    """Collect what touches a resource, by the text that tools' pointers name."""
    touching: dict[str, Any] = {"resources__contains": [name]}
    ledger = ObservedEffect.objects.filter(**touching).select_related("intent", "run").order_by("-observed_at")[:MOST]
    return Resource(
        name=name,
        authorised=tuple(_authorised(name)),
        ledger=tuple(ledger),
        incidents=tuple(Incident.objects.filter(**touching).select_related("owner").order_by("-opened_at")[:MOST]),
        compensations=_compensations(touching),
        refused=tuple(SideLogRow.objects.filter(**touching).order_by("-recorded_at")[:MOST]),
    )


def _compensations(touching: dict[str, Any]) -> tuple[tuple[Compensation, tuple[Try, ...]], ...]:
    rows = list(Compensation.objects.filter(**touching).select_related("run").order_by("-proposed_at")[:MOST])
    tries = tries_of_undoings([row.pk for row in rows])
    return tuple((row, tries.get(row.pk, ())) for row in rows)


def _authorised(name: str) -> Iterator[Authorised]:
    registry = registry_at(current_registry())
    asked = [
        {"tool": tool, "path": list(parts_of(pointer))}
        for tool, definition in registry.items()
        for pointer in definition.resources
    ]
    given: dict[str, str | int] = {"look": LOOKED_AT, "asked": json.dumps(asked), "name": name, "most": MOST}
    with connection.cursor() as cursor:
        cursor.execute(EVENTS, given)
        for at, run, step, epoch, tool, authority, closed, intent, state, settled_at, grant in cursor.fetchall():
            yield Authorised(
                at=at,
                run=run,
                step=step,
                epoch=epoch,
                tool=tool,
                authority=authority,
                grant=grant,
                closed=closed,
                intent=intent,
                state=state,
                settled_at=settled_at,
            )
