"""Fragments: taken in bulk under the locks of their attempts (A2), and handed out as work with leases."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection

from fencing.models import Attempt, AttemptInput, Fragment, Lane, Permit
from fencing.models.facts import read_clock
from fencing.models.grade_facts import SHARED, lock_attempts, pure_attempt, pure_fragment
from fencing.protocol import grades, strict_json
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.canonical import MAX_CANONICAL, NoCanonicalForm, canonical_bytes, digest_of
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.protocol.tokens import peek_jti
from fencing.services.lanes import check_scope, no_lane, topic_of, work_of
from fencing.services.requests import LeaseFragments, SendFragment
from fencing.services.writes import Writes, in_transaction

KIND: Final = "fragment"
LEASE: Final = "lease"
CONFLICT: Final = "conflicting_duplicate"
Place = tuple[Any, int, int]
"""An attempt's id, an epoch and a seq."""
ATTEMPTS_AT_ONCE: Final = 50
"""How many attempts one hand-out looks through at most: those that wait for longest."""


@dataclass(slots=True, kw_only=True)
class _Bulk:
    """What a bulk of fragments is judged by. A fragment that is accepted is known to the next item."""

    attempts: dict[str, Attempt]
    known: dict[Place, grades.Fragment]
    permits: dict[str, Permit]
    writes: Writes
    now: datetime


def send_fragments(requests: Sequence[SendFragment], caller: Caller) -> list[Result]:
    """Take fragments (`POST /fragments`), each judged alone: accepted, a duplicate, or rejected (A2)."""
    bodies = [_body_of(request) for request in requests]
    return in_transaction(lambda: _send(requests, bodies, caller))


def _body_of(request: SendFragment) -> bytes | Refusal:
    if request.body is None:
        return Refusal(code=Code.INVALID_VALUE, detail="`body` is missing.", pointer="/body")
    try:
        body = canonical_bytes(request.body)
    except NoCanonicalForm as fault:
        return Refusal(code=Code.INVALID_VALUE, detail=f"`body` has no canonical form: {fault}.", pointer="/body")
    if len(body) > MAX_CANONICAL:
        detail = f"The canonical body has {len(body)} bytes; at most {MAX_CANONICAL} are taken."
        return Refusal(code=Code.TOO_LARGE, detail=detail, pointer="/body")
    return body


