"""What a change of a tool would have changed in the last week: the facts, read in a bounded number of statements.

Work is bounded: at most `MOST` steps of the tool are played again, whose actions have `MOST_BYTES` together and take
`MOST_WORK` to check, and they are looked for among the newest `LOOKED_AT` steps of all tools. Where that is not the
whole week, the answer says so.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Q
from django.db.models.functions import Length

from fencing.models import Action, Grant, GrantApproval, GrantUse, Step, ToolVersion, Vote
from fencing.models.bodies import grant_as_pure
from fencing.models.facts import read_clock
from fencing.protocol.lookback import Beyond, Called, Fate, Issued, Past, Permit, Replayed, Said, Turn, beyond, replay
from fencing.protocol.matching import allowance
from fencing.protocol.objects import rfc3339
from fencing.protocol.tools import ToolDefinition, stored_tool

SPAN: Final = timedelta(days=7)
MOST: Final = 1_000
LOOKED_AT: Final = 50_000
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_WORK: Final = 400_000
# What ends a step whatever its tool says (R3, B4).
FROM_OUTSIDE: Final = ("superseded", "branch_lost")

STEPS: Final = """
SELECT newest.id FROM (
    SELECT id, pinned_tool FROM fencing_step WHERE id >= %(since)s AND proposed_at IS NOT NULL
    ORDER BY id DESC LIMIT %(looked_at)s) newest
 WHERE newest.pinned_tool = %(tool)s OR (newest.pinned_tool IS NULL AND EXISTS (
    SELECT FROM fencing_vote v WHERE v.step_id = newest.id AND v.tool = %(tool)s))
 ORDER BY newest.id DESC LIMIT %(most)s
"""
CALLS: Final = """
SELECT d.number, extract(epoch FROM told.at - d.admitted_at)::float8 FROM (
    SELECT id, intent_id, number, admitted_at FROM fencing_delivery WHERE id >= %(since)s
    ORDER BY id DESC LIMIT %(looked_at)s) d
  JOIN fencing_intent i ON i.id = d.intent_id AND i.tool = %(tool)s
  CROSS JOIN LATERAL (SELECT min(o.recorded_at) AS at FROM fencing_outcome o WHERE o.delivery_id = d.id) told
 ORDER BY d.id DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookback:
    """The figures of a week, from `since` to `until`. `is_cut`: there were more steps than were played again."""

    since: datetime
    until: datetime
    is_cut: bool
    replayed: Replayed
    beyond: Beyond

    def as_json(self) -> dict[str, Any]:
        """Write it so that a change can carry it to whoever approves it."""
        return {
            "since": rfc3339(self.since),
            "until": rfc3339(self.until),
            "is_cut": self.is_cut,
            "replayed": asdict(self.replayed),
            "beyond": asdict(self.beyond),
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Lookback:
        """Read what `as_json` wrote."""
        told = dict(value["replayed"])
        turns = tuple(
            Turn(
                before=Fate(**turn["before"]),
                after=Fate(**turn["after"]),
                count=turn["count"],
                samples=tuple((run, step, epoch) for run, step, epoch in turn["samples"]),
            )
            for turn in told.pop("turns")
        )
        return cls(
            since=datetime.fromisoformat(value["since"]),
            until=datetime.fromisoformat(value["until"]),
            is_cut=value["is_cut"],
            replayed=Replayed(**told, turns=turns),
            beyond=Beyond(**value["beyond"]),
        )


def read_lookback(older: ToolDefinition, newer: ToolDefinition) -> Lookback:
    """Say what `newer` would have changed in the last week, were it current instead of `older`."""
    until = read_clock()
    since = until - SPAN
    found, is_cut = _steps(older.tool, since)
    pasts = _pasts(found, older.tool)
    called = [Called(number=number, took_s=took_s) for number, took_s in _rows(CALLS, older.tool, since, MOST)]
    with allowance(MOST_WORK):
        replayed = replay(pasts, older, newer, until)
    return Lookback(
        since=since,
        until=until,
        is_cut=is_cut or replayed.steps < len(found),
        replayed=replayed,
        beyond=beyond(_issued(older.tool, since), called, older, newer),
    )


def first_id(at: datetime) -> uuid.UUID:
    """The least key that a row of a moment can have: keys begin with the time, in milliseconds."""
    return uuid.UUID(int=int(at.timestamp() * 1000) << 80)


def _rows(statement: str, tool: str, since: datetime, most: int) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            statement, {"tool": tool, "since": first_id(since), "looked_at": LOOKED_AT, "most": most}
        )  # fmt: skip
        return list(cursor.fetchall())


def _steps(tool: str, since: datetime) -> tuple[list[Step], bool]:
    ids = [row[0] for row in _rows(STEPS, tool, since, MOST + 1)]
    of_all = Step.objects.filter(pk__gte=first_id(since), proposed_at__isnull=False).order_by("-pk")
    is_cut = len(ids) > MOST or of_all[LOOKED_AT : LOOKED_AT + 1].exists()
    rows = Step.objects.filter(pk__in=ids[:MOST]).select_related("run").order_by("-pk")
    return list(rows), is_cut


