"""Searching the audit (U1): by actor, object, run, resource and time, in bounded reads that find every row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fencing.models import AuditEvent
from fencing.protocol.errors import Refusal
from fencing.queries import audit as query
from fencing.queries.audit import search_audit
from fencing.queries.pages import Cursor, Page
from fencing.services import sealing
from fencing.services.sealing import seal_audit
from tests.audit.conftest import write_rows
from tests.factories import make_action, make_tool

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def all_of(filters: dict[str, Any], limit: int = 7) -> list[int]:
    """Walk through every part of a list."""
    found: list[int] = []
    cursor = None
    for _ in range(200):
        part = search_audit(filters, Page(limit=limit, cursor=cursor))
        assert len(part.rows) <= limit
        found += [row.pk for row in part.rows]
        if part.following is None:
            return found
        decoded = Cursor.decode(part.following)
        assert not isinstance(decoded, Refusal)
        cursor = decoded
    raise AssertionError("the walk does not end")


def plainly(**filters: Any) -> list[int]:
    return list(AuditEvent.objects.filter(**filters).order_by("-pk").values_list("pk", flat=True))


@pytest.fixture
def history(audit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred rows of ten actors in seals of sixteen, the last eight of them without a seal."""
    monkeypatch.setattr(sealing, "BATCH", 16)
    rows = [
        AuditEvent(
            actor=f"anna-{index % 10}",
            role="oncall" if index % 3 else "reviewer",
            verb="issue_grant" if index % 4 else "review_grant",
            kind="grant" if index % 2 else "step",
            subject=f"subject-{index % 7}",
            run=None if index % 5 == 0 else f"run-{index % 6}",
            at=NOON + timedelta(minutes=index if index != 50 else -600),
        )
        for index in range(200)
    ]
    AuditEvent.objects.bulk_create(rows[:192])
    seal_audit()
    AuditEvent.objects.bulk_create(rows[192:])


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"actor": "anna-3"},
        {"actor": "nobody"},
        {"verb": "review_grant"},
        {"role": "reviewer", "actor": "anna-6"},
        {"kind": "step"},
        {"kind": "grant", "subject": "subject-3"},
        {"subject": "subject-4"},
        {"subject": "subject-4", "actor": "anna-1"},
        {"run": "run-2"},
        {"run": "run-2", "verb": "review_grant"},
        {"run": "run-9"},
    ],
)
@pytest.mark.parametrize("looked_at", [20_000, 24])
def test_each_filter_finds_what_a_plain_query_finds(
    history: None, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any], looked_at: int
) -> None:
    monkeypatch.setattr(query, "LOOKED_AT", looked_at)
    monkeypatch.setattr(query, "WINDOW", 3)
    monkeypatch.setattr(query, "SEALS", 2)
    assert all_of(filters) == plainly(**filters)


@pytest.mark.parametrize(
    ("since", "until"),
    [(NOON, None), (NOON + timedelta(minutes=50), NOON + timedelta(minutes=60)), (None, NOON), (None, None)],
)
def test_times_find_rows_that_came_late_too(history: None, since: datetime | None, until: datetime | None) -> None:
    wanted = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
    plain = {f"at__{'gte' if name == 'since' else 'lte'}": value for name, value in wanted.items()}
    assert all_of(wanted) == plainly(**plain)
    assert all_of({**wanted, "actor": "anna-0"}) == plainly(**plain, actor="anna-0")


def test_a_part_that_ended_early_says_how_far_it_looked(history: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "LOOKED_AT", 16)
    # Each seal has both, and no row has.
    part = search_audit({"kind": "step", "actor": "anna-1"}, Page(limit=5))
    assert part.rows == ()
    assert part.reached is not None
    assert part.following is not None


def test_a_resource_is_found_by_what_was_committed_and_voted(audit: None) -> None:
    tool = make_tool(resources=["/invoice"])
    for number, verb, member in ((9, "commit_step", "payload_digest"), (10, "vote", "digest")):
        action = make_action(tool=tool, invoice=number)
        write_rows(3, run=f"run-{number}")
        write_rows(1, verb=verb, kind="commit", run=f"run-{number}", after={member: action.payload_digest})
    seal_audit()
    assert all_of({"resource": "9"}) == plainly(run="run-9")
    assert all_of({"resource": "10", "verb": "vote"}) == plainly(run="run-10", verb="vote")
    assert all_of({"resource": "11"}) == []


def test_a_million_rows_are_searched_in_bounded_reads(audit: None) -> None:
    """Plans, not clocks: with statistics of many rows no read goes through the table, and none is planned to."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, reason, source, request)"
            " SELECT 'planner-' || n % 40, 'planner', 'move_step', 'step', 'run-' || n || '/refund/1', 'run-' || n,"
            " '', '', '' FROM generate_series(1, 30000) AS n"
        )
        write_rows(1, actor="rare")
        while seal_audit(30.0).rows:
            pass
        cursor.execute("ANALYZE fencing_auditevent, fencing_seal")
    for filters in (
        {},
        {"actor": "rare"},
        {"actor": "nobody"},
        {"run": "run-77"},
        {"subject": "run-77/refund/1"},
        {"kind": "step", "verb": "move_step"},
        {"since": datetime.now(UTC) - timedelta(days=1), "actor": "planner-7"},
        {"resource": "9"},
    ):
        with CaptureQueriesContext(connection) as asked:
            search_audit(filters, Page(limit=50))
        assert len(asked) <= 8 + query.LOOKED_AT // sealing.BATCH, filters
        for each in asked.captured_queries:
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN " + each["sql"])
                plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan on fencing_auditevent" not in plan, (filters, plan)
