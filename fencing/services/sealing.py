"""The sealing job's use case (U2): chain what was written into the audit since the last seal, a batch at a time.

Numbers are handed out before commit (design 10), so a row with a smaller number may still come. Writers are asked for
nothing and wait for nobody: whoever writes the audit holds a lock on its table until it ends, and whoever was handed a
number held that lock then. So the sealer looks how far the numbers go, notes who holds the lock, and seals up to there
once all of those have ended. Those who came meanwhile have larger numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from django.db import IntegrityError, connection, transaction
from psycopg.types.range import TimestamptzRange

from fencing.models import Seal
from fencing.models.facts import read_clock
from fencing.models.seals import ENTRIES, FACETS, PAYLOADS, TABLE
from fencing.models.touched import DIGESTS, resources_of_payloads
from fencing.protocol import seal as protocol
from fencing.protocol.audit_faults import Kind
from fencing.protocol.objects import rfc3339
from fencing.services import heads
from fencing.services.signing import SEAL, signing_key

log = structlog.get_logger(__name__)

BATCH: Final = 4096
# How long one call waits for writers to end. A longer one is a transaction that somebody holds open: the next call
# looks again, and the rows that wait are counted and shown.
PATIENCE_S: Final = 1.0
POLL_S: Final = 0.02
LOCK: Final = 0x66656E63736561  # "fencsea"
CATCH_UP: Final = 1000
FIRST: Final = timedelta(minutes=1)
BULKY: Final = ("entries", "facets", "moments")

# A row beyond the sequence was never handed a number; sealed, it would hide all that are still to come.
HORIZON: Final = f"""
SELECT least((SELECT max(id) FROM {TABLE}), pg_sequence_last_value(pg_get_serial_sequence('{TABLE}', 'id')::regclass))
"""  # noqa: S608 - names of our own
# Locks that writing implies. A vacuum or an index that is built does not hold rows back.
WRITERS: Final = f"""
SELECT array_agg(DISTINCT virtualtransaction) FROM pg_locks
WHERE locktype = 'relation' AND relation = '{TABLE}'::regclass AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND pid IS DISTINCT FROM pg_backend_pid()
"""  # noqa: S608 - names of our own
NTH: Final = f"SELECT max(id) FROM (SELECT id FROM {TABLE} WHERE id > %s AND id <= %s ORDER BY id LIMIT %s) AS rows"  # noqa: S608


class HeadsAhead(Exception):
    """The heads outside the database tell of a seal that it does not have, or has otherwise: nothing is sealed."""

    def __init__(self, head: protocol.Seal, *, is_there: bool) -> None:
        self.kind = Kind.FORKED if is_there else Kind.CUT
        self.head = head
        found = "is another one in the database" if is_there else "is not in the database"
        super().__init__(f"Seal {head.number}, whose head stands outside the database, {found}: nothing is sealed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What one call did; `is_held`: rows wait for a transaction that is still open."""

    seals: int = 0
    rows: int = 0
    is_held: bool = False


def seal_audit(within_s: float = 2.0) -> Sealed:
    """Seal what can be sealed, for about so long. Several sealers at once are harmless: one does it.

    Raises:
        HeadsAhead: what stands outside the database contradicts it.
        OSError: the heads cannot be written. What was sealed stands; the next call adds them.
    """
    until, seals, rows = time.monotonic() + within_s, 0, 0
    _bring_heads(None)
    top, is_held = settled()
    while top is not None and time.monotonic() < until:
        done = _seal_next(top)
        if done is None:
            break
        seals, rows = seals + 1, rows + done.count
        _bring_heads(done.number)
    return Sealed(seals=seals, rows=rows, is_held=is_held)


def settled(patience_s: float | None = None) -> tuple[int | None, bool]:
    """Find the largest number below which every row is there that ever will be.

    None where nothing was written, or where whoever wrote has not ended in time; the second value tells that.
    """
    top, writers = _one(HORIZON), set(_one(WRITERS) or ())
    until = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
    while writers:
        if time.monotonic() > until:
            return None, True
        time.sleep(POLL_S)
        writers &= set(_one(WRITERS) or ())
    return top, False


def _seal_next(top: int) -> protocol.Seal | None:
    """Make the next seal over rows up to `top`; None where there are none, or another sealer is at it."""
    try:
        with transaction.atomic():
            if not _one("SELECT pg_try_advisory_xact_lock(%s)", [LOCK]):
                return None
            before = Seal.objects.defer(*BULKY).order_by("-number").first()
            after = 0 if before is None else before.last
            last = _one(NTH, [after, top, BATCH])
            return None if last is None else _make(before, after, last)
    except IntegrityError as fault:
        # The lock is advice; the chain is a constraint. Whoever came first has sealed these rows.
        log.warning("seal_refused", fault=str(fault))
        return None


def _make(before: Seal | None, after: int, last: int) -> protocol.Seal:
    entries = bytes(_one(ENTRIES, [after, last]))
    with connection.cursor() as cursor:
        cursor.execute(FACETS, [after, last])
        lines = cursor.fetchall()
        cursor.execute(PAYLOADS, [after, last, list(DIGESTS)])
        touched = resources_of_payloads(digest for (digest,) in cursor.fetchall() if digest)
    named = (zip(("actor", "role", "verb", "kind"), line[:4], strict=True) for line in lines)
    now, key = read_clock(), signing_key(SEAL)
    unsigned = protocol.Seal(
        number=1 if before is None else before.number + 1,
        previous=protocol.GENESIS if before is None else before.hash,
        after=after,
        last=last,
        count=len(entries) // protocol.ENTRY,
        root=protocol.root_of(entries),
        at=str(rfc3339(now)),
        kid=key.kid,
    )
    row = Seal(
        **{name: getattr(unsigned, name) for name in ("number", "previous", "after", "last", "count", "root", "kid")},
        hash=unsigned.hash,
        signature=protocol.sign(unsigned, key),
        sealed_at=now,
        entries=entries,
        facets=sorted(
            {f"{name}:{value}" for line in named for name, value in line}
            | {f"resource:{text}" for texts in touched.values() for text in texts}
        ),
        moments=TimestamptzRange(min(line[4] for line in lines), max(line[5] for line in lines), "[]"),
    )
    row.save(force_insert=True)
    return row.pure


def _bring_heads(begin: int | None) -> None:
    """Add the heads that the file does not have, those of a call that crashed too.

    `begin` is where an empty file begins, on a machine that never sealed before.

    Raises:
        HeadsAhead: the file knows more than the database, or other.
    """
    heads.append_heads(lambda newest: _missing(newest, begin))


def _missing(newest: protocol.Seal | None, begin: int | None) -> Iterator[protocol.Seal]:
    if newest is not None:
        stored = Seal.objects.filter(number=newest.number).values_list("hash", flat=True).first()
        if stored != newest.hash:
            raise HeadsAhead(newest, is_there=stored is not None)
        begin = newest.number + 1
    elif Seal.objects.filter(number=1, sealed_at__gt=read_clock() - FIRST).exists():
        # The very first seal was made just now, by somebody who crashed or has not come here yet. Older ones had a
        # file: somebody removed it, and that is for a verification to tell, not for this to hide.
        begin = 1
    while begin is not None:
        batch = [
            seal.pure for seal in Seal.objects.filter(number__gte=begin).order_by("number").defer(*BULKY)[:CATCH_UP]
        ]
        yield from batch
        begin = batch[-1].number + 1 if len(batch) == CATCH_UP else None


def _one(statement: str, values: list[Any] | None = None) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        ((found,),) = cursor.fetchall()
    return found
