"""What grades are decided by: attempts and lanes under lock, and their rows as values of the pure core.

The lock of an attempt has three strengths. Fragments, permits and spend share it (KEY SHARE); handing out work takes it
beside them, one at a time; a restart and a publication take it alone. A lane is locked after its attempt.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import connection

from fencing.models.attempts import Attempt, Fragment
from fencing.models.grades import Grade
from fencing.models.lanes import Lane, LaneEvent, LaneThresholds
from fencing.models.side_log import SideLogRow
from fencing.protocol import gate, grades
from fencing.protocol.objects import rfc3339

SHARED: Final = "KEY SHARE"
ALONE: Final = "UPDATE"
REJECTS: Final = sorted(code.value for code in grades.REJECTS)
MOST_SUPERSEDED: Final = 1000
Object = dict[str, Any]


def lock_attempts(names: Iterable[str], *, strength: str) -> dict[str, Attempt]:
    """Lock the attempts of these names, in the order of their ids; what is read is as of after the lock."""
    statement = f"SELECT * FROM fencing_attempt WHERE name = ANY (%s) ORDER BY id FOR {strength}"  # noqa: S608 - our own
    found = {row.name: row for row in Attempt.objects.raw(statement, [sorted(set(names))])}
    lanes = Lane.objects.in_bulk({row.lane_id for row in found.values()})
    for row in found.values():
        row.lane = lanes[row.lane_id]
    return found


def lock_attempt(name: str) -> Attempt | None:
    """Lock one attempt alone (restart, publication)."""
    return lock_attempts([name], strength=ALONE).get(name)


def lock_lane(name: str) -> Lane | None:
    """Lock one lane."""
    return Lane.objects.select_for_update(no_key=True).filter(name=name).first()


def pure_attempt(row: Attempt) -> grades.Attempt:
    """An attempt as the pure core knows it."""
    return grades.Attempt(
        attempt=row.name,
        expected=row.expected,
        epoch=row.epoch,
        state=grades.State(row.state),
        require_permits=row.require_permits,
    )


def pure_fragment(row: Fragment) -> grades.Fragment:
    """A fragment as the pure core knows it."""
    return grades.Fragment(epoch=row.epoch, seq=row.seq, digest=row.digest, score=row.score)


def pure_thresholds(stored: Mapping[str, Any]) -> gate.Thresholds:
    """Thresholds as they are stored."""
    return gate.Thresholds(**stored)


def number_of_events(lane: Lane) -> int:
    """How often a lane was halted or resumed."""
    return LaneEvent.objects.filter(lane=lane).count()


def lane_bodies(rows: Iterable[Lane]) -> list[Object]:
    """The objects of lanes, with what is asked of them now."""
    rows = list(rows)
    versions = {
        (each.lane_id, each.version): each.thresholds
        for each in LaneThresholds.objects.filter(lane__in=rows).order_by("version")
    }
    mixed = _counts_of_findings(rows)
    return [
        {
            "lane": row.name,
            "state": row.state,
            "halted": None if row.halted_at is None else {"reason": row.halt_reason, "at": rfc3339(row.halted_at)},
            "thresholds": versions[row.id, row.thresholds_version],
            "thresholds_version": row.thresholds_version,
            "published": row.published,
            "mixed": mixed.get(row.id, 0),
        }
        for row in rows
    ]


def _counts_of_findings(rows: list[Lane]) -> dict[Any, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT lane_id, count(DISTINCT attempt_id) FROM fencing_gradefinding WHERE lane_id = ANY (%s) GROUP BY 1",
            [[row.id for row in rows]],
        )
        return dict(cursor.fetchall())


def grade_body(row: Grade, attempt: str) -> Object:
    """A published grade."""
    return {
        "attempt": attempt,
        "epoch": row.epoch,
        "mean": row.mean,
        "digest": row.digest,
        "published_at": rfc3339(row.published_at),
    }


def attempt_body(row: Attempt) -> Object:
    """An attempt: how far it is, what misses, what restarts dropped, and its grade."""
    present = set(Fragment.objects.filter(attempt=row, epoch=row.epoch).values_list("seq", flat=True))
    dropped = Fragment.objects.filter(attempt=row, epoch__lt=row.epoch).order_by("-epoch", "seq")
    grade = Grade.objects.filter(attempt=row).first()
    return {
        "attempt": row.name,
        "lane": row.lane.name,
        "expected": row.expected,
        "epoch": row.epoch,
        "state": row.state,
        "received": len(present),
        "missing": grades.missing_of(pure_attempt(row), present),
        "superseded": [
            {"epoch": epoch, "seq": seq} for epoch, seq in dropped.values_list("epoch", "seq")[:MOST_SUPERSEDED]
        ],
        "rejects": SideLogRow.objects.filter(attempt=row.name, kind="fragment", reason__in=REJECTS).count(),
        "require_permits": row.require_permits,
        "regrade_of": None if row.regrade_of is None else row.regrade_of.name,
        "grade": None if grade is None else grade_body(grade, row.name),
    }


# What the gate is computed from, beside the grades themselves. Published attempts hold as many fragments as they
# expect, restarts noted how many they dropped: only open attempts are counted. Each statement takes many lanes.
_FIGURES: Final = """
SELECT lane.id, lane.name, lane.halt_reason, lane.published, lane.thresholds_version,
  (SELECT thresholds FROM fencing_lanethresholds
    WHERE lane_id = lane.id AND version = lane.thresholds_version)::text,
  (SELECT count(*) FROM fencing_attempt WHERE lane_id = lane.id AND state = 'open'),
  (SELECT coalesce(sum(expected), 0) FROM fencing_attempt WHERE lane_id = lane.id AND state = 'published')
    + (SELECT coalesce(sum(e.dropped), 0) FROM fencing_attemptepoch e JOIN fencing_attempt a ON a.id = e.attempt_id
        WHERE a.lane_id = lane.id)
    + (SELECT count(*) FROM fencing_attempt a JOIN fencing_fragment f ON f.attempt_id = a.id AND f.epoch = a.epoch
        WHERE a.lane_id = lane.id AND a.state = 'open'),
  (SELECT count(*) FROM fencing_sidelogrow
    WHERE lane = lane.name AND kind = 'fragment' AND reason = ANY (%(rejects)s)),
  (SELECT count(*) FROM fencing_sidelogrow row WHERE lane = lane.name AND kind = 'fragment'
    AND reason = ANY (%(rejects)s) AND NOT EXISTS (SELECT FROM fencing_acknowledgement WHERE row_id = row.id)),
  (SELECT count(DISTINCT attempt_id) FROM fencing_gradefinding WHERE lane_id = lane.id),
  (SELECT count(DISTINCT found.attempt_id) FROM fencing_gradefinding AS found
    WHERE found.lane_id = lane.id AND NOT EXISTS (SELECT FROM fencing_attempt AS again
      WHERE again.regrade_of_id = found.attempt_id AND again.state = 'published'))