def _send(requests: Sequence[SendFragment], bodies: Sequence[bytes | Refusal], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    attempts = lock_attempts({request.attempt for request in requests}, strength=SHARED)
    bulk = _Bulk(
        attempts=attempts,
        known=_known(requests, attempts),
        permits=find_permits([request.permit for request in requests]),
        writes=writes,
        now=read_clock(),
    )
    results = [_taken(request, body, bulk) for request, body in zip(requests, bodies, strict=True)]
    writes.send()
    return results


def _known(requests: Sequence[SendFragment], attempts: dict[str, Attempt]) -> dict[Place, grades.Fragment]:
    """The fragments that are there already, of all that are asked about, in one statement."""
    wanted = [(attempts[each.attempt].id, each.epoch, each.seq) for each in requests if each.attempt in attempts]
    columns = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
    found = Fragment.objects.raw(
        "SELECT f.id, f.attempt_id, f.epoch, f.seq, f.digest, f.score"
        " FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS w(attempt_id, epoch, seq)"
        " JOIN fencing_fragment f ON f.attempt_id = w.attempt_id AND f.epoch = w.epoch AND f.seq = w.seq",
        columns,
    )
    return {(row.attempt_id, row.epoch, row.seq): pure_fragment(row) for row in found}


def find_permits(tokens: Sequence[str | None]) -> dict[str, Permit]:
    """The permits that tokens name, by token; whether they are theirs byte for byte is for the core to say."""
    named = {token: jti for token in tokens if token is not None and (jti := _id_in(token)) is not None}
    rows = Permit.objects.select_related("attempt").in_bulk(set(named.values())) if named else {}
    return {token: rows[jti] for token, jti in named.items() if jti in rows}


def _id_in(token: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(peek_jti(token) or "")
    except ValueError:
        return None


def pure_permit(row: Permit | None) -> grades.Permit | None:
    """A permit as the pure core knows it."""
    if row is None:
        return None
    return grades.Permit(attempt=row.attempt.name, epoch=row.epoch, seq=row.seq, token=row.token)


def _taken(request: SendFragment, body: bytes | Refusal, bulk: _Bulk) -> Result:
    attempt = bulk.attempts.get(request.attempt)
    lane = None if attempt is None else attempt.lane.name
    subject = {"attempt": request.attempt, "lane": lane, "epoch": request.epoch, "seq": request.seq}
    if isinstance(body, Refusal):
        return bulk.writes.refuse(body, "request", **subject)
    if lane is not None and (refusal := check_scope(lane, bulk.writes.caller)) is not None:
        return bulk.writes.refuse(refusal, "request", **subject)
    offered = grades.Fragment(epoch=request.epoch, seq=request.seq, digest=digest_of(body), score=request.score)
    place = (None if attempt is None else attempt.id, request.epoch, request.seq)
    permit = bulk.permits.get(request.permit or "")
    verdict = grades.judge_fragment(
        None if attempt is None else pure_attempt(attempt),
        offered,
        bulk.known.get(place),
        token=request.permit,
        permit=pure_permit(permit),
    )
    if isinstance(verdict, Refusal):
        if attempt is not None:
            bulk.writes.signal(topic_of(attempt.lane.name))
        return bulk.writes.refuse(verdict, KIND, digest=offered.digest, **subject)
    if isinstance(verdict, grades.Duplicate):
        return _again(verdict, offered, subject, bulk)
    assert attempt is not None  # noqa: S101 - what has no attempt was refused
    bulk.known[place] = offered
    bulk.writes.insert(
        "fragment",
        attempt_id=attempt.id,
        epoch=request.epoch,
        seq=request.seq,
        body=body,
        digest=offered.digest,
        score=request.score,
        permit_id=None if permit is None else permit.id,
        by_id=bulk.writes.caller.credential_id,
        received_at=bulk.now,
    )
    return Answer(status=CREATED, body={"result": "accept"})


def _again(verdict: grades.Duplicate, offered: grades.Fragment, subject: dict[str, Any], bulk: _Bulk) -> Answer:
    bulk.writes.count("duplicates")
    if not verdict.conflict:
        return Answer(status=OK, body={"result": "duplicate", "duplicate": True})
    detail = "The fragment is there already, with another body or score: the first one stays."
    bulk.writes.side_log(KIND, CONFLICT, detail=detail, digest=offered.digest, **subject)
    return Answer(status=OK, body={"result": "duplicate", "duplicate": True, "conflict": True})


# ---- work ----


def lease_fragments(request: LeaseFragments, caller: Caller) -> Result:
    """Hand out fragments that nobody has and nobody is working on (`POST /fragments/lease`).

    A lease that ran out is handed out again, in the same epoch; a restart takes back what is out.
    """
    return in_transaction(lambda: _lease(request, caller))


def _lease(request: LeaseFragments, caller: Caller) -> Result:
    writes = Writes(caller)
    lane = Lane.objects.filter(name=request.lane).first()
    refusal = no_lane(request.lane) if lane is None else check_scope(request.lane, caller)
    if refusal is not None or lane is None:
        result: Result = writes.refuse(refusal or no_lane(request.lane), LEASE, lane=request.lane)
        writes.send()
        return result
    items = _handed_out(lane, request.limit, writes)
    writes.send()
    pending = (work_of(lane.name),) if not items and request.wait else ()
    return Answer(status=OK, body={"items": items}, pending=pending, wait_s=request.wait)


# Attempts with something to hand out, those that wait for longest first. One that another worker is being served from,
# or that is just restarted or published, is passed over.
_WITH_WORK: Final = """
SELECT * FROM fencing_attempt WHERE lane_id = %s AND work_at <= %s AND state = 'open'
 ORDER BY work_at, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
_MISSING: Final = """
SELECT seq, lease_until FROM generate_series(0, %(expected)s - 1) AS seq
 LEFT JOIN LATERAL (SELECT max(lease_until) AS lease_until FROM fencing_fragmentlease
   WHERE attempt_id = %(attempt)s AND epoch = %(epoch)s AND seq = seq.seq) AS out ON true
 WHERE NOT EXISTS (SELECT FROM fencing_fragment
   WHERE attempt_id = %(attempt)s AND epoch = %(epoch)s AND seq = seq.seq)
 ORDER BY seq
"""


def _handed_out(lane: Lane, limit: int, writes: Writes) -> list[dict[str, Any]]:
    now = read_clock()
    until = now + timedelta(seconds=settings.FENCE_FRAGMENT_LEASE_S)
    items: list[dict[str, Any]] = []
    for attempt in list(Attempt.objects.raw(_WITH_WORK, [lane.id, now, ATTEMPTS_AT_ONCE])):
        if len(items) == limit:
            break
        missing = _missing(attempt)
        free = [seq for seq, leased in missing if leased is None or leased <= now]
        taken = free[: limit - len(items)]
        for seq in taken:
            columns = {"epoch": attempt.epoch, "seq": seq, "leased_at": now, "lease_until": until}
            writes.insert("fragmentlease", attempt_id=attempt.id, by_id=writes.caller.credential_id, **columns)
        if len(taken) == len(free):
            ends = [leased for _, leased in missing if leased is not None and leased > now]
            work_at = min([*ends, *([until] if taken else [])], default=None)
            writes.update("attempt", str(attempt.id), work_at=work_at)
        inputs = _inputs(attempt, taken)
        items += [
            {
                "attempt": attempt.name,
                "epoch": attempt.epoch,
                "seq": seq,
                "input": inputs.get(seq),
                "lease_until": rfc3339(until),
            }
            for seq in taken
        ]
    return items


def _missing(attempt: Attempt) -> list[tuple[int, datetime | None]]:
    with connection.cursor() as cursor:
        names = {"attempt": attempt.id, "epoch": attempt.epoch, "expected": attempt.expected}
        cursor.execute(_MISSING, names)
        return list(cursor.fetchall())


def _inputs(attempt: Attempt, seqs: Sequence[int]) -> dict[int, Any]:
    if not attempt.has_inputs or not seqs:
        return {}
    found = AttemptInput.objects.filter(attempt=attempt, seq__in=seqs)
    return {row.seq: strict_json.parse(bytes(row.value)) for row in found}
