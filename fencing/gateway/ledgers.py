"""Observed effects: rows of a tool's own ledger, matched with what was delivered, and what follows from them (L8).

A row belongs to an intent, or it is a landed escape, or something happened twice. The last two open an incident and
propose a compensation in the same transaction. An escape is written under the lock that keeps admissions waiting
(`facts.sql`): each delivery of its action came wholly before it, and was looked at, or finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from fencing.gateway.ledger_lookups import Found, Row, contradicted, incidents_of, look_up, stored_actions, whose
from fencing.models import Incident, ObservedEffect
from fencing.models.facts import lookup_of, read_clock, resources_touched
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import compensations
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.ledgers import Match, Matched, Wanted
from fencing.protocol.moments import read_moment
from fencing.protocol.policies import Policy
from fencing.protocol.strict_json import Json
from fencing.protocol.tools import ToolDefinition
from fencing.services.requests import ObserveEffect
from fencing.services.writes import Writes, in_transaction

# The lock that every admission shares, and a freeze holds alone (L10).
ADMISSIONS_WAIT = "SELECT pg_advisory_xact_lock(112641513454181)"


def observe_effects(
    requests: Sequence[ObserveEffect], caller: Caller, *, source: str = ObservedEffect.Source.PUSH.value
) -> list[Result]:
    """Match what a tool's ledger says with what was delivered (`POST /gateway/effects`)."""
    return in_transaction(lambda: _observe(requests, caller, source))


def _observe(requests: Sequence[ObserveEffect], caller: Caller, source: str) -> list[Result]:
    writes = Writes(caller)
    registry = current_registry()
    read = [_read(request, registry, writes) for request in requests]
    rows = [each for each in read if isinstance(each, Row)]
    found = look_up(rows)
    matched = found.match_all(rows)
    if any(each.match is Match.ESCAPE for each in matched.values()):
        with connection.cursor() as cursor:
            cursor.execute(ADMISSIONS_WAIT)
        found = look_up(rows)  # what was admitted while this waited is what it may belong to
        matched = found.match_all(rows)
    observer = _Observer(rows, found, matched, registry, writes, source)
    results: list[Result] = [observer.take(each) if isinstance(each, Row) else each for each in read]
    writes.send()
    return results


def _read(request: ObserveEffect, registry: int, writes: Writes) -> Row | Refusal:
    """Judge the form of a ledger row."""
    subject: dict[str, Any] = {"tool": request.tool, "digest": request.digest}
    scope = writes.caller.tools
    if scope is not None and request.tool not in scope:
        refusal = Refusal(code=Code.FORBIDDEN_ROLE, detail=f"This key is not for {request.tool}.")
        return writes.refuse(refusal, "effect", **subject)
    action: Action | Refusal | None = None
    if request.action is not None:
        action = read_action(request.action, lookup_of(registry), at="/action")
    refusal_ = action if isinstance(action, Refusal) else _unfit(request, action)
    occurred_at = _moment(request.occurred_at)
    if refusal_ is None and isinstance(occurred_at, Refusal):
        refusal_ = occurred_at
    if refusal_ is not None or isinstance(action, Refusal) or isinstance(occurred_at, Refusal):
        return writes.refuse(refusal_ or Refusal(code=Code.INVALID_VALUE, detail=""), "effect", **subject)
    digest = request.digest if action is None else action.payload_digest
    return Row(request=request, action=action, digest=digest, occurred_at=occurred_at)


def _unfit(request: ObserveEffect, action: Action | None) -> Refusal | None:
    if action is None and request.digest is None and request.idempotency_key is None:
        detail = "A ledger row tells its action, its payload's digest or our idempotency key: else nobody can match it."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/action")
    if action is not None and action.tool != request.tool:
        detail = f"The row is of the ledger of {request.tool}, its action is a call of {action.tool}."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/action/tool")
    if action is not None and request.digest not in (None, action.payload_digest):
        detail = "The digest is not that of the action."
        return Refusal(code=Code.DIGEST_MISMATCH, detail=detail, pointer="/digest")
    return None


def _moment(text: str | None) -> datetime | Refusal | None:
    if text is None:
        return None
    if (at := read_moment(text)) is not None:
        return at
    detail = "This must be a moment with its zone, as RFC 3339 writes it."
    return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/occurred_at")


