"""Permits for model calls, and what the calls used (A6). Signed by the web process with a key of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.db import connection

from fencing.models import Attempt, Permit, Spend
from fencing.models.facts import read_clock
from fencing.models.fields import uuid7
from fencing.models.grade_facts import SHARED, lock_attempts, pure_attempt
from fencing.protocol import grades
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.permits import PermitClaims, mint_permit
from fencing.services.fragments import Place, find_permits
from fencing.services.lanes import check_scope
from fencing.services.requests import AskPermit, ReportSpend
from fencing.services.signing import PERMIT, signing_key
from fencing.services.writes import Writes, in_transaction

KIND: Final = "permit"
SPEND: Final = "spend"
MILLION: Final = Decimal(1_000_000)


_LATEST: Final = """
SELECT w.attempt_id, w.epoch, w.seq, last.token, last.number, EXISTS (
    SELECT FROM fencing_spend WHERE permit_id = last.id)
FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS w(attempt_id, epoch, seq)
CROSS JOIN LATERAL (SELECT * FROM fencing_permit AS p WHERE p.attempt_id = w.attempt_id AND p.epoch = w.epoch
    AND p.seq = w.seq AND p.by_id = %s ORDER BY p.number DESC LIMIT 1) AS last
"""
_CARRIED: Final = """
SELECT permit.id, EXISTS (SELECT FROM fencing_fragment AS f WHERE f.attempt_id = permit.attempt_id
    AND f.epoch = permit.epoch AND f.seq = permit.seq AND (f.permit_id IS NULL OR f.permit_id = permit.id))
FROM fencing_permit AS permit WHERE permit.id = ANY (%s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """A key's newest permit for a fragment."""

    token: str
    number: int
    is_used: bool


def ask_permits(requests: Sequence[AskPermit], caller: Caller) -> list[Result]:
    """Give permits (`POST /permits`). Asked again before its call was reported, it is the same permit."""
    return in_transaction(lambda: _ask(requests, caller))


def report_spend(requests: Sequence[ReportSpend], caller: Caller) -> list[Result]:
    """Note what model calls used (`POST /permits/spend`), and tell what it was spent on."""
    return in_transaction(lambda: _report(requests, caller))


def _ask(requests: Sequence[AskPermit], caller: Caller) -> list[Result]:
    writes = Writes(caller)
    attempts = lock_attempts({request.attempt for request in requests}, strength=SHARED)
    latest = _latest(requests, attempts, caller)
    results = [_answered(request, attempts.get(request.attempt), latest, writes) for request in requests]
    writes.send()
    return results


def _answered(request: AskPermit, attempt: Attempt | None, latest: dict[Place, Latest], writes: Writes) -> Result:
    subject = {"attempt": request.attempt, "epoch": request.epoch, "seq": request.seq}
    if attempt is None:
        unknown = Refusal(code=Code.UNKNOWN_ATTEMPT, detail="There is no such attempt.", pointer="/attempt")
        return writes.refuse(unknown, KIND, **subject)
    refusal = check_scope(attempt.lane.name, writes.caller) or _check_open(attempt, request)
    if refusal is not None:
        return writes.refuse(refusal, KIND, lane=attempt.lane.name, **subject)
    place = (attempt.id, request.epoch, request.seq)
    last = latest.get(place)
    if last is not None and not last.is_used:
        writes.count("duplicates")
        return Answer(status=OK, body={"permit": last.token, "duplicate": True})
    token = _given(attempt, request, 1 if last is None else last.number + 1, writes)
    latest[place] = Latest(token=token, number=1 if last is None else last.number + 1, is_used=False)
    return Answer(status=CREATED, body={"permit": token})


def _check_open(attempt: Attempt, request: AskPermit) -> Refusal | None:
    pure = pure_attempt(attempt)
    refusal = grades.check_place(pure, epoch=request.epoch, seq=request.seq)
    if refusal is None and pure.state is grades.State.PUBLISHED:
        return grades.already_published(pure)
    return refusal


def _latest(requests: Sequence[AskPermit], attempts: dict[str, Attempt], caller: Caller) -> dict[Place, Latest]:
    """The newest permit of this key for each fragment that is asked about, and whether its call was reported."""
    wanted = {(attempts[each.attempt].id, each.epoch, each.seq) for each in requests if each.attempt in attempts}
    columns = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, [*columns, caller.credential_id])
        return {
            (attempt, epoch, seq): Latest(token=token, number=number, is_used=used)
            for attempt, epoch, seq, token, number, used in cursor.fetchall()
        }


