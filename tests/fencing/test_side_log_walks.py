"""Walks through the side log beside transactions that are held open: no row skipped, none told twice (S3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.errors import Refusal
from fencing.queries import side_log
from fencing.queries.side_log import Part, export_rows, read_part
from fencing.queries.walks import Key, Walk
from tests.factories import make_acknowledgement, make_credential, make_side_log_row, soon
from tests.fencing.racing import Race

pytestmark = pytest.mark.django_db
MOMENTS = st.datetimes(timezones=st.just(UTC))
KEYS = st.builds(Key, at=MOMENTS, id=st.uuids())


def row(racer: Any, run: str, ago: float) -> None:
    make_side_log_row(run=run, recorded_at=soon(-ago), store=racer.store)


def part(cursor: str | None = None, limit: int = 2, **filters: object) -> Part:
    found = read_part(filters, cursor, limit)
    assert isinstance(found, Part)
    return found


def runs(found: Part) -> list[str | None]:
    return [each.run for each in found.rows]


def walk(cursor: str | None, limit: int = 2, **filters: object) -> list[str | None]:
    seen: list[str | None] = []
    while cursor:
        found = part(cursor, limit, **filters)
        seen += runs(found)
        cursor = found.following
    return seen


def test_what_was_open_above_the_reader_comes_with_the_next_part_once(race: Race) -> None:
    held, quick = race.racer(), race.racer()
    for ago in (10, 30, 50, 70):
        row(quick, f"there-{ago}", ago)
    quick.connection.commit()
    row(held, "held-20", 20)
    row(held, "held-60", 60)
    first = part()
    assert runs(first) == ["there-10", "there-30"]
    held.connection.commit()
    second = part(first.following)
    assert (runs(second), second.late) == (["held-20", "there-50"], 1)
    assert walk(second.following) == ["held-60", "there-70"]


def test_what_begins_after_the_walk_is_left_to_the_next_one(race: Race) -> None:
    quick = race.racer()
    for ago in (10, 30, 50):
        row(quick, f"there-{ago}", ago)
    quick.connection.commit()
    first = part()
    row(quick, "new", -5)
    quick.connection.commit()
    assert walk(first.following) == ["there-50"]


def test_more_late_rows_than_a_part_holds_come_in_several(race: Race) -> None:
    held, quick = race.racer(), race.racer()
    for ago in (10, 90, 95):
        row(quick, f"there-{ago}", ago)
    quick.connection.commit()
    for ago in range(20, 25):
        row(held, f"held-{ago}", ago)
    row(race.racer(), "never-30", 30)
    first = part(limit=2)
    assert runs(first) == ["there-10", "there-90"]
    held.connection.commit()
    assert walk(first.following) == ["held-20", "held-21", "held-22", "held-23", "held-24", "there-95"]


def test_late_rows_are_sifted_as_all_others_are(race: Race) -> None:
    held, quick = race.racer(), race.racer()
    for ago in (10, 30, 50):
        make_side_log_row(run="r", reason="late_vote", recorded_at=soon(-ago), store=quick.store)
    quick.connection.commit()
    make_side_log_row(run="r", reason="stale_epoch", recorded_at=soon(-20), store=held.store)
    make_side_log_row(run="r", reason="late_vote", recorded_at=soon(-25), store=held.store)
    first = part(run="r", reason="late_vote")
    held.connection.commit()
    assert len(first.rows) == 2
    assert len(walk(first.following, run="r", reason="late_vote")) == 2


def test_an_export_is_what_was_committed_when_it_began(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_log, "EXPORTED", 2)
    monkeypatch.setattr(side_log, "EXPORT_LOOKS_AT", 2)
    held, quick = race.racer(), race.racer()
    for ago in range(10, 17):
        row(quick, f"there-{ago}", ago)
    quick.connection.commit()
    row(held, "held-15", 15.5)
    batches = export_rows({})
    told = [each.run for each in next(batches)]
    held.connection.commit()
    row(quick, "new-14", 14.5)
    quick.connection.commit()
    told += [each.run for batch in batches for each in batch]
    assert told == [f"there-{ago}" for ago in range(10, 17)]


def test_a_search_that_finds_little_ends_early_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_log, "LOOKED_AT", 3)
    for ago in range(10):
        make_side_log_row(run=f"r-{ago}", kind="vote" if ago % 4 else "step", recorded_at=soon(-ago))
    first = part(kind="step")
    assert (runs(first), first.looked_to) == (["r-0"], first.looked_to)
    assert first.looked_to is not None
    assert walk(first.following, kind="step") == ["r-4", "r-8"]
    assert [each.run for batch in export_rows({"kind": "step"}) for each in batch] == ["r-0", "r-4", "r-8"]


def test_a_part_of_thousands_reads_as_many_rows_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sieve is entered by an index and stops at its bound, however many rows there are."""
    seen = make_acknowledgement()
    found = part(acknowledged=True, limit=50)
    assert [each.id for each in found.rows] == [seen.row_id]
    assert part(acknowledged=False, limit=50).rows == ()


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"by": "planner-1"}, ["key"]),
        ({"by": "lena"}, ["person"]),
        ({"by": "nobody"}, []),
        ({"counted_as": "attempted_escape"}, ["escape"]),
        ({"counted_as": "stale_reject"}, ["key", "person"]),
        ({"counted_as": "heard"}, ["late"]),
        ({"counted_as": "refusal"}, ["form", "held-back"]),
        ({"resource": "9", "reason": "bad_json"}, ["form"]),
        ({"resource": "9", "reason": "late_vote"}, []),
    ],
)
def test_the_side_log_is_searched_by_whose_by_what_it_counts_as_and_by_time(
    filters: dict[str, Any], found: list[str]
) -> None:
    person = User.objects.create(username="lena")
    key = make_credential(name="planner-1")
    rows: list[dict[str, Any]] = [
        {"run": "key", "by": key},
        {"run": "person", "person": person},
        {"run": "escape", "kind": "admission", "reason": "bad_token"},
        {"run": "late", "reason": "late_vote"},
        {"run": "form", "reason": "bad_json", "resources": ["9"]},
        {"run": "held-back", "kind": "admission", "reason": "not_ready"},
    ]
    for at, values in enumerate(rows):
        make_side_log_row(recorded_at=soon(-10 - 10 * at), **values)
    assert runs(part(limit=50, **filters)) == found
    assert runs(part(limit=50, since=soon(-25))) == ["key", "person"]
    assert runs(part(limit=50, until=soon(-35), since=soon(-55))) == ["late", "form"]