FROM fencing_lane AS lane WHERE lane.name = ANY (%(names)s)
"""
_GRADES: Final = """
SELECT grade.lane_id, grade.id, attempt.name, grade.digest, grade.mean,
  EXISTS (SELECT FROM fencing_attempt AS again WHERE again.regrade_of_id = attempt.id AND again.state = 'published')
    AND EXISTS (SELECT FROM fencing_gradefinding WHERE grade_id = grade.id)
FROM unnest(%(ids)s::uuid[], %(upto)s::bigint[]) AS lane(id, upto)
JOIN fencing_grade AS grade ON grade.lane_id = lane.id AND grade.place <= lane.upto
JOIN fencing_attempt AS attempt ON attempt.id = grade.attempt_id
"""
_WAITING: Final = """
SELECT lane.id, a.name, ARRAY(
  SELECT s FROM generate_series(0, a.expected - 1) AS s
   WHERE NOT EXISTS (SELECT FROM fencing_fragment WHERE attempt_id = a.id AND epoch = a.epoch AND seq = s)
   ORDER BY s)
FROM unnest(%(ids)s::uuid[]) AS lane(id) CROSS JOIN LATERAL (
  SELECT * FROM fencing_attempt WHERE lane_id = lane.id AND state = 'open' ORDER BY id LIMIT %(most)s) AS a
"""


class LaneFacts:
    """A lane as the gate reads it: the pure core's value, its thresholds, and which grades they are."""

    def __init__(self, row: tuple[Any, ...], read: list[tuple[Any, ...]], waiting: list[tuple[Any, ...]]) -> None:
        (self.id, self.name, halted, published, self.version, thresholds, incomplete, accepted, rejects, seen) = row[
            :10
        ]
        self.thresholds = pure_thresholds(json.loads(thresholds))
        self.upto = int(published)
        self.excluded = [grade_id for _, grade_id, *_, is_replaced in read if is_replaced]
        self.lane = gate.Lane(
            halted_for=halted,
            published=self.upto,
            mixed=row[10],
            mixed_unreplaced=row[11],
            grades=[
                gate.Grade(attempt=name, digest=digest, mean=mean)
                for _, _, name, digest, mean, is_replaced in read
                if not is_replaced
            ],
            incomplete=incomplete,
            waiting=[gate.Open(attempt=name, missing=tuple(missing)) for _, name, missing in waiting],
            rejects=rejects,
            accepted=int(accepted),
            unacknowledged=seen,
        )

    def reading(self) -> gate.Reading:
        """What the gate says."""
        return gate.judge_gate(self.lane, self.thresholds)


def read_lanes(names: Iterable[str]) -> dict[str, LaneFacts]:
    """Read everything that the gates of lanes are computed from, in three statements."""
    rows = _rows(_FIGURES, names=list(names), rejects=REJECTS)
    ids = [row[0] for row in rows]
    read = _by_lane(_rows(_GRADES, ids=ids, upto=[row[3] for row in rows]))
    waiting = _by_lane(_rows(_WAITING, ids=ids, most=gate.MOST_NAMED))
    return {row[1]: LaneFacts(row, read[row[0]], waiting[row[0]]) for row in rows}


def read_lane(name: str) -> LaneFacts | None:
    """Read everything that the gate of a lane is computed from."""
    return read_lanes([name]).get(name)


def _by_lane(rows: list[tuple[Any, ...]]) -> defaultdict[Any, list[tuple[Any, ...]]]:
    found: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return found


def gate_body(facts: LaneFacts, reading: gate.Reading) -> Object:
    """What the gate answers with (A7)."""
    return {
        "lane": facts.name,
        "gate": reading.gate.value,
        "reasons": [{"code": each.code.value, "detail": each.detail} for each in reading.reasons],
        "figures": dict(reading.figures),
        "snapshot": reading.snapshot,
        "thresholds_version": facts.version,
    }


def _rows(statement: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
