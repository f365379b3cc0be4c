"""What a transaction writes: collected while it decides, sent set-based at its end, one statement a table.

Rows go in the order of STAGES, which is the order in which the triggers expect them: facts before what rests on them,
a commit before its step says so, a delivery before its intent is in flight. A service collects, writes once, commits.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, connection, transaction
from psycopg import errors as pg

from fencing.models.fields import uuid7
from fencing.protocol.actions import Action
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Refusal
from fencing.services import signals, tallies, wakeups

log = structlog.get_logger(__name__)
T = TypeVar("T")

ATTEMPTS = 5
# A trigger that refuses means that the clock or a fact moved between the decision and the row (SQLSTATE 23000): a grant
# that ended in that millisecond, say. The facts are read again; a fault of our own comes back, and is raised.
GUARDS = (pg.IntegrityConstraintViolation,)

# (verb, table): what is sent, in this order.
STAGES: tuple[tuple[str, str], ...] = (
    ("insert", "action"),
    ("insert", "run"),
    ("insert", "epochopening"),
    ("insert", "fork"),
    ("insert", "branch"),
    ("insert", "step"),
    ("insert", "vote"),
    ("insert", "grant"),
    ("insert", "grantapproval"),
    ("insert", "grantreview"),
    ("insert", "outcome"),
    ("settle", "intent"),
    ("lose", "claim"),
    ("update", "grant"),
    ("insert", "intent"),
    ("insert", "claim"),
    ("insert", "commit"),
    ("insert", "grantuse"),
    ("insert", "delivery"),
    ("update", "run"),
    ("update", "fork"),
    ("update", "branch"),
    ("update", "commit"),
    ("update", "claim"),
    ("update", "step"),
    ("update", "intent"),
    ("insert", "ledger"),
    ("update", "ledger"),
    ("insert", "observedeffect"),
    ("update", "observedeffect"),
    ("update", "incident"),
    ("insert", "incident"),
    ("insert", "compensation"),
    ("insert", "compensationapproval"),
    ("insert", "compensationrelease"),
    ("insert", "compensationdelivery"),
    ("insert", "compensationoutcome"),
    ("update", "compensation"),
    ("insert", "verdict"),
    ("insert", "grantrefusal"),
    ("insert", "freeze"),
    ("update", "freeze"),
    ("insert", "lane"),
    ("insert", "lanethresholds"),
    ("insert", "attempt"),
    ("insert", "attemptinput"),
    ("insert", "attemptepoch"),
    ("insert", "permit"),
    ("insert", "fragment"),
    ("insert", "fragmentlease"),
    ("insert", "spend"),
    ("insert", "grade"),
    ("insert", "gradefinding"),
    ("insert", "laneevent"),
    ("update", "attempt"),
    ("update", "lane"),
    ("insert", "gatereading"),
    ("insert", "breaker"),
    ("update", "breaker"),
    ("insert", "sidelogrow"),
    ("insert", "auditevent"),
    ("insert", "feedevent"),
)
TABLES = frozenset(table for _, table in STAGES)
# What may be there already and is then as good: an action's bytes, and that a grant was refused a use on a step.
KEPT_ONCE = frozenset({"action", "grantrefusal"})


class LostRace(Exception):
    """Somebody else wrote what this transaction was about to write: it starts again from the facts."""


class Writes:
    """Rows to insert and to change, the topics to signal and the jobs to wake once they are committed."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self._rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._changes: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        self._actions: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._topics: set[str] = set()
        self._queues: set[str] = set()

    def insert(self, table: str, **columns: object) -> str:
        """Note a new row; give its id, made here unless it is named or the database numbers the table."""
        if table not in {"action", "auditevent", "feedevent"}:
            columns = {"id": str(uuid7()), **columns}
        self._rows.setdefault(("insert", table), []).append(_plain(columns))
        return str(columns.get("id", ""))

    def update(self, table: str, row_id: str, *, verb: str = "update", **columns: object) -> None:
        """Note a change of a row that is under lock. Changes of one row in one transaction add up."""
        changes = self._changes.setdefault((verb, table), {})
        changes.setdefault(row_id, {"id": row_id}).update(_plain(columns))

    def action(self, action: Action) -> None:
        """Note an action's canonical bytes (C7)."""
        if action.payload_digest not in self._actions:
            self._actions.add(action.payload_digest)
            self.insert("action", payload_digest=action.payload_digest, tool=action.tool, canonical=action.canonical)

    def count(self, name: str) -> None:
        """Note one more of what leaves no row of its own."""
        self._counts[name] += 1

    def audit(
        self,
        verb: str,
        kind: str,
        subject: str,
        *,
        run: str | None = None,
        before: object = None,
        after: object = None,
        reason: str = "",
    ) -> None:
        """Note what the transaction does, in whose name (U1). Never a token, a key or a payload."""
        self.insert(
            "auditevent",
            actor=self.caller.actor,
            role=self.caller.role.value,
            verb=verb,
            kind=kind,
            subject=subject,
            run=run,
            before=before,
            after=after,
            reason=reason,
            source=self.caller.address,
            request=self.caller.request_id,
        )

    def refuse(self, refusal: Refusal, kind: str, **subject: object) -> Refusal:
        """Note the side-log row of a refusal, and give it back as the result (N7)."""
        self.side_log(kind, refusal.code.value, detail=refusal.detail, **subject)
        return refusal

    def side_log(self, kind: str, reason: str, *, detail: str = "", **subject: object) -> None:
        """Note an input that was refused or ignored (S1)."""
        row = {
            "run": None,
            "step": None,
            "epoch": None,
            "path": None,
            "tool": None,
            "digest": None,
            "resources": [],
            **subject,
        }
        by = {"by_id": self.caller.credential_id, "person_id": self.caller.person_id}
        self.insert("sidelogrow", kind=kind, reason=reason, detail=detail, **by, **row)

    def feed(self, what: str, *, run_id: str, step_id: str, owner_group: str) -> None:
        """Note a line of the planners' feed, and wake who waits for it."""
        self.insert("feedevent", what=what, run_id=run_id, step_id=step_id, owner_group=owner_group)
        self.signal(f"events:{owner_group}")

    def signal(self, *topics: str) -> None:
        """Wake the waiting reads of these topics once this is committed."""
        self._topics.update(topics)

    def wake(self, queue: str) -> None:
        """Wake a background job once this is committed."""
        self._queues.add(queue)

    def send(self) -> None:
        """Write everything, in the order of STAGES."""
        for verb, table in STAGES:
            rows = self._rows.pop((verb, table), None) or list(self._changes.pop((verb, table), {}).values())
            for columns, group in _by_columns(rows):
                if verb == "insert":
                    _insert(table, columns, group)
                else:
                    _update(table, columns, group)
        for name, by in sorted(self._counts.items()):
            tallies.count(name, by)
        self._counts.clear()
        topics, queues = frozenset(self._topics), frozenset(self._queues)
        if topics or queues:
            transaction.on_commit(lambda: _announce(topics, queues))


