"""What is on record about rows of tools' ledgers (L8): the rows themselves, and deliveries that they may belong to.

Read for a whole batch at once: how many statements that takes does not depend on how many rows there are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import connection

from fencing.models import Action as ActionRow
from fencing.models import Incident, ObservedEffect
from fencing.models.intents import MAY_BE_OUT
from fencing.protocol import ledgers
from fencing.protocol.actions import Action, read_action
from fencing.protocol.errors import Refusal
from fencing.protocol.ledgers import Match, Matched, Seen, Wanted
from fencing.services.requests import ObserveEffect

# Deliveries by key, newest intent first; and by payload, oldest first, as many as rows ask for it. What may have
# happened is what did not end in another way.
_MAY_BE_OUT = MAY_BE_OUT.replace("delivery.id", "d.id")
_HAS_EFFECT = "EXISTS (SELECT FROM fencing_observedeffect e WHERE e.intent_id = d.intent_id AND e.match = 'intent')"
BY_KEY = f"""
SELECT asked.key, d.id, d.intent_id, d.run_id, a.tool, d.payload_id, d.may_be_out, {_HAS_EFFECT}
FROM unnest(%s::text[]) AS asked(key)
JOIN LATERAL (
    SELECT d.id, d.intent_id, d.run_id, d.payload_id, {_MAY_BE_OUT} AS may_be_out
    FROM fencing_delivery d WHERE d.idempotency_key = asked.key
    ORDER BY 5 DESC, d.number DESC LIMIT 1
) d ON true
JOIN fencing_action a ON a.payload_digest = d.payload_id
"""  # noqa: S608 - parts of our own
BY_PAYLOAD = f"""
SELECT asked.digest, d.id, d.intent_id, d.run_id, a.tool, d.payload_id, true, false
FROM unnest(%s::text[], %s::int[]) AS asked(digest, many)
JOIN fencing_action a ON a.payload_digest = asked.digest
JOIN LATERAL (
    SELECT d.id, d.intent_id, d.run_id, d.payload_id, d.admitted_at
    FROM fencing_delivery d
    WHERE d.payload_id = asked.digest AND {_MAY_BE_OUT} AND NOT {_HAS_EFFECT}
      -- One try of each intent is enough: the first that may have done it.
      AND NOT EXISTS (SELECT FROM fencing_delivery f
        WHERE f.intent_id = d.intent_id AND f.number < d.number AND {MAY_BE_OUT.replace("delivery.id", "f.id")})
    ORDER BY d.admitted_at LIMIT asked.many
) d ON true
ORDER BY d.admitted_at
"""  # noqa: S608 - parts of our own


# The same for deliveries of compensations (P5). A ledger row of one names no intent; which have one already is told by
# their keys, and of a payload by how many rows there are.
_UNDOING_OUT = """NOT EXISTS (SELECT FROM fencing_compensationoutcome o WHERE o.delivery_id = d.id AND o.is_effective
    AND o.outcome IN ('failed', 'busy', 'not_sent', 'not_happened')
    AND NOT EXISTS (SELECT FROM fencing_compensationoutcome p
      WHERE p.delivery_id = d.id AND p.is_effective AND p.outcome = 'succeeded'))"""
UNDOING_BY_KEY = f"""
SELECT asked.key, d.id, d.compensation_id, d.run_id, a.tool, d.payload_id, d.may_be_out,
    EXISTS (SELECT FROM fencing_observedeffect e WHERE e.idempotency_key = asked.key AND e.match = 'compensation')
FROM unnest(%s::text[]) AS asked(key)
JOIN LATERAL (
    SELECT d.id, d.compensation_id, c.run_id, d.payload_id, {_UNDOING_OUT} AS may_be_out
    FROM fencing_compensationdelivery d JOIN fencing_compensation c ON c.id = d.compensation_id
    WHERE d.idempotency_key = asked.key ORDER BY 5 DESC, d.number DESC LIMIT 1
) d ON true
JOIN fencing_action a ON a.payload_digest = d.payload_id
"""  # noqa: S608 - parts of our own
UNDOING_BY_PAYLOAD = f"""
SELECT asked.digest, d.id, d.compensation_id, d.run_id, a.tool, d.payload_id, true, false
FROM unnest(%s::text[], %s::int[]) AS asked(digest, many)
JOIN fencing_action a ON a.payload_digest = asked.digest
JOIN LATERAL (
    SELECT d.id, d.compensation_id, c.run_id, d.payload_id, d.admitted_at
    FROM fencing_compensation c JOIN fencing_compensationdelivery d ON d.compensation_id = c.id
    WHERE c.payload_id = asked.digest AND d.payload_id = asked.digest AND {_UNDOING_OUT}
    ORDER BY d.admitted_at LIMIT asked.many
    OFFSET (SELECT count(*) FROM fencing_observedeffect e WHERE e.digest = asked.digest AND e.match = 'compensation')
) d ON true
ORDER BY d.admitted_at
"""  # noqa: S608 - parts of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A ledger row that could be read. `action` is None where the ledger tells a digest or a key alone."""

    request: ObserveEffect
    action: Action | None
    digest: str | None
    occurred_at: datetime | None

    @property
    def place(self) -> tuple[str, str]:
        """Its identity: the tool, and the tool's own id."""
        return (self.request.tool, self.request.external_id)

    @property
    def seen(self) -> Seen:
        """The row as the pure core knows it."""
        return Seen(tool=self.request.tool, digest=self.digest, key=self.request.idempotency_key)