def _pasts(steps: Sequence[Step], tool: str) -> list[Past]:
    votes = list(Vote.objects.filter(step__in=steps).order_by("received_at", "id"))
    steps, actions = _within_bytes(steps, votes)
    said: dict[Any, list[Said]] = defaultdict(list)
    for vote in votes:
        said[vote.step_id].append(
            Said(
                at=vote.received_at,
                path=vote.path,
                digest=vote.digest,
                action=actions.get(vote.payload_id or ""),
                tool=vote.tool,
                payload=vote.payload_id,
                fault=vote.fault,
            )
        )
    advisory, permits = _advisory(tool), _permits(steps, tool)
    return [
        Past(
            run=step.run.name,
            step=step.name,
            epoch=step.epoch,
            proposed_at=step.proposed_at or step.opened_at,
            own_deadline_s=step.deadline_s,
            advisory=advisory.at(step.registry or 0),
            pinned_digest=step.pinned_digest,
            pinned_action=actions.get(step.pinned_payload_id or ""),
            pinned_payload=step.pinned_payload_id,
            pinned_tool=step.pinned_tool,
            said=tuple(said[step.pk]),
            permits=tuple(permits.for_step(step)),
            ended_at=step.decided_at if step.reason in FROM_OUTSIDE else None,
        )
        for step in steps
    ]


def _within_bytes(steps: Sequence[Step], votes: Sequence[Vote]) -> tuple[list[Step], dict[str, Any]]:
    """Take the newest steps whose actions have `MOST_BYTES` together, and read those actions."""
    payloads: dict[Any, set[str]] = defaultdict(set)
    for vote in votes:
        payloads[vote.step_id] |= {vote.payload_id} - {None}
    for step in steps:
        payloads[step.pk] |= {step.pinned_payload_id} - {None}
    every = set().union(*payloads.values())
    sizes = dict(
        Action.objects.filter(payload_digest__in=every)
        .annotate(size=Length("canonical"))
        .values_list("payload_digest", "size")
    )
    wanted: set[str] = set()
    kept, total = [], 0
    for step in steps:
        fresh = payloads[step.pk] - wanted
        total += sum(sizes.get(each, 0) for each in fresh)
        if total > MOST_BYTES:
            break
        wanted |= fresh
        kept.append(step)
    rows = Action.objects.filter(payload_digest__in=wanted)
    return kept, {row.payload_digest: json.loads(bytes(row.canonical)) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Advisory:
    """What a tool left out of its digests, by version of the registry."""

    since: Sequence[int]
    pointers: Sequence[tuple[str, ...]]

    def at(self, registry: int) -> tuple[str, ...]:
        place = bisect_right(self.since, registry)
        return self.pointers[place - 1] if place else ()


def _advisory(tool: str) -> _Advisory:
    rows = list(ToolVersion.objects.filter(tool=tool).order_by("pk"))
    return _Advisory(
        since=[row.pk for row in rows], pointers=[stored_tool(bytes(row.definition)).advisory for row in rows]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Permits:
    """The grants of some runs, with when they were approved and which step used them when."""

    rows: Mapping[Any, Sequence[Grant]]
    approvals: Mapping[Any, Sequence[datetime]]
    uses: Mapping[Any, Sequence[tuple[Any, datetime]]]

    def for_step(self, step: Step) -> list[Permit]:
        return [
            Permit(
                grant=grant_as_pure(row, approvals=0),
                live_at=row.live_at,
                approved_at=tuple(self.approvals.get(row.pk, ())),
                used_at=tuple(at for by, at in self.uses.get(row.pk, ()) if by != step.pk),
            )
            for row in self.rows.get(step.run_id, ())
            if row.live_at is not None and row.step_name in (None, step.name)
        ]


def _permits(steps: Sequence[Step], tool: str) -> _Permits:
    scope = Q(tool=tool) | Q(tool__isnull=True)
    found = list(Grant.objects.filter(scope, run__in={step.run_id for step in steps}).order_by("issued_at"))
    rows: dict[Any, list[Grant]] = defaultdict(list)
    for row in found:
        rows[row.run_id].append(row)
    approvals: dict[Any, list[datetime]] = defaultdict(list)
    uses: dict[Any, list[tuple[Any, datetime]]] = defaultdict(list)
    if found:
        for approval in GrantApproval.objects.filter(grant__in=found):
            approvals[approval.grant_id].append(approval.approved_at)
        for grant, step, at in GrantUse.objects.filter(grant__in=found).values_list(
            "grant_id", "commit__step_id", "used_at"
        ):
            uses[grant].append((step, at))
    return _Permits(rows=rows, approvals=approvals, uses=uses)


def _issued(tool: str, since: datetime) -> list[Issued]:
    rows = (
        Grant.objects.filter(tool=tool, issued_at__gte=since)
        .annotate(seconds=Count("approvals"))
        .order_by("-issued_at")
        .values_list("ttl_s", "seconds")[:MOST]
    )
    return [Issued(ttl_s=ttl_s, seconds=seconds) for ttl_s, seconds in rows]