def in_transaction(work: Callable[[], T]) -> T:
    """Run a use case in one transaction, again from the facts when it lost a race (N5: it is repeatable)."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with transaction.atomic():
                return work()
        except (LostRace, DatabaseError) as fault:
            if attempt == ATTEMPTS or not _is_lost_race(fault):
                raise
            log.info("lost_race", attempt=attempt, fault=type(fault.__cause__ or fault).__name__)
    raise AssertionError


def _is_lost_race(fault: Exception) -> bool:
    return isinstance(fault, LostRace) or isinstance(
        fault.__cause__, (pg.UniqueViolation, pg.DeadlockDetected, pg.SerializationFailure, *GUARDS)
    )


def _insert(table: str, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
    names = ", ".join(f'"{column}"' for column in columns)
    keep_first = " ON CONFLICT DO NOTHING" if table in KEPT_ONCE else ""
    _execute(
        f"INSERT INTO fencing_{table} ({names}) SELECT {names} "  # noqa: S608 - names of our own, values as one parameter
        f"FROM jsonb_populate_recordset(NULL::fencing_{table}, %s::jsonb){keep_first}",
        rows,
        expected=None if keep_first else len(rows),
    )


def _update(table: str, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
    changes = ", ".join(f'"{column}" = fresh."{column}"' for column in columns if column != "id")
    _execute(
        f"UPDATE fencing_{table} AS old SET {changes} "  # noqa: S608 - names of our own, values as one parameter
        f"FROM jsonb_populate_recordset(NULL::fencing_{table}, %s::jsonb) AS fresh WHERE old.id = fresh.id",
        rows,
        expected=len(rows),
    )


def _execute(statement: str, rows: list[dict[str, Any]], *, expected: int | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, [json.dumps(rows)])
        if expected is not None and cursor.rowcount != expected:
            raise LostRace(statement)


def _announce(topics: Iterable[str], queues: Iterable[str]) -> None:
    for queue in queues:
        wakeups.wake(queue)
    if topics:
        signals.publish(topics)


def _by_columns(rows: list[dict[str, Any]]) -> list[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    return list(groups.items())


def _plain(columns: Mapping[str, object]) -> dict[str, Any]:
    return {name: _value(value) for name, value in columns.items()}


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | memoryview):
        return "\\x" + bytes(value).hex()
    return value