class _Observer:
    """Takes the rows of one batch, one after the other."""

    def __init__(
        self,
        rows: Sequence[Row],
        found: Found,
        matched: Mapping[tuple[str, str], Matched],
        registry: int,
        writes: Writes,
        source: str,
    ) -> None:
        self.found, self.matched, self.registry, self.writes, self.source = found, matched, registry, writes, source
        self.now = read_clock()
        self.taken: dict[tuple[str, str], tuple[Row, dict[str, Any]]] = {}
        # Asked for all rows at once: a batch takes as many statements as one row does.
        self.incidents = incidents_of(found.rows.values())
        wanted = [each.wanted for each in matched.values() if each.wanted is not None]
        told = [row.digest for row in rows if row.action is None and row.digest is not None]
        self.actions = stored_actions({*told, *(each.digest for each in wanted)})
        doubtful = [each.wanted for each in matched.values() if each.contradicts and each.wanted is not None]
        self.contradicted = contradicted(each.intent for each in doubtful if each.intent is not None)

    def take(self, row: Row) -> Result:
        """Record one row, or find that it is on record."""
        before = self.found.rows.get(row.place)
        if before is not None:
            return self._again(row, self._body_of(before), digest=before.digest, key=before.idempotency_key)
        if row.place in self.taken:
            first, body = self.taken[row.place]
            return self._again(row, body, digest=first.digest, key=first.request.idempotency_key)
        body = self._record(row, self.matched[row.place])
        self.taken[row.place] = (row, body)
        return Answer(status=CREATED, body=body)

    def _again(self, row: Row, body: Mapping[str, object], *, digest: str | None, key: str | None) -> Result:
        """The same row once more (N2). A ledger may tell less of it than another one did, but nothing else."""
        told = ((row.digest, digest), (row.request.idempotency_key, key))
        if any(new is not None and old is not None and new != old for new, old in told):
            detail = f"The ledger row {row.request.external_id} of {row.request.tool} was told with other content."
            refusal = Refusal(code=Code.EFFECT_CONFLICT, detail=detail, pointer="/external_id")
            return self.writes.refuse(refusal, "effect", tool=row.request.tool, digest=row.digest)
        self.writes.count("duplicates")
        return Answer(status=OK, body={**body, "duplicate": True})

    def _record(self, row: Row, matched: Matched) -> dict[str, Any]:
        wanted = matched.wanted
        intent = None if wanted is None else wanted.intent
        run = None if wanted is None else self.found.runs[whose(wanted) or ""]
        if row.action is not None:
            self.writes.action(row.action)
        action = self._action_of(row, wanted)
        resources = resources_touched(action, self.registry)
        is_wrong = matched.match in (Match.ESCAPE, Match.DOUBLED)
        effect = self.writes.insert(
            "observedeffect",
            tool=row.request.tool,
            external_id=row.request.external_id,
            digest=row.digest or (None if wanted is None else wanted.digest),
            idempotency_key=row.request.idempotency_key,
            occurred_at=row.occurred_at,
            match=matched.match.value,
            run_id=run,
            intent_id=intent,
            delivery_id=None if wanted is None or intent is None else wanted.delivery,
            resources=resources,
            source=self.source,
            by_id=self.writes.caller.credential_id,
            person_id=self.writes.caller.person_id,
            observed_at=self.now,
            is_open=is_wrong,
        )
        after = {"tool": row.request.tool, "match": matched.match.value, "intent": intent}
        after["external_id"] = row.request.external_id
        self.writes.audit("observe_effect", "effect", effect, after=after)
        body: dict[str, Any] = {"effect": effect, "match": matched.match.value, "intent": intent, "incident": None}
        if is_wrong:
            ids = {"run_id": run, "intent_id": intent, "effect_id": effect}
            body["incident"] = self._alarm(row, matched, ids, action)
        elif matched.contradicts and intent is not None:
            body["incident"] = self._contradicted(intent, run, effect, resources)
        return body

    def _alarm(self, row: Row, matched: Matched, ids: dict[str, str | None], action: Action | None) -> str:
        """Open an incident about an effect that should not be there, and propose what would undo it (P1).

        `ids` are those of its run, intent and ledger row, as columns.
        """
        is_escape = matched.match is Match.ESCAPE
        kind = Incident.Kind.LANDED_ESCAPE.value if is_escape else Incident.Kind.DOUBLED.value
        note = (
            "The tool's ledger shows an effect that nothing was committed for."
            if is_escape
            else "The tool's ledger shows this effect a second time."
        )
        resources = resources_touched(action, self.registry)
        incident = self.writes.insert(
            "incident", kind=kind, state="open", opened_at=self.now, note=note, resources=resources, **ids
        )
        after = {"kind": kind, "effect": ids["effect_id"]}
        self.writes.audit("open_incident", "incident", incident, after=after)
        self._propose(row.request.tool, kind, {**ids, "incident_id": incident}, action)
        return incident

    def _propose(self, tool: str, cause: str, ids: dict[str, str | None], action: Action | None) -> None:
        definition = registry_at(self.registry).get(tool)
        called: Json = None if action is None else {"tool": action.tool, "args": action.args}
        undoing = compensations.undoing(definition, called, None, lookup_of(self.registry))
        if undoing is not None:
            self.writes.action(undoing)
        columns: dict[str, Any] = {
            **ids,
            "payload_id": None if undoing is None else undoing.payload_digest,
            "registry": self.registry,
            "needed": _needed(definition),
            "effect_at": self.now,
            "round": 1,
            "resources": resources_touched(action, self.registry),
        }
        compensation = self.writes.insert(
            "compensation", state="proposed", cause=cause, tool=tool, proposed_at=self.now, **columns
        )
        after = {"cause": cause, "effect": ids["effect_id"], "payload_digest": columns["payload_id"]}
        self.writes.audit("propose_compensation", "compensation", compensation, after=after)

    def _contradicted(self, intent: str, run: str | None, effect: str, resources: list[str]) -> str | None:
        """Page people: the ledger shows what is on record as not having happened."""
        if intent in self.contradicted:
            return None
        self.contradicted.add(intent)
        note = "The tool's ledger shows this effect, and what is on record says that it did not happen."
        columns = {"run_id": run, "intent_id": intent, "effect_id": effect, "note": note, "resources": resources}
        incident = self.writes.insert("incident", kind="outcome_conflict", state="open", opened_at=self.now, **columns)
        after = {"kind": "outcome_conflict", "intent": intent, "effect": effect}
        self.writes.audit("open_incident", "incident", incident, after=after)
        return incident

    def _action_of(self, row: Row, wanted: Wanted | None) -> Action | None:
        """The action of a ledger row: its own, else the one that is stored under its digest."""
        digest = row.digest or (None if wanted is None else wanted.digest)
        return row.action or (None if digest is None else self.actions.get(digest))

    def _body_of(self, effect: ObservedEffect) -> dict[str, Any]:
        return {
            "effect": str(effect.id),
            "match": effect.match,
            "intent": None if effect.intent_id is None else str(effect.intent_id),
            "incident": self.incidents.get(str(effect.id)),
        }


def _needed(definition: ToolDefinition | None) -> int:
    return (Policy() if definition is None else definition.policy).compensation_approvals