@dataclass(slots=True)
class Found:
    """What is on record about the rows of one batch, and what the batch itself adds to it."""

    rows: dict[tuple[str, str], ObservedEffect]
    by_key: dict[str, Wanted]
    by_payload: dict[str, list[Wanted]]
    runs: dict[str, str | None]
    """Runs of the intents and compensations, by id."""

    def match_all(self, rows: Sequence[Row]) -> dict[tuple[str, str], Matched]:
        """Match the rows that are new, one after the other: two of them never take the same delivery."""
        matched: dict[tuple[str, str], Matched] = {}
        for row in rows:
            if row.place not in self.rows and row.place not in matched:
                matched[row.place] = self._match(row)
        return matched

    def _match(self, row: Row) -> Matched:
        key = row.request.idempotency_key
        of_payload = self.by_payload.get(row.digest or "", [])
        matched = ledgers.match(row.seen, of_key=self.by_key.get(key or ""), of_payload=of_payload)
        if matched.match in (Match.INTENT, Match.COMPENSATION) and matched.wanted is not None:
            self._take(matched.wanted)
        return matched

    def _take(self, taken: Wanted) -> None:
        def marked(each: Wanted) -> Wanted:
            return _with_effect(each) if whose(each) == whose(taken) else each

        for key, each in self.by_key.items():
            if whose(each) == whose(taken):
                self.by_key[key] = _with_effect(each)
        if taken.digest in self.by_payload:
            self.by_payload[taken.digest] = [marked(each) for each in self.by_payload[taken.digest]]


def look_up(rows: Sequence[Row]) -> Found:
    """Read what is on record about ledger rows: themselves, and the deliveries that they may belong to."""
    told = ObservedEffect.objects.filter(
        tool__in={row.request.tool for row in rows}, external_id__in={row.request.external_id for row in rows}
    )
    known = {(row.tool, row.external_id): row for row in told}
    # What was told before was matched then.
    fresh = [row for row in rows if row.place not in known]
    keys = sorted({row.request.idempotency_key for row in fresh if row.request.idempotency_key is not None})
    asked = Counter(row.digest for row in fresh if row.request.idempotency_key is None and row.digest is not None)
    by_key: dict[str, Wanted] = {}
    by_payload: dict[str, list[Wanted]] = {}
    runs: dict[str, str | None] = {}
    with connection.cursor() as cursor:
        if keys:
            cursor.execute(BY_KEY, [keys])
            for key, *told in cursor.fetchall():
                by_key[key] = _wanted(told, runs)
            cursor.execute(UNDOING_BY_KEY, [keys])
            for key, *told in cursor.fetchall():
                by_key[key] = _wanted(told, runs, is_undoing=True)
        if asked:
            cursor.execute(BY_PAYLOAD, [list(asked), list(asked.values())])
            for digest, *told in cursor.fetchall():
                by_payload.setdefault(digest, []).append(_wanted(told, runs))
            cursor.execute(UNDOING_BY_PAYLOAD, [list(asked), list(asked.values())])
            for digest, *told in cursor.fetchall():
                by_payload.setdefault(digest, []).append(_wanted(told, runs, is_undoing=True))
    return Found(rows=known, by_key=by_key, by_payload=by_payload, runs=runs)


def whose(wanted: Wanted) -> str | None:
    """The intent or the compensation that a delivery was for."""
    return wanted.intent or wanted.compensation


def _wanted(told: Sequence[Any], runs: dict[str, str | None], *, is_undoing: bool = False) -> Wanted:
    delivery, whose, run, tool, digest, may_be_out, has_effect = told
    runs[str(whose)] = None if run is None else str(run)
    return Wanted(
        tool=tool,
        digest=digest,
        delivery=str(delivery),
        intent=None if is_undoing else str(whose),
        compensation=str(whose) if is_undoing else None,
        may_be_out=may_be_out,
        has_effect=has_effect,
    )


def _with_effect(wanted: Wanted) -> Wanted:
    return replace(wanted, has_effect=True)


def stored_actions(digests: Iterable[str]) -> dict[str, Action]:
    """Read the actions that are stored under payload digests, by digest."""
    read = {
        row.payload_digest: read_action(json.loads(bytes(row.canonical)))
        for row in ActionRow.objects.filter(payload_digest__in=set(digests))
    }
    return {digest: action for digest, action in read.items() if not isinstance(action, Refusal)}


def incidents_of(effects: Iterable[ObservedEffect]) -> dict[str, str]:
    """Tell which incident was opened about which ledger row, by the row's id."""
    found = Incident.objects.filter(effect__in=list(effects)).order_by("-id").values_list("effect_id", "id")
    return {str(effect): str(incident) for effect, incident in found}  # of two, the first


def contradicted(intents: Iterable[str]) -> set[str]:
    """Tell about which intents people look already, because what is told of them contradicts itself."""
    open_ones = Incident.objects.filter(kind="outcome_conflict", state="open", intent_id__in=list(intents))
    return {str(intent) for intent in open_ones.values_list("intent_id", flat=True)}
