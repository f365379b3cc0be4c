"""Faults that people reported of stale workers and grades (kind e): one epoch whole, whoever believes what."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import pytest

from fencing.models import AttemptEpoch, Fragment, FragmentLease, Grade, SideLogRow
from fencing.services import gating, lanes
from fencing.services.requests import MakeLane
from tests.cases.reports import check_coverage
from tests.factories import fresh
from tests.marking import Marking
from tests.planting import plant
from tests.stories import register, told

pytestmark = pytest.mark.django_db

IDS: Final = ("E01", "E02", "E03", "E04", "E05", "E06", "E07", "E08", "E09", "E10", "E11")
ELSEWHERE: Final[Mapping[str, str]] = {}


@pytest.fixture
def marking() -> Marking:
    register([])
    return Marking.begin()


def gate(marking: Marking) -> str:
    return str(told(gating.read_gate(marking.lane, marking.reviewer))["gate"])


def log(marking: Marking, reason: str) -> int:
    return SideLogRow.objects.filter(attempt=marking.attempt, reason=reason).count()


def test_e01_a_slow_worker_that_reports_done_after_the_restart_is_not_counted(marking: Marking) -> None:
    marking.lease(2)
    marking.restart()
    marking.lease(2)
    assert marking.send(0, epoch=1, score=0.9)["code"] == "stale_epoch"
    assert gate(marking) == "wait"
    for seq in (0, 1):
        marking.send(seq, epoch=2, score=0.4)
    assert marking.publish()["grade"]["mean"] == 0.4
    assert log(marking, "stale_epoch") == 1


def test_e02_a_leader_that_was_never_told_writes_nothing(marking: Marking) -> None:
    marking.restart()
    for refused in (marking.send(0, epoch=1), marking.permit(0, epoch=1), marking.restart(1, "I lead")):
        assert (refused["code"], refused["current_epoch"]) == ("stale_epoch", 2)
    assert Fragment.objects.count() == 0


def test_e03_one_clock_writes_and_judges_a_lease(marking: Marking) -> None:
    """A worker has no say in it: the call carries no time, and the moment is the database's."""
    marking.lease(2)
    assert marking.lease(2) == []
    lease = FragmentLease.objects.first()
    assert lease is not None
    assert 100 < (lease.lease_until - lease.leased_at).total_seconds() <= 120
    # Even handed out twice, the first sample stays.
    plant("UPDATE fencing_fragmentlease SET lease_until = leased_at", [], "fragmentlease")
    plant("UPDATE fencing_attempt SET work_at = made_at", [], "attempt")
    assert len(marking.lease(2)) == 2
    assert marking.send(0, body="second")["result"] == "accept"
    assert marking.send(0, body="first")["conflict"] is True


def test_e04_a_holder_that_slept_through_a_restart_is_refused_before_it_asks_a_model(marking: Marking) -> None:
    held = marking.permit(0)["permit"]
    marking.restart()
    marking.permit(0, epoch=2)
    assert marking.permit(0, epoch=1)["code"] == "stale_epoch"
    assert marking.send(0, epoch=1, permit=held)["code"] == "stale_epoch"
    assert marking.spend(held)["spend"] == "zombie"
    assert Fragment.objects.count() == 0


def test_e05_the_answers_of_one_model_are_never_those_of_another_attempt(marking: Marking) -> None:
    """There is no cache to share: a fragment is of one attempt, and a permit for it is good nowhere else."""
    permit = marking.permit(0)["permit"]
    marking.send(0, permit=permit)
    marking.attempt = fresh("attempt")
    marking.admit(marking.attempt)
    assert marking.send(0, permit=permit)["code"] == "bad_permit"
    assert marking.publish()["missing"] == [0, 1]


def test_e06_four_repeats_with_one_index_are_one_and_the_gate_stays_shut(marking: Marking) -> None:
    marking.attempt = fresh("attempt")
    marking.admit(marking.attempt, expected=4)
    ends = [marking.send(0, score=1.0)["result"] for _ in range(4)]
    assert ends == ["accept", "duplicate", "duplicate", "duplicate"]
    assert marking.publish()["missing"] == [1, 2, 3]
    assert gate(marking) == "wait"


def test_e07_a_sample_that_is_logged_twice_counts_once_and_is_seen(marking: Marking) -> None:
    marking.send(0, body="try 1", score=0.0)
    assert marking.send(0, body="try 2", score=1.0)["conflict"] is True
    marking.send(1, score=1.0)
    assert marking.publish()["grade"]["mean"] == 0.5
    assert log(marking, "conflicting_duplicate") == 1


def test_e08_nothing_is_borrowed_from_another_epoch(marking: Marking) -> None:
    marking.whole()
    marking.restart()
    marking.send(0, epoch=2)
    assert marking.publish()["missing"] == [1]
    assert marking.send(1, epoch=1)["code"] == "stale_epoch"
    assert Grade.objects.count() == 0


def test_e09_the_grade_of_an_older_epoch_never_wins(marking: Marking) -> None:
    marking.restart()
    for seq in (0, 1):
        marking.send(seq, epoch=2, score=10.0)
    grade = marking.publish()["grade"]
    assert marking.send(0, epoch=1, score=3.0)["code"] == "stale_epoch"
    assert (marking.publish()["grade"], grade["mean"]) == (grade, 10.0)


def test_e10_a_resumption_is_a_new_epoch_and_changes_no_row_of_the_old_one(marking: Marking) -> None:
    marking.send(0, body="done in epoch 1")
    before = list(Fragment.objects.values())
    assert marking.restart() == {"status": 201, "attempt": marking.attempt, "epoch": 2, "dropped": 1}
    marking.send(0, epoch=2, body="done anew")
    assert list(Fragment.objects.filter(epoch=1).values()) == before
    # Nothing is carried over (R7): what is wanted again is sent again.
    assert marking.publish()["missing"] == [1]


def test_e11_the_second_report_is_a_no_op(marking: Marking) -> None:
    assert [marking.send(0)["result"] for _ in range(2)] == ["accept", "duplicate"]
    assert [marking.restart().get("duplicate") for _ in range(3)] == [None, True, True]
    assert AttemptEpoch.objects.filter(attempt__name=marking.attempt).count() == 2
    again = told(lanes.make_lane(MakeLane(lane=marking.lane, thresholds={}), marking.publisher))
    assert again["duplicate"] is True


def test_every_report_of_this_kind_is_played() -> None:
    check_coverage(sys.modules[__name__], "e", IDS, ELSEWHERE)
