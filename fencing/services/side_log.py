"""The side log's own writes: refusals of form, which no other service saw, and acknowledgements (section 13)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from django.db import connection, transaction

from fencing.models import SideLogRow, cold
from fencing.models.fields import uuid7
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.identifiers import IDENTIFIER_MAX
from fencing.services.allowances import Allowances, Size
from fencing.services.requests import MAX_NUMBER, AcknowledgeRows
from fencing.services.writes import Writes

REQUEST: Final = "request"
ACKNOWLEDGE: Final = "acknowledge"
HEAD_OF_BODY: Final = 4096
# Heads of bodies are kept for people who look for a fault in a client. Of a flood, the first ones tell all there is.
HEADS: Final = Size(most=200, per_s=1)
_HEADS_KEPT: Final = Allowances()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a refused input was about, as far as it could be read. Names are text: they may name what does not exist."""

    run: str | None = None
    step: str | None = None
    epoch: int | None = None
    path: str | None = None
    attempt: str | None = None
    seq: int | None = None
    lane: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBody:
    """What is kept of a refused body (S1): its hash and length always, its head where cold storage takes it."""

    sha256: str
    length: int
    head: bytes

    @classmethod
    def of(cls, raw: bytes) -> RefusedBody:
        """Make it from a body that is in memory."""
        return cls(sha256=hashlib.sha256(raw).hexdigest(), length=len(raw), head=raw[:HEAD_OF_BODY])


def subject_of(value: object) -> Subject:
    """Read the subject of a body: its members of these names, where they are there and of the right type."""
    if not isinstance(value, Mapping):
        return Subject()
    found: dict[str, str | int] = {}
    for field in fields(Subject):
        member = value.get(field.name)
        if field.name in ("epoch", "seq"):
            if isinstance(member, int) and not isinstance(member, bool) and abs(member) <= MAX_NUMBER:
                found[field.name] = member
        elif isinstance(member, str) and 0 < len(member) <= IDENTIFIER_MAX and is_storable(member):
            found[field.name] = member
    return Subject(**found)  # type: ignore[arg-type]


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold a text: no U+0000, no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def record_refusals(
    refusals: Sequence[tuple[Refusal, Subject, bytes | RefusedBody | None]], caller: Caller, *, kind: str = REQUEST
) -> None:
    """Put refusals that no service recorded into the side log, before they are answered (C3, N7, I5).

    Bodies go to cold storage first: losing one gives a row without a reference, never a lost row.
    """
    rows = [_row(refusal, subject, _kept(body, caller), caller, kind) for refusal, subject, body in refusals]
    with transaction.atomic():
        SideLogRow.objects.bulk_create(rows)


def acknowledge(request: AcknowledgeRows, caller: Caller) -> Result:
    """Note that a person has seen rows (S1). Rows that somebody acknowledged before keep that."""
    wanted = {text: _uuid(text) for text in request.ids}
    with transaction.atomic():
        ids = [row_id for row_id in wanted.values() if row_id is not None]
        known = set(SideLogRow.objects.filter(pk__in=ids).values_list("pk", flat=True))
        for index, text in enumerate(request.ids):
            if wanted[text] not in known:
                detail = f"There is no side-log row {text}; nothing was acknowledged."
                refusal = Refusal(code=Code.NOT_FOUND, detail=detail, pointer=f"/ids/{index}")
                record_refusals([(refusal, Subject(), None)], caller, kind=ACKNOWLEDGE)
                return refusal
        fresh = _acknowledge(known, request.reason, caller)
    body = {"acknowledged": sorted(str(row_id) for row_id in known), "new": [str(row_id) for row_id in fresh]}
    return Answer(status=OK, body=body if fresh else {**body, "duplicate": True})


def _acknowledge(ids: Iterable[uuid.UUID], reason: str, caller: Caller) -> list[uuid.UUID]:
    """Write what nobody wrote before, and tell which that is. Two people at once: each row keeps the first one."""
    assert caller.person_id is not None  # noqa: S101 - only roles that are bound to a person come here (H1)
    rows = [(uuid7(), row_id) for row_id in sorted(ids)]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fencing_acknowledgement (id, row_id, person_id, reason)"
            " SELECT id, row_id, %s, %s FROM unnest(%s::uuid[], %s::uuid[]) AS fresh(id, row_id)"
            " ON CONFLICT (row_id) DO NOTHING RETURNING row_id",
            [caller.person_id, reason, [str(row) for row, _ in rows], [str(row_id) for _, row_id in rows]],
        )
        fresh = sorted(row_id for (row_id,) in cursor.fetchall())
    if fresh:
        writes = Writes(caller)
        writes.audit(
            ACKNOWLEDGE, "side_log", str(fresh[0]), after={"ids": [str(each) for each in fresh]}, reason=reason
        )
        writes.send()
    return fresh


def _row(
    refusal: Refusal, subject: Subject, body: tuple[RefusedBody | None, str | None], caller: Caller, kind: str
) -> SideLogRow:
    kept, ref = body
    return SideLogRow(
        kind=kind,
        reason=refusal.code.value,
        detail=_text(refusal.detail),
        body_sha256=kept.sha256 if kept else None,
        body_length=kept.length if kept else None,
        body_ref=ref,
        by_id=caller.credential_id,
        person_id=caller.person_id,
        **_said_by(subject, caller),
    )


def _said_by(subject: Subject, caller: Caller) -> dict[str, object]:
    """The members of a subject. Which path spoke is told by its key, never by its body (N8)."""
    told = {field.name: getattr(subject, field.name) for field in fields(Subject)}
    return told if caller.path is None else {**told, "path": caller.path}


def _kept(body: bytes | RefusedBody | None, caller: Caller) -> tuple[RefusedBody | None, str | None]:
    """What is kept of a body: hash and length always, its head while the caller has not used up its share of them."""
    kept = RefusedBody.of(body) if isinstance(body, bytes) else body
    if kept is None or not kept.head or _HEADS_KEPT.take(caller.credential_id, HEADS) > 0:
        return kept, None
    return kept, cold.put(kept.head)


def _text(detail: str) -> str:
    """A sentence may quote what was refused."""
    return detail.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
