"""What the overview shows: what waits for a person, what is undecided, and how the last hours went. Bounded queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Min

from fencing.models import Incident, Intent, Step
from fencing.models.counts import hour_of
from fencing.models.facts import read_clock
from fencing.models.steps import DIVERGED

# Durations are those of so many steps, the newest: each is looked up, and a page is not the place for more.
SAMPLE = 4_000
# A moment of its own: an index can be entered at a value, and not at a clock that moves with each row.
_NEWEST = (
    "SELECT id, phase, reason, decided_at FROM fencing_step"
    " WHERE decided_at >= (SELECT clock_timestamp() - %s::interval) ORDER BY decided_at DESC LIMIT %s"
)
UNDECIDED = ("proposed", "agreed", "fenced")
_FIRST_HOUR = hour_of("(clock_timestamp() - %s::interval)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many things of one kind wait for a person, and since when the oldest does."""

    count: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A step that nobody decided yet."""

    run: str
    step: str
    epoch: int
    phase: str
    proposed_at: datetime
    deadline_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One bin of the figures: how many steps ended in a phase, or how many inputs were refused for a reason."""

    at: datetime
    name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Durations of one kind, in seconds: quantiles over the steps of the window."""

    count: int
    median: float | None
    p90: float | None
    p99: float | None


def doubts() -> Waiting:
    """Effects of which nobody knows whether they happened (L6)."""
    return _waiting(Intent.objects.filter(state="in_doubt"), "opened_at")


def incidents() -> Waiting:
    """Open incidents."""
    return _waiting(Incident.objects.filter(state="open"), "opened_at")


def unjudged_divergences(since: timedelta) -> Waiting:
    """Divergences of the window that no reviewer gave a verdict on."""
    found = Step.objects.filter(reason__in=DIVERGED, decided_at__gte=read_clock() - since, verdicts__isnull=True)
    return _waiting(found, "decided_at")


def undecided(limit: int = 8) -> tuple[int, list[Undecided]]:
    """How many steps are undecided, and the oldest of them."""
    found = Step.objects.filter(phase__in=UNDECIDED)
    rows = found.select_related("run").order_by("proposed_at", "id")[:limit]
    oldest = [
        Undecided(
            run=row.run.name,
            step=row.name,
            epoch=row.epoch,
            phase=row.phase,
            proposed_at=row.proposed_at,
            deadline_at=row.deadline_at,
        )
        for row in rows
        if row.proposed_at is not None and row.deadline_at is not None
    ]
    return found.count(), oldest


def decisions_by_hour(since: timedelta) -> list[Hour]:
    """Steps by the phase that they ended in, hour by hour in UTC, oldest first; the first hour is whole."""
    return _by_hour("step:%", "substr(name, 6)", since)


def refusals_by_hour(since: timedelta) -> list[Hour]:
    """Inputs that were refused, by reason, hour by hour in UTC, oldest first; the first hour is whole."""
    return _by_hour("side_log:%", "split_part(name, ':', 3)", since)


def vote_gap(since: timedelta, limit: int = SAMPLE) -> Delay:
    """The time between the first and the second path's vote, over the newest steps of the window."""
    return _delay(
        f"SELECT extract(epoch FROM gap.s) AS s FROM ({_NEWEST}) newest"  # noqa: S608 - our own
        " CROSS JOIN LATERAL (SELECT max(first) - min(first) AS s FROM ("
        "   SELECT min(v.received_at) AS first FROM fencing_vote v"
        "    WHERE v.step_id = newest.id AND v.digest IS NOT NULL GROUP BY v.path) firsts HAVING count(*) > 1) gap",
        since,
        limit,
    )


def decision_latency(since: timedelta, limit: int = SAMPLE) -> Delay:
    """The time from the last vote before a commit to the commit, over the newest commits of the window."""
    return _delay(
        f"SELECT extract(epoch FROM newest.decided_at - last.at) AS s FROM ({_NEWEST}) newest"  # noqa: S608 - our own
        " CROSS JOIN LATERAL (SELECT max(v.received_at) AS at FROM fencing_vote v"
        "   WHERE v.step_id = newest.id AND NOT v.is_late AND v.digest IS NOT NULL) last"
        " WHERE newest.phase = 'committed' AND newest.reason = 'agreement' AND last.at IS NOT NULL",
        since,
        limit,
    )


def _waiting(rows: Any, at: str) -> Waiting:
    found = rows.aggregate(count=Count("pk", distinct=True), oldest=Min(at))
    return Waiting(count=found["count"], oldest=found["oldest"])


def _by_hour(names: str, word: str, since: timedelta) -> list[Hour]:
    """Running counts by hour (`fencing/models/counts.py`). `word` writes what a name is about, as SQL of our own."""
    statement = (
        f"SELECT hour, {word}, sum(count)::bigint FROM fence_counts({_FIRST_HOUR}) WHERE name LIKE %s"  # noqa: S608
        " GROUP BY 1, 2 HAVING sum(count) > 0 ORDER BY 1, 2"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [f"{since.total_seconds()} s", names])
        return [Hour(at=at, name=name, count=count) for at, name, count in cursor.fetchall()]


def _delay(statement: str, since: timedelta, limit: int) -> Delay:
    quantiles = "percentile_cont(ARRAY[0.5, 0.9, 0.99]) WITHIN GROUP (ORDER BY s)"
    with connection.cursor() as cursor:
        whole = f"SELECT count(*), {quantiles} FROM ({statement}) AS durations"  # noqa: S608 - our own
        cursor.execute(whole, [f"{since.total_seconds()} s", limit])
        count, found = cursor.fetchone()
    median, p90, p99 = found or (None, None, None)
    return Delay(count=count, median=median, p90=p90, p99=p99)
