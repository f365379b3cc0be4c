"""Running counts equal what the tables hold: at every moment, whoever writes, and whatever is held open beside it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from fencing.models.sql import begin_counts
from fencing.queries import overview
from fencing.queries.counters import phases, read_counters
from fencing.services.counts import sum_changes
from fencing.services.recompute import COUNTS_APART
from tests.factories import (
    make_acknowledgement,
    make_committed_step,
    make_delivery,
    make_grant,
    make_incident,
    make_outcome,
    make_rejected_step,
    make_run,
    make_side_log_row,
    make_step,
    make_tool,
    make_vote,
    soon,
)
from tests.fencing.breaking import forbidden
from tests.fencing.conftest import Connect, Connection
from tests.fencing.racing import Race
from tests.fencing.scenes import everything
from tests.stores import ORM, SqlStore, Store

# What the counters and the plots were before there were running counts: whole tables, counted.
PLAIN = {
    "i1_divergent_commits": "SELECT count(*) FROM fencing_commit",
    "i3_wrong_effects": "SELECT count(*) FROM fencing_intent WHERE state IN ('succeeded', 'failed')",
    "correlated_agreements": "SELECT count(*) FROM fencing_commit WHERE authority IN ('agreement', 'both')",
    "retries": "SELECT count(*) FROM fencing_delivery WHERE number > 1",
    "attempted_escapes": "SELECT count(*) FROM fencing_sidelogrow"
    " WHERE kind = 'admission' AND reason = 'not_committed'",
    "stale_rejects": "SELECT count(*) FROM fencing_sidelogrow WHERE reason IN ('stale_epoch', 'stale_delivery')",
    "refusals": "SELECT count(*) FROM fencing_sidelogrow WHERE reason NOT IN ('stale_epoch', 'stale_delivery',"
    " 'late_vote', 'conflicting_duplicate', 'zombie_spend') AND NOT (kind = 'admission' AND reason = 'not_committed')",
    "unacknowledged": "SELECT count(*) FROM fencing_sidelogrow r"
    " WHERE NOT EXISTS (SELECT FROM fencing_acknowledgement a WHERE a.row_id = r.id)",
    "undecided_steps": "SELECT count(*) FROM fencing_step WHERE phase IN ('proposed', 'agreed', 'fenced')",
    "unsettled_intents": "SELECT count(*) FROM fencing_intent"
    " WHERE state IN ('held', 'ready', 'in_flight', 'in_doubt')",
}


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def apart() -> list[tuple[Any, ...]]:
    """The counts that say something else than the facts."""
    return rows(COUNTS_APART)


def counters() -> dict[str, int]:
    """The counters by name; of a ratio what it is of."""
    return {name: each["of"] if isinstance(each, dict) else each for name, each in read_counters().items()}


def whole_tables() -> dict[str, int]:
    return {name: rows(statement)[0][0] for name, statement in PLAIN.items()}


def assert_all_agree() -> None:
    assert apart() == []
    assert {name: counters()[name] for name in PLAIN} == whole_tables()
    assert phases() == dict(rows("SELECT phase, count(*) FROM fencing_step GROUP BY phase"))


def busy_day(store: Store = ORM) -> None:
    """A bit of everything that is counted."""
    settled = make_delivery(commit=make_committed_step(store=store), store=store)
    outcome = make_outcome(delivery=settled, store=store)
    store.update(settled.intent, state="succeeded", outcome=outcome)
    make_delivery(commit=make_committed_step(store=store, is_correlated=True), store=store)
    make_step(store=store)
    for kind, reason in (("admission", "not_committed"), ("admission", "in_doubt"), ("vote", "late_vote")):
        make_side_log_row(kind=kind, reason=reason, store=store)
    make_acknowledgement(store=store)
    make_incident(store=store)


def test_counts_equal_the_tables_before_and_after_they_are_added_up(db: None) -> None:
    busy_day()
    make_rejected_step()
    assert_all_agree()
    before = counters()
    assert sum_changes(limit=3) > 0
    assert sum_changes() == 0
    assert rows("SELECT count(*) FROM fencing_change") == [(0,)]
    assert_all_agree()
    assert counters() == before
    busy_day()
    assert_all_agree()


def test_a_step_that_is_taken_back_leaves_one_count_for_another(db: None) -> None:
    commit = make_committed_step()
    sum_changes()
    assert phases() == {"committed": 1}
    ORM.update(commit, closed_at=soon(0), closed_reason="grant_revoked")
    ORM.update(commit.step, phase="rejected", reason="grant_revoked")
    assert phases() == {"rejected": 1}
    assert_all_agree()
    sum_changes()
    assert phases() == {"rejected": 1}
    assert_all_agree()


@pytest.mark.parametrize("summed_between", [True, False])
def test_a_commit_under_a_grant_is_an_agreement_once_a_witness_says_so(db: None, *, summed_between: bool) -> None:
    tool = make_tool()
    run = make_run()
    grant = make_grant(run=run, tool=tool.tool)
    commit = make_committed_step(run=run, tool=tool, grant=grant)
    assert counters()["correlated_agreements"] == 0
    if summed_between:
        sum_changes()
    make_vote(step=commit.step, action=commit.payload, path="replica", is_late=True)
    ORM.update(commit, authority="both")
    ORM.update(commit.step, is_correlated=True)
    for _ in range(2):
        assert read_counters()["correlated_agreements"] == {"n": 1, "of": 1}
        assert read_counters()["i1_divergent_commits"] == {"n": 0, "of": 1}
        assert_all_agree()
        sum_changes()


def test_what_triggers_do_not_see_is_found_by_comparing(db: None) -> None:
    busy_day()
    sum_changes()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE fencing_sidelogrow DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM fencing_sidelogrow WHERE reason = 'late_vote'")
    assert [name for name, *_ in apart()] == ["side_log:vote:late_vote"] * 2, "one hour, and all of them"
    with connection.cursor() as cursor:
        cursor.execute("SELECT fence_count_anew()")
    assert_all_agree()


def test_a_database_that_is_older_than_the_counts_is_counted_once(db: None) -> None:
    busy_day()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM fencing_change")
    assert apart() != []
    begin_counts()
    assert_all_agree()
    busy_day()
    begin_counts()
    assert_all_agree()


def test_hours_are_those_of_the_decision_and_of_the_refusal(db: None) -> None:
    make_rejected_step(decided_at=soon(-7300))
    make_rejected_step(decided_at=soon(-100))
    make_side_log_row(reason="stale_epoch")
    since = timedelta(hours=24)
    expected = rows(
        "SELECT to_timestamp(floor(extract(epoch FROM decided_at) / 3600) * 3600), phase, count(*)"
        " FROM fencing_step GROUP BY 1, 2 ORDER BY 1, 2"
    )
    for _ in range(2):
        found = overview.decisions_by_hour(since)
        assert [(hour.at, hour.name, hour.count) for hour in found] == expected
        assert [(hour.name, hour.count) for hour in overview.refusals_by_hour(since)] == [("stale_epoch", 1)]
        assert len(overview.decisions_by_hour(timedelta(hours=1))) < len(found)
        sum_changes()


@pytest.mark.parametrize("role", ["fence_app", "fence_fencer"])
def test_no_role_writes_counts_by_itself_and_every_row_that_it_writes_is_counted(
    role: str, connect_as: Connect, as_owner: SqlStore
) -> None:
    mine = connect_as(role)
    for table in ("fencing_change", "fencing_total"):
        for act in ("DELETE FROM {}", "UPDATE {} SET name = 'more'", "TRUNCATE {}"):
            with forbidden(mine):
                mine.execute(sql.SQL(act).format(sql.Identifier(table)))
    with forbidden(mine):
        mine.execute("INSERT INTO fencing_change (name, by) VALUES ('commit', 1000)")
    with forbidden(mine):
        mine.execute("SELECT fence_count_anew()")
    make_side_log_row(store=SqlStore(connection=mine))
    assert mine.execute("SELECT name FROM fencing_change").fetchall() == [("side_log:vote:stale_epoch",)]
    assert mine.execute("SELECT fence_sum_changes(100)").fetchone() == (1,)


def test_everything_that_the_guards_know_is_counted(owner: Connection, as_owner: SqlStore) -> None:
    everything(as_owner)
    assert owner.execute(COUNTS_APART).fetchall() == []
    assert (owner.execute("SELECT fence_sum_changes(1000)").fetchone() or (0,))[0] > 0
    assert owner.execute(COUNTS_APART).fetchall() == []


class TestBesideOthers:
    """With rows that are really committed, and transactions that are held open."""

    @pytest.fixture
    def late(self, race: Race) -> Connection:
        """A transaction of the fencer's that has written, and is not committed."""
        racer = race.racer()
        busy_day(racer.store)
        return racer.connection

    def test_what_commits_late_is_counted_late_and_exactly_once(self, race: Race, late: Connection) -> None:
        racer = race.racer()
        busy_day(racer.store)
        racer.connection.commit()
        with psycopg.connect(late.info.dsn, password=late.info.password, autocommit=True) as reader:
            one_day = self.found(reader)
            assert one_day["commit"] == 2, "nothing of the open transaction is seen"
            assert reader.execute("SELECT fence_sum_changes(1000)").fetchone() != (0,)
            assert self.found(reader) == one_day
            late.commit()
            # Its rows were numbered before those that were added up.
            assert self.found(reader) == {name: 2 * count for name, count in one_day.items()}
            reader.execute("SELECT fence_sum_changes(1000)")
            assert self.found(reader) == {name: 2 * count for name, count in one_day.items()}

    def test_of_two_who_add_up_at_once_one_does_it(self, race: Race, connect_as: Connect) -> None:
        racer = race.racer()
        busy_day(racer.store)
        racer.connection.commit()
        one, other = connect_as("fence_fencer"), connect_as("fence_fencer")
        assert one.execute("SELECT fence_sum_changes(1000)").fetchone() != (0,)
        assert other.execute("SELECT fence_sum_changes(1000)").fetchone() == (0,), "and it did not wait"
        other.rollback()
        one.commit()
        assert other.execute(COUNTS_APART).fetchall() == []
        other.rollback()

    @staticmethod
    def found(reader: psycopg.Connection[Any]) -> dict[str, int]:
        assert reader.execute(COUNTS_APART).fetchall() == []
        return {name: count for name, count in reader.execute("SELECT name, count FROM fence_counts(NULL)") if count}