@given(began=MOMENTS, last=KEYS, numbers=st.lists(st.integers(1, 2**62), unique=True, max_size=200), late=KEYS)
def test_a_place_is_read_as_it_was_written(began: datetime, last: Key, numbers: list[int], late: Key) -> None:
    between = sorted(numbers)
    seen = f"{min([5, *between])}:{max([6, *between]) + 1}:{','.join(map(str, between))}"
    place = Walk(began=began, last=last, seen=seen)
    for each in (place, replace(place, until=seen, late_last=late)):
        assert Walk.decode(each.encode()) == each


@pytest.mark.parametrize(
    "seen", ["", "5:4:", "0:4:", "5:9:4", "5:9:9", "5:9:6,6", "5:9:7,6", "5:9", "5:9:x", "5:99999999999999999999:"]
)
def test_what_is_no_snapshot_never_comes_to_the_database(seen: str) -> None:
    place = Walk(began=soon(), last=Key(at=soon(), id=uuid4()), seen=seen)
    assert isinstance(Walk.decode(place.encode()), Refusal)


@given(st.text(max_size=300))
def test_whatever_is_sent_as_a_place_is_read_or_refused(text: str) -> None:
    assert isinstance(Walk.decode(text), Walk | Refusal)


def test_acknowledgements_are_added_and_never_changed(connect_as: Any) -> None:
    app: psycopg.Connection[Any] = connect_as("fence_app")
    for statement in (
        "UPDATE fencing_acknowledgement SET reason = 'x'",
        "DELETE FROM fencing_acknowledgement",
        "UPDATE fencing_sidelogrow SET reason = 'x'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute(statement)
        app.rollback()
