"""The auditor of grades: reads what is published again, round and round, and halts a lane for what is wrong (A4, I4).

It believes nothing of a grade but which fragments it names: epochs, seqs and scores are read from the fragments, and
their digests are made anew from their bodies. A flaw that is on record halts its lane once; resumed, it runs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from django.db import connection, transaction

from fencing.models import Grade, GradeFinding, Lane
from fencing.models.facts import read_clock
from fencing.protocol import grades
from fencing.protocol.callers import Caller, Role
from fencing.services.lanes import halt_lane
from fencing.services.writes import Writes, in_transaction

AUDITOR: Final = Caller(credential_id=None, name="auditor", role=Role.SYSTEM)
# A new grade is read within a tick or two, and every one again at least this often.
ROUND: Final = timedelta(seconds=60)
# Of how many fragments a bite consists, and how many bites a tick takes at most: other sweeps wait behind it.
BITE: Final = 2000
BITES: Final = 10

# The lane that nobody has read for longest; one that has new grades comes first.
_NEXT: Final = """
SELECT * FROM fencing_lane WHERE audited_at IS NULL OR audited_at < %s
 ORDER BY audited_at NULLS FIRST, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""
_BITE: Final = """
SELECT id, place FROM (
  SELECT id, place, sum(cardinality(fragments)) OVER (ORDER BY place) AS through,
      row_number() OVER (ORDER BY place) AS n
    FROM (SELECT * FROM fencing_grade WHERE lane_id = %(lane)s AND place > %(after)s ORDER BY place LIMIT %(bite)s) near
) AS bitten WHERE through <= %(bite)s OR n = 1 ORDER BY place
"""
_READ: Final = """
SELECT grade.id, attempt.name, grade.epoch, attempt.expected, grade.mean, grade.digest, owner.name,
  fragment.epoch, fragment.seq, 'sha256:' || encode(sha256(fragment.body), 'hex'), fragment.score
FROM fencing_grade AS grade JOIN fencing_attempt AS attempt ON attempt.id = grade.attempt_id
LEFT JOIN LATERAL unnest(grade.fragments) WITH ORDINALITY AS named(id, place) ON true
LEFT JOIN LATERAL (SELECT * FROM fencing_fragment WHERE id = named.id LIMIT 1) AS fragment ON true
LEFT JOIN LATERAL (SELECT name FROM fencing_attempt WHERE id = fragment.attempt_id LIMIT 1) AS owner ON true
WHERE grade.id = ANY (%s) ORDER BY grade.place, grade.id, named.place
"""


def audit_due() -> int:
    """Read again what is due; give how many grades were read."""
    read = 0
    for _ in range(BITES):
        bitten = in_transaction(_bite)
        if bitten is None:
            break
        read += bitten
    return read


def audit_lane(name: str) -> int:
    """Read a lane's grades again from its first one on, now; give how many."""
    with transaction.atomic():
        Lane.objects.filter(name=name).update(audited=0, audited_at=None)
    return audit_due()


def _bite() -> int | None:
    """Read the next grades of the lane that is due, under its lock; None where none is."""
    now = read_clock()
    lane = next(iter(Lane.objects.raw(_NEXT, [now - ROUND])), None)
    if lane is None:
        return None
    after = 0 if lane.audited >= lane.published and lane.audited_at is not None else lane.audited
    places = dict(_rows(_BITE, {"lane": lane.id, "after": after, "bite": BITE}))
    writes = Writes(AUDITOR)
    for grade in _published(list(places)):
        flaw = grades.flaw_of(grade[1])
        if flaw is not None:
            _found(lane, grade[0], grade[1], flaw, writes, now)
    last = max(places.values(), default=lane.published)
    writes.update("lane", str(lane.id), audited=last, audited_at=now if last >= lane.published else None)
    writes.send()
    return len(places)


def _found(
    lane: Lane, grade_id: Any, grade: grades.Published, flaw: tuple[grades.Flaw, str], writes: Writes, now: datetime
) -> None:
    kind, told = flaw
    row = Grade.objects.select_related("attempt").get(pk=grade_id)
    if GradeFinding.objects.filter(attempt=row.attempt, flaw=kind.value).exists():
        return
    subject = {"lane_id": lane.id, "attempt_id": row.attempt_id, "grade_id": row.id}
    writes.insert("gradefinding", flaw=kind.value, detail=told, found_at=now, **subject)
    after = {"flaw": kind.value, "lane": lane.name}
    writes.audit("find_flawed_grade", "attempt", grade.attempt, after=after, reason=told)
    reason = f"the published grade of attempt {grade.attempt} is {kind.value}: {told}"
    halt_lane(lane, reason, attempt=grade.attempt, writes=writes, now=now)


def _published(ids: list[Any]) -> list[tuple[Any, grades.Published]]:
    """The grades as they stand now, each with the fragments that it names, None where one is gone."""
    found = []
    for grade_id, rows in groupby(_rows(_READ, [ids]), key=lambda row: row[0]):
        lines = list(rows)
        _, attempt, epoch, expected, mean, digest, *_ = lines[0]
        parts = tuple(
            None if owner is None else (owner, grades.Fragment(epoch=at, seq=seq, digest=body, score=score))
            for _, _, _, _, _, _, owner, at, seq, body, score in lines
        )
        facts = {"attempt": attempt, "epoch": epoch, "expected": expected, "mean": mean, "digest": digest}
        found.append((grade_id, grades.Published(fragments=parts, **facts)))
    return found


def _rows(statement: str, values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