def _given(attempt: Attempt, request: AskPermit, number: int, writes: Writes) -> str:
    key, now, permit_id = signing_key(PERMIT), read_clock(), str(uuid7())
    claims = PermitClaims(
        jti=permit_id,
        iat=int(now.timestamp()),
        attempt=attempt.name,
        epoch=request.epoch,
        seq=request.seq,
        lane=attempt.lane.name,
    )
    token = mint_permit(claims, key)
    writes.insert(
        "permit",
        id=permit_id,
        attempt_id=attempt.id,
        epoch=request.epoch,
        seq=request.seq,
        number=number,
        token=token,
        kid=key.kid,
        by_id=writes.caller.credential_id,
        issued_at=now,
    )
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reports:
    """What reports of spend are judged by: their permits by token, which of them have a fragment, what is known."""

    permits: dict[str, Permit]
    attempts: dict[str, Attempt]
    fruitful: dict[Any, bool]
    known: dict[Any, Spend]
    writes: Writes


def _report(requests: Sequence[ReportSpend], caller: Caller) -> list[Result]:
    permits = find_permits([request.permit for request in requests])
    reports = _Reports(
        permits=permits,
        attempts=lock_attempts({row.attempt.name for row in permits.values()}, strength=SHARED),
        fruitful=_fruitful(permits.values()),
        known={row.permit_id: row for row in Spend.objects.filter(permit__in=list(permits.values()))},
        writes=Writes(caller),
    )
    results = [_reported(request, reports) for request in requests]
    reports.writes.send()
    return results


def _reported(request: ReportSpend, reports: _Reports) -> Result:
    writes, permit = reports.writes, reports.permits.get(request.permit)
    if permit is None or permit.token != request.permit:
        refusal = Refusal(code=Code.BAD_PERMIT, detail="This is no permit of this system.", pointer="/permit")
        return writes.refuse(refusal, SPEND)
    attempt = reports.attempts[permit.attempt.name]
    subject = {"attempt": attempt.name, "lane": attempt.lane.name, "epoch": permit.epoch, "seq": permit.seq}
    if (scope := check_scope(attempt.lane.name, writes.caller)) is not None:
        return writes.refuse(scope, SPEND, **subject)
    earlier = reports.known.get(permit.id)
    if earlier is not None:
        return _repeated(request, earlier, subject, writes)
    was_closed = permit.epoch != attempt.epoch
    spend = grades.classify_spend(was_closed=was_closed, has_fragment=reports.fruitful[permit.id])
    columns = _columns(request, permit, spend, writes.caller)
    writes.insert("spend", reported_at=read_clock(), **columns)
    reports.known[permit.id] = Spend(**columns)
    if was_closed:
        detail = f"Epoch {permit.epoch} was closed when this was reported: {request.tokens_in} tokens in, "
        writes.side_log(SPEND, "zombie_spend", detail=f"{detail}{request.tokens_out} out.", **subject)
    return Answer(status=CREATED, body={"spend": spend.value})


def _columns(request: ReportSpend, permit: Permit, spend: grades.Spend, caller: Caller) -> dict[str, Any]:
    cost, currency = price_of(request.model, request.tokens_in, request.tokens_out)
    return {
        "permit_id": permit.id,
        "attempt_id": permit.attempt_id,
        "epoch": permit.epoch,
        "seq": permit.seq,
        "model": request.model,
        "tokens_in": request.tokens_in,
        "tokens_out": request.tokens_out,
        "cost": None if cost is None else str(cost),
        "currency": currency,
        "is_zombie": spend is grades.Spend.ZOMBIE,
        "answered": spend.value,
        "by_id": caller.credential_id,
    }


def _repeated(request: ReportSpend, earlier: Spend, subject: dict[str, Any], writes: Writes) -> Result:
    told = (earlier.model, earlier.tokens_in, earlier.tokens_out)
    if told == (request.model, request.tokens_in, request.tokens_out):
        writes.count("duplicates")
        return Answer(status=OK, body={"spend": earlier.answered, "duplicate": True})
    detail = "For this permit another use was reported. A permit is for one call: ask for another one."
    return writes.refuse(Refusal(code=Code.SPEND_CONFLICT, detail=detail, pointer="/permit"), SPEND, **subject)


def _fruitful(permits: Iterable[Permit]) -> dict[Any, bool]:
    """Whether the fragment that each permit was for was accepted: with that permit, or with none."""
    with connection.cursor() as cursor:
        cursor.execute(_CARRIED, [[permit.id for permit in permits]])
        return dict(cursor.fetchall())


def price_of(model: str | None, tokens_in: int, tokens_out: int) -> tuple[Decimal | None, str | None]:
    """What a call costs by the operator's prices (per million tokens); None where the model has no price."""
    price = settings.FENCE_PRICES.get(model or "")
    if price is None:
        return None, None
    cost = (Decimal(tokens_in) * price.tokens_in + Decimal(tokens_out) * price.tokens_out) / MILLION
    return cost.quantize(Decimal("1e-9")), price.currency
