"""Outage help: paths that are wanted and say nothing, and the steps that wait for them or timed out. Bounded reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.db.models import Exists, F, OuterRef, Q

from fencing.models import Grant, Intent, Step, Vote
from fencing.models.bodies import grant_as_pure
from fencing.models.facts import read_clock
from fencing.protocol import fence, grants, outages
from fencing.protocol.outages import GrantFor
from fencing.protocol.policies import Policy
from fencing.queries.grants import GrantLine, lines_of
from fencing.queries.preview_rows import Seen, seen_from
from fencing.queries.trails import StepRef

MOST_WAITING: Final = 2000
MOST_LINES: Final = 500
LATELY: Final = timedelta(hours=6)
OPEN: Final = ("proposed", "fenced")
TIMED_OUT: Final = ("timeout", "path_unavailable")
SAMPLE: Final = 2000
LOOKED_AT: Final = 30_000

# Who is asked and has not voted: undecided steps by their index, each with what its tool asks for (T1, F2). An
# abstention is no vote: a path that can only say that it cannot is as good as silent.
WAITING: Final = """
WITH waiting AS MATERIALIZED (
  SELECT s.id, s.run_id, s.registry, s.proposed_at, coalesce(s.pinned_tool, (SELECT v.tool FROM fencing_vote v
      WHERE v.step_id = s.id AND v.tool IS NOT NULL ORDER BY v.received_at, v.id LIMIT 1)) AS tool
    FROM fencing_step s
   WHERE s.phase IN ('proposed', 'fenced')
     AND s.proposed_at <= (SELECT clock_timestamp() - make_interval(secs => %(threshold)s))
   ORDER BY s.proposed_at LIMIT %(most)s)
SELECT asked.path, min(w.proposed_at), count(*), count(DISTINCT w.run_id), (SELECT count(*) FROM waiting) >= %(most)s
  FROM waiting w
  LEFT JOIN LATERAL (SELECT t.required_paths FROM fencing_toolversion t
       WHERE t.tool = w.tool AND t.id <= w.registry ORDER BY t.id DESC LIMIT 1) t ON true
  CROSS JOIN LATERAL unnest(coalesce(t.required_paths, %(paths)s)) AS asked(path)
 WHERE NOT EXISTS (SELECT FROM fencing_vote v
     WHERE v.step_id = w.id AND v.path = asked.path AND v.digest IS NOT NULL)
 GROUP BY asked.path ORDER BY asked.path
"""
# The last word of a path, as far as a bounded look back finds it: among the steps that were decided last, and those
# that nobody decided. Votes have no index by path: each would cost every vote.
LAST: Final = """
WITH recent AS MATERIALIZED (
  (SELECT id FROM fencing_step WHERE decided_at IS NOT NULL ORDER BY decided_at DESC LIMIT %(sample)s)
  UNION ALL
  (SELECT id FROM fencing_step WHERE phase IN ('proposed', 'agreed', 'fenced')
    ORDER BY proposed_at DESC LIMIT %(sample)s))
SELECT v.path, max(v.received_at) FROM recent JOIN fencing_vote v ON v.step_id = recent.id
 WHERE v.path = ANY (%(paths)s) AND v.digest IS NOT NULL GROUP BY v.path
