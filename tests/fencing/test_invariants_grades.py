"""I4 and A2 to A6 by SQL: no grade of two epochs, none that is short, none that changes, whoever types it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fencing.models import Attempt, AttemptEpoch, Fragment, LaneEvent, LaneThresholds
from tests import factories as make
from tests import grading
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connect, Connection
from tests.fencing.racing import Race
from tests.stores import SqlStore


@pytest.fixture
def as_app(app: Connection) -> SqlStore:
    return SqlStore(connection=app)


@pytest.fixture
def attempt(as_app: SqlStore) -> Attempt:
    return grading.make_attempt(store=as_app)


def whole(attempt: Attempt, store: SqlStore) -> list[Fragment]:
    return grading.make_fragments(attempt=attempt, store=store)


# ---- fragments ----


def test_a_fragment_of_the_open_epoch_comes_in_once(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    with allowed(app):
        grading.make_fragment(attempt=attempt, store=as_app)
    with refused(app, by="fragment_once"):
        grading.make_fragment(attempt=attempt, text="better", store=as_app)


@pytest.mark.parametrize(
    "values", [{"epoch": 2}, {"epoch": 0}, {"seq": 2}, {"seq": -1}], ids=["future", "stale", "beyond", "negative"]
)
def test_no_fragment_of_another_epoch_or_place(
    values: dict[str, Any], attempt: Attempt, app: Connection, as_app: SqlStore
) -> None:
    with refused(app, by="fragment_of_open_epoch"):
        grading.make_fragment(attempt=attempt, store=as_app, **values)


def test_no_fragment_of_an_epoch_that_a_restart_closed(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    grading.restart(attempt=attempt, store=as_app)
    with refused(app, by="fragment_of_open_epoch"):
        grading.make_fragment(attempt=attempt, epoch=1, store=as_app)
    with refused(app, by="lease_of_open_epoch"):
        grading.make_lease(attempt=attempt, epoch=1, store=as_app)
    with refused(app, by="permit_of_open_epoch"):
        grading.make_permit(attempt=attempt, epoch=1, store=as_app)


def test_no_work_and_no_permit_once_it_is_published(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    grading.publish(attempt=attempt, store=as_app)
    with refused(app, by="lease_of_open_epoch"):
        grading.make_lease(attempt=attempt, store=as_app)
    with refused(app, by="permit_of_open_epoch"):
        grading.make_permit(attempt=attempt, store=as_app)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_no_score_that_is_no_number(score: float, attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    with refused(app, by="fragment_score_finite"):
        grading.make_fragment(attempt=attempt, score=score, store=as_app)


def test_where_permits_are_asked_for_none_comes_without_its_own(app: Connection, as_app: SqlStore) -> None:
    attempt = grading.make_attempt(require_permits=True, store=as_app)
    permit = grading.make_permit(attempt=attempt, seq=1, store=as_app)
    for permits in (None, permit):
        with refused(app, by="fragment_of_open_epoch"):
            grading.make_fragment(attempt=attempt, seq=0, permit=permits, store=as_app)
    with allowed(app):
        grading.make_fragment(attempt=attempt, seq=1, permit=permit, store=as_app)


# ---- grades ----


def test_a_whole_set_of_the_open_epoch_is_published(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    with allowed(app):
        grading.publish(attempt=attempt, store=as_app)


@pytest.mark.parametrize("score", [1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 0.1, None])
def test_any_finite_score_has_a_mean(score: float | None, attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    parts = grading.make_fragments(attempt=attempt, score=score, store=as_app)
    with allowed(app):
        assert grading.publish(attempt=attempt, parts=parts, store=as_app).mean == score


@dataclass(frozen=True)
class Wrong:
    """How a grade is wrong: the fragments that it names (of the new epoch, the old one, a stranger), what it says."""

    parts: str
    more: dict[str, Any] = field(default_factory=dict)


WRONG = {
    "short": Wrong("new0"),
    "doubled": Wrong("new0 new0"),
    "in another order": Wrong("new1 new0"),
    "of the closed epoch": Wrong("old0 old1", {"epoch": 1}),
    "of two epochs": Wrong("new0 old1"),
    "of two epochs the other way": Wrong("old0 new1", {"epoch": 1}),
    "with a stranger": Wrong("new0 strange0"),
    "empty": Wrong("", {"mean": None, "scored": 0}),
    "with one too many": Wrong("new0 new1 strange0"),
    "of another mean": Wrong("new0 new1", {"mean": 0.75}),
    "without its mean": Wrong("new0 new1", {"mean": None}),
    "of other counts": Wrong("new0 new1", {"scored": 1, "mean": 1.0}),
    "at another place": Wrong("new0 new1", {"place": 7}),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_grade_that_is_mixed_short_or_false(name: str, app: Connection, as_app: SqlStore, attempt: Attempt) -> None:
    old = whole(attempt, as_app)
    grading.restart(attempt=attempt, store=as_app, dropped=2)
    new = whole(attempt, as_app)
    strange = whole(grading.make_attempt(lane=attempt.lane, expected=1, store=as_app), as_app)
    found = {
        f"{word}{part.seq}": part for word, of in (("new", new), ("old", old), ("strange", strange)) for part in of
    }
    parts = [found[word] for word in WRONG[name].parts.split()]
    with refused(app, by="grade_whole"):
        grading.make_grade(attempt=attempt, parts=parts, store=as_app, **WRONG[name].more)
    with allowed(app):
        grading.publish(attempt=attempt, parts=new, store=as_app)


def test_no_grade_in_another_lane_or_in_a_halted_one(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    parts = whole(attempt, as_app)
    with refused(app, by="grade_whole"):
        grading.make_grade(attempt=attempt, parts=parts, lane=grading.make_lane(store=as_app), store=as_app)
    grading.halt(lane=attempt.lane, store=as_app)
    with refused(app, by="grade_whole"):
        grading.make_grade(attempt=attempt, parts=parts, store=as_app)
    grading.resume(lane=attempt.lane, store=as_app)
    with allowed(app):
        grading.publish(attempt=attempt, parts=parts, store=as_app)


def test_a_grade_is_published_or_is_not_there(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    parts = whole(attempt, as_app)
    with refused(app, by="grade_published"):
        grading.make_grade(attempt=attempt, parts=parts, store=as_app)
    with refused(app, by="attempt_moves"):
        as_app.update(attempt, state="published")
    attempt.state = "open"


def test_a_published_attempt_moves_no_more(attempt: Attempt, owner: Connection, as_owner: SqlStore) -> None:
    attempt = grading.make_attempt(store=as_owner)
    grading.publish(attempt=attempt, store=as_owner)
    for change in ({"state": "open"}, {"epoch": 2}):
        with refused(owner, by="attempt_moves"):
            as_owner.update(attempt, **change)
    with refused(owner, by="append_only"):
        owner.execute("UPDATE fencing_grade SET mean = 1.0")
    with refused(owner, by="append_only"):
        owner.execute("DELETE FROM fencing_grade")
    with refused(owner, by="append_only"):
        owner.execute("UPDATE fencing_fragment SET score = 1.0")


# ---- epochs ----


@pytest.mark.parametrize("epoch", [0, 2, 3])
def test_an_epoch_opens_by_a_restart_on_record(epoch: int, attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    with refused(app, by="attempt_moves"):
        as_app.update(attempt, epoch=epoch)


def test_a_restart_on_record_opens_its_epoch(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    with refused(app, by="attempt_epoch_opened"):
        as_app.insert(AttemptEpoch(attempt=attempt, number=2, by=attempt.by))


# ---- spend ----


def test_spend_is_zombie_spend_exactly_when_its_epoch_is_closed(
    attempt: Attempt, app: Connection, as_app: SqlStore
) -> None:
    first, second = (grading.make_permit(attempt=attempt, seq=seq, store=as_app) for seq in (0, 1))
    with refused(app, by="spend_of_its_epoch"):
        grading.make_spend(permit=first, is_zombie=True, store=as_app)
    with allowed(app):
        grading.make_spend(permit=first, store=as_app)
    grading.restart(attempt=attempt, store=as_app)
    with refused(app, by="spend_of_its_epoch"):
        grading.make_spend(permit=second, store=as_app)
    with allowed(app):
        grading.make_spend(permit=second, is_zombie=True, answered="zombie", store=as_app)


# ---- lanes ----


def test_a_lane_halts_and_resumes_by_acts_on_record(attempt: Attempt, app: Connection, as_app: SqlStore) -> None:
    lane = attempt.lane
    with refused(app, by="lane_moves"):
        as_app.update(lane, state="halted", halt_reason="I say so", halted_at=make.soon(0))
    grading.halt(lane=lane, store=as_app)
    with refused(app, by="lane_moves"):
        as_app.update(lane, state="running", halt_reason=None, halted_at=None)
    with refused(app, by="lane_resumed_by_a_person"):
        as_app.insert(LaneEvent(lane=lane, number=2, what="resumed", reason="nobody"))
    with allowed(app):
        grading.resume(lane=lane, store=as_app)


def test_what_a_lane_counts_are_its_grades_and_its_versions(
    attempt: Attempt, app: Connection, as_app: SqlStore
) -> None:
    with refused(app, by="lane_published"):
        as_app.update(attempt.lane, published=1)
    with refused(app, by="lane_thresholds"):
        as_app.update(attempt.lane, thresholds_version=2)
    with refused(app, by="lane_thresholds_by_a_person"):
        as_app.insert(LaneThresholds(lane=attempt.lane, version=2, thresholds={}))


# ---- roles ----

OF_THE_APP = (
    "attempt",
    "attemptepoch",
    "attemptinput",
    "fragment",
    "fragmentlease",
    "gatereading",
    "grade",
    "lanethresholds",
    "permit",
    "spend",
)


@pytest.mark.parametrize("table", OF_THE_APP)
def test_a_worker_scores_and_publishes_nothing(table: str, connect_as: Connect) -> None:
    connection = connect_as("fence_fencer")
    with forbidden(connection):
        connection.execute(f"INSERT INTO fencing_{table} DEFAULT VALUES")
    for column in ("epoch", "state"):
        with forbidden(connection):
            connection.execute(f"UPDATE fencing_attempt SET {column} = {column}")  # noqa: S608 - our own names


def test_a_worker_may_find_a_flaw_and_halt_the_lane(race: Race) -> None:
    web, worker = race.racer("fence_app"), race.racer("fence_fencer")
    grade = grading.publish(attempt=grading.make_attempt(store=web.store), store=web.store)
    web.connection.commit()
    with allowed(worker.connection):
        grading.make_finding(grade=grade, store=worker.store)
        grading.halt(lane=grade.lane, store=worker.store)


# ---- beside each other ----


@pytest.fixture
def seats(race: Race) -> tuple[Any, Any, Attempt, list[Fragment]]:
    """Two racers of the web, an attempt with one of two fragments, and that fragment."""
    first, second = race.racer("fence_app"), race.racer("fence_app")
    attempt = grading.make_attempt(store=first.store)
    part = grading.make_fragment(attempt=attempt, seq=0, store=first.store)
    first.connection.commit()
    return first, second, attempt, [part]


def test_a_fragment_behind_a_restart_is_refused(race: Race, seats: tuple[Any, Any, Attempt, list[Fragment]]) -> None:
    first, second, attempt, _ = seats
    end = race.behind(
        (first, lambda store: grading.restart(attempt=attempt, store=store, dropped=1)),
        (second, lambda store: grading.make_fragment(attempt=attempt, epoch=1, seq=1, store=store)),
    )
    assert end == "fragment_of_open_epoch"


def test_a_restart_behind_a_fragment_drops_it(race: Race, seats: tuple[Any, Any, Attempt, list[Fragment]]) -> None:
    first, second, attempt, _ = seats
    end = race.behind(
        (first, lambda store: grading.make_fragment(attempt=attempt, epoch=1, seq=1, store=store)),
        (second, lambda store: grading.restart(attempt=attempt, store=store, dropped=2)),
    )
    assert end == "done"
    assert race.read("SELECT epoch FROM fencing_attempt") == 2


def test_a_grade_behind_a_restart_is_refused(race: Race, seats: tuple[Any, Any, Attempt, list[Fragment]]) -> None:
    first, second, attempt, parts = seats
    parts.append(grading.make_fragment(attempt=attempt, seq=1, store=first.store))
    first.connection.commit()
    end = race.behind(
        (first, lambda store: grading.restart(attempt=attempt, store=store, dropped=2)),
        (second, lambda store: grading.publish(attempt=attempt, parts=parts, epoch=1, store=store)),
    )
    assert end == "grade_whole"
    assert race.read("SELECT count(*) FROM fencing_grade") == 0


def test_a_grade_behind_a_grade_is_refused(race: Race, seats: tuple[Any, Any, Attempt, list[Fragment]]) -> None:
    first, second, attempt, parts = seats
    parts.append(grading.make_fragment(attempt=attempt, seq=1, store=first.store))
    first.connection.commit()
    twin = Attempt.objects.model(**{f.attname: getattr(attempt, f.attname) for f in attempt._meta.concrete_fields})
    twin.lane, twin.by = attempt.lane, attempt.by
    end = race.behind(
        (first, lambda store: grading.publish(attempt=attempt, parts=parts, store=store)),
        (second, lambda store: grading.publish(attempt=twin, parts=parts, place=1, store=store)),
    )
    assert end == "grade_whole"
    assert race.read("SELECT count(*) FROM fencing_grade") == 1