"""
# Under load the sample is a matter of seconds: who is not in it is looked for through the whole threshold.
SPOKE: Final = """
SELECT DISTINCT v.path
  FROM (SELECT id FROM fencing_step WHERE decided_at >= %(since)s ORDER BY decided_at DESC LIMIT %(most)s) s
  JOIN fencing_vote v ON v.step_id = s.id
 WHERE v.path = ANY (%(paths)s) AND v.digest IS NOT NULL AND v.received_at >= %(since)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A path that is asked and says nothing: since when, and how many steps of how many runs wait for it.

    `last_voted_at` is None where no vote of it was found in the look back. `is_cut`: there are more waiting steps.
    """

    path: str
    last_voted_at: datetime | None
    wanted_since: datetime
    steps: int
    runs: int
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A step that a silent path holds up. `grant` would let it go on, unless `covered_by` names one that is there.

    `why` says why there is none that could. A step that timed out has none: it is replayed.
    """

    step: StepRef
    tool: str | None
    phase: str
    deadline_at: datetime | None
    proposed_at: datetime | None
    voted: tuple[str, ...]
    covered_by: str | None
    grant: GrantFor | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """The steps that wait for a path, the soonest to time out first, and those that did, the newest first."""

    now: datetime
    waiting: tuple[Line, ...]
    timed_out: tuple[Line, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What became of one grant of a batch: its step's phase, and the state of the effect once there is one."""

    line: GrantLine
    phase: str | None
    reason: str | None
    intent_state: str | None


def silent_paths(threshold_s: int | None = None) -> tuple[Silence, ...]:
    """The paths that have not voted for `threshold_s` seconds (the setting's, 60) though steps waited that long.

    One statement while nothing waits, and that by an index of undecided steps: cheap enough for every page.
    """
    threshold = settings.FENCE_SILENCE_S if threshold_s is None else threshold_s
    asked = _read(WAITING, threshold=threshold, most=MOST_WAITING, paths=list(Policy().required_paths))
    if not asked:
        return ()
    since = read_clock() - timedelta(seconds=threshold)
    paths = [row[0] for row in asked]
    last: dict[str, datetime] = dict(_read(LAST, paths=paths, sample=SAMPLE))
    quiet = [path for path in paths if path not in last or last[path] < since]
    spoke = {path for (path,) in _read(SPOKE, paths=quiet, since=since, most=LOOKED_AT)} if quiet else set()
    return tuple(
        Silence(path=path, last_voted_at=last.get(path), wanted_since=first, steps=steps, runs=runs, is_cut=is_cut)
        for path, first, steps, runs, is_cut in asked
        if path in quiet and path not in spoke
    )


def affected_steps(path: str, limit: int = MOST_LINES) -> Affected:
    """The steps that wait for a path, and those that timed out without it in the last hours and were not replayed."""
    now = read_clock()
    open_ = Step.objects.filter(phase__in=OPEN, proposed_at__isnull=False).order_by("deadline_at", "id")
    replayed = Step.objects.filter(run_id=OuterRef("run_id"), name=OuterRef("name"), epoch__gt=OuterRef("epoch"))
    lost = Step.objects.filter(
        ~Exists(replayed),
        Q(epoch__gte=F("run__epoch")),
        phase="rejected",
        reason__in=TIMED_OUT,
        decided_at__gte=now - LATELY,
    ).order_by("-decided_at", "-id")
    unheard = ~Exists(Vote.objects.filter(step=OuterRef("pk"), path=path, digest__isnull=False))
    waiting, is_cut = _seen(open_.filter(unheard).select_related("run"), path, limit)
    timed_out, is_cut_too = _seen(lost.filter(unheard).select_related("run"), path, limit)
    others = _grants(waiting, now)
    return Affected(
        now=now,
        waiting=tuple(_line(seen, path, others, now) for seen in waiting),
        timed_out=tuple(_lost(seen) for seen in timed_out),
        is_cut=is_cut or is_cut_too,
    )


def batch_progress(batch: str, limit: int = 1000) -> tuple[Progress, ...]:
    """What became of the grants that one confirmation issued, in the order of their runs and steps."""
    rows = list(
        Grant.objects.filter(name__regex=rf"^{_escaped(batch)}-[0-9a-f]{{{outages.DIGITS}}}$", name__startswith=batch)
        .select_related("run", "issuer")
        .order_by("run__name", "step_name", "epoch")[:limit]
    )
    now = read_clock()
    steps: dict[tuple[Any, str, int], Step] = {
        (step.run_id, step.name, step.epoch): step
        for step in Step.objects.filter(run__in={row.run_id for row in rows}, name__in={row.step_name for row in rows})
    }
    states: dict[Any, str] = dict(
        Intent.objects.filter(commits__step__in=list(steps.values()), commits__closed_at__isnull=True).values_list(
            "commits__step_id", "state"
        )
    )
    found = []
    for row, line in zip(rows, lines_of(rows, now), strict=True):
        step = steps.get((row.run_id, row.step_name or "", row.epoch))
        told = (None, None, None) if step is None else (step.phase, step.reason, states.get(step.id))
        found.append(Progress(line=line, phase=told[0], reason=told[1], intent_state=told[2]))
    return tuple(found)


def _escaped(text: str) -> str:
    """A name for a regular expression: of the characters that a name may have, a dot alone means something there."""
    return text.replace(".", r"\.")


def _read(statement: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _seen(rows: Any, path: str, limit: int) -> tuple[list[Seen], bool]:
    """Read steps with their votes, and keep those whose tool asks the path."""
    found = list(rows[: limit + 1])
    votes: dict[Any, list[Vote]] = defaultdict(list)
    for vote in Vote.objects.filter(step__in=found).order_by("received_at", "id"):
        votes[vote.step_id].append(vote)
    seen = [seen_from(row, votes[row.id]) for row in found[:limit]]
    return [each for each in seen if path in each.rules.required_paths], len(found) > limit


def _grants(steps: Iterable[Seen], now: datetime) -> Mapping[Any, Sequence[grants.Grant]]:
    """The live and pending grants of the steps' runs, by run."""
    found: dict[Any, list[grants.Grant]] = defaultdict(list)
    rows = Grant.objects.filter(run__in={seen.row.run_id for seen in steps}, due_at__isnull=False)
    for row in rows.order_by("name"):
        pure = grant_as_pure(row, approvals=0)
        if grants.state_of(pure, now) not in grants.OVER:
            found[row.run_id].append(pure)
    return found


def _line(seen: Seen, path: str, others: Mapping[Any, Sequence[grants.Grant]], now: datetime) -> Line:
    helps = outages.relief(seen.row.run.name, seen.pure, path, rules=seen.rules, now=now)
    place = None if isinstance(helps, str) else helps
    there = others.get(seen.row.run_id, ())
    covering = None if place is None else next((each.name for each in there if outages.covers(each, place)), None)
    return _told(seen, grant=place, covered_by=covering, why=helps if isinstance(helps, str) else "")


def _lost(seen: Seen) -> Line:
    return _told(seen, grant=None, covered_by=None, why="")


def _told(seen: Seen, *, grant: GrantFor | None, covered_by: str | None, why: str) -> Line:
    return Line(
        step=StepRef(run=seen.row.run.name, step=seen.pure.step, epoch=seen.pure.epoch),
        tool=fence.tool_of(seen.pure),
        phase=seen.row.phase,
        deadline_at=seen.row.deadline_at,
        proposed_at=seen.row.proposed_at,
        voted=tuple(sorted(fence.paths_for(seen.pure))),
        covered_by=covered_by,
        grant=grant,
        why=why,
    )
