"""Grades at the services: what is planted behind their back is found, and what it did stays on record."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fencing.environment import Price
from fencing.models import (
    Attempt,
    AuditEvent,
    Fragment,
    FragmentLease,
    GateReading,
    Grade,
    GradeFinding,
    Incident,
    Lane,
    LaneEvent,
    SideLogRow,
    Spend,
)
from fencing.protocol.callers import Caller, Role
from fencing.queries.counters import read_counters
from fencing.services import gating, grade_audit
from tests.factories import fresh
from tests.marking import Marking
from tests.planting import MIX, plant
from tests.stories import actor, register, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def marking() -> Marking:
    register([])
    return Marking.begin()


def gate(marking: Marking, by: Caller | None = None) -> dict[str, Any]:
    return told(gating.read_gate(marking.lane, by or actor(Role.GATE)))


def lane_of(marking: Marking) -> Lane:
    return Lane.objects.get(name=marking.lane)


def published(marking: Marking) -> Grade:
    marking.whole()
    assert marking.publish()["result"] == "publish"
    return Grade.objects.get(attempt__name=marking.attempt)


OF = "attempt_id = (SELECT id FROM fencing_attempt WHERE name = %s)"
FLAWS = {
    "mixed": (MIX, "fragment"),
    "incomplete": ("UPDATE fencing_grade SET fragments = fragments[1:1] WHERE {of}", "grade"),
    "changed": ("UPDATE fencing_fragment SET score = 1.0 WHERE seq = 1 AND {of}", "fragment"),
}
BODY = ("UPDATE fencing_fragment SET body = '\"better\"' WHERE seq = 1 AND {of}", "fragment")
MEAN = ("UPDATE fencing_grade SET mean = 0.9 WHERE {of}", "grade")


@pytest.mark.parametrize(
    ("flaw", "planted"), [*FLAWS.items(), ("changed", BODY), ("changed", MEAN)], ids=[*FLAWS, "body", "mean"]
)
def test_what_is_planted_in_a_published_grade_halts_its_lane(
    flaw: str, planted: tuple[str, str], marking: Marking
) -> None:
    grade = published(marking)
    assert grade_audit.audit_due() == 1
    assert lane_of(marking).state == "running"
    plant(planted[0].format(of=OF), [marking.attempt], planted[1])
    assert grade_audit.audit_due() == 0, "what was just read is not read again at once"
    grade_audit.audit_lane(marking.lane)
    lane = lane_of(marking)
    assert lane.state == "halted"
    assert flaw in str(lane.halt_reason)
    assert GradeFinding.objects.get(grade=grade).flaw == flaw
    incident = Incident.objects.get(lane=marking.lane)
    assert (incident.kind, incident.state) == ("lane_halted", "open")
    assert AuditEvent.objects.filter(verb="halt_lane", subject=marking.lane).exists()
    assert gate(marking)["gate"] == "halt"
    # A second look finds nothing new.
    grade_audit.audit_lane(marking.lane)
    assert (GradeFinding.objects.count(), LaneEvent.objects.count(), Incident.objects.count()) == (1, 1, 1)


def test_a_halted_lane_publishes_nothing_until_a_reviewer_resumes_it_and_the_fraction_stays(marking: Marking) -> None:
    published(marking)
    plant(MIX, [marking.attempt])
    grade_audit.audit_lane(marking.lane)
    first, marking.attempt = marking.attempt, fresh("attempt")
    marking.admit(marking.attempt)
    marking.whole()
    answer = marking.publish()
    assert answer["result"] == "halt"
    assert "mixed" in answer["reason"]
    assert SideLogRow.objects.filter(attempt=marking.attempt, reason="lane_halted").count() == 1
    assert marking.resume(seen=7)["code"] == "changed"
    assert marking.resume(seen=1)["state"] == "running"
    assert marking.resume()["duplicate"] is True
    assert marking.resume("Once more.")["code"] == "not_halted"
    assert marking.publish()["result"] == "publish"
    grade_audit.audit_lane(marking.lane)
    assert lane_of(marking).state == "running", "the same flaw halts once"
    assert read_counters()["i4_mixed_grades"] == {"n": 1, "of": 2}
    said = gate(marking)
    assert (said["gate"], [each["code"] for each in said["reasons"]]) == ("halt", ["mixed_grade"])
    # Graded anew, it is what the gate reads in its place.
    marking.attempt = fresh("attempt")
    marking.admit(marking.attempt, regrade_of=first)
    marking.whole()
    assert marking.publish()["result"] == "publish"
    said = gate(marking)
    assert (said["gate"], said["figures"]["mixed"], said["figures"]["published"]) == ("pass", 1, 3)
    assert said["figures"]["scored"] == 2


def test_a_fragment_of_an_epoch_that_nobody_opened_halts_the_lane_at_publication(marking: Marking) -> None:
    marking.whole()
    attempt = Attempt.objects.get(name=marking.attempt)
    plant(
        "INSERT INTO fencing_fragment (id, attempt_id, epoch, seq, body, digest, by_id, received_at)"
        " SELECT gen_random_uuid(), attempt_id, 7, 0, body, digest, by_id, received_at FROM fencing_fragment"
        " WHERE attempt_id = %s AND seq = 0",
        [attempt.id],
    )
    assert marking.publish()["result"] == "halt"
    assert lane_of(marking).state == "halted"
    assert GradeFinding.objects.get().grade is None
    assert marking.publish()["result"] == "halt"
    assert Grade.objects.count() == 0


def test_many_grades_are_read_a_bite_at_a_time_and_none_is_left_out(
    marking: Marking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grade_audit, "BITE", 5)
    for _ in range(5):
        published(marking)
        marking.attempt = fresh("attempt")
        marking.admit(marking.attempt)
    last = published(marking)
    assert grade_audit.audit_due() == 6
    plant(MIX, [last.attempt.name])
    assert grade_audit.audit_lane(marking.lane) == 6
    assert lane_of(marking).state == "halted"


# ---- work ----


def test_a_lease_that_ran_out_is_handed_out_again_in_the_same_epoch_and_the_first_sample_stays(
    marking: Marking,
) -> None:
    assert [item["seq"] for item in marking.lease(5)] == [0, 1]
    assert marking.lease(5) == []
    assert marking.send(0)["result"] == "accept"
    ago = FragmentLease.objects.first()
    assert ago is not None
    plant("UPDATE fencing_fragmentlease SET lease_until = %s", [ago.leased_at], "fragmentlease")
    Attempt.objects.filter(name=marking.attempt).update(work_at=ago.leased_at - timedelta(seconds=1))
    (again,) = marking.lease(5)
    assert (again["epoch"], again["seq"]) == (1, 1)
    assert marking.send(1, body="second worker")["result"] == "accept"
    late = marking.send(1, body="first worker")
    assert (late["result"], late["conflict"]) == ("duplicate", True)
    assert bytes(Fragment.objects.get(seq=1).body) == b'"second worker"'
    # Looked at once more, there is nothing left until a restart.
    Attempt.objects.filter(name=marking.attempt).update(work_at=ago.leased_at)
    assert marking.lease(5) == []
    assert Attempt.objects.get(name=marking.attempt).work_at is None


def test_what_was_handed_out_is_refused_after_a_restart_and_handed_out_again(marking: Marking) -> None:
    assert len(marking.lease(2)) == 2
    assert marking.restart()["epoch"] == 2
    assert [(item["epoch"], item["seq"]) for item in marking.lease(5)] == [(2, 0), (2, 1)]
    assert marking.send(0)["code"] == "stale_epoch"


def test_a_key_of_other_lanes_gets_and_gives_nothing(marking: Marking) -> None:
    bound = Caller(credential_id=marking.scorer.credential_id, name="x", role=Role.SCORER, lanes=frozenset({"another"}))
    permit = marking.permit()["permit"]
    marking.scorer = bound
    assert marking.send(0)["code"] == "not_your_lane"
    assert marking.permit()["code"] == "not_your_lane"
    assert marking.spend(permit)["code"] == "not_your_lane"
    with pytest.raises(KeyError):
        marking.lease()
    assert told(gating.read_gate(marking.lane, bound))["code"] == "not_your_lane"
    assert gate(marking)["figures"]["rejects"] == 0, "none of the lane's fragments was rejected"


def test_another_publisher_has_nothing_to_do_in_a_lane(marking: Marking) -> None:
    marking.whole()
    marking.publisher = actor(Role.PUBLISHER)
    assert marking.publish()["code"] == "not_your_lane"
    assert marking.restart()["code"] == "not_your_lane"


# ---- spend ----


def test_spend_is_money_by_the_prices_of_its_moment(
    marking: Marking, settings: Any, django_assert_max_num_queries: Any
) -> None:
    settings.FENCE_PRICES = {"m-1": Price(tokens_in=Decimal(3), tokens_out=Decimal(15), currency="EUR")}
    with django_assert_max_num_queries(18):
        assert marking.spend(marking.permit()["permit"], model="m-1")["spend"] == "wasted"
    row = Spend.objects.get()
    assert (row.cost, row.currency) == (Decimal("0.018"), "EUR")
    late = marking.permit(1)["permit"]
    marking.restart()
    assert marking.spend(late, model="no price")["spend"] == "zombie"
    assert Spend.objects.get(is_zombie=True).cost is None
    assert read_counters()["zombie_spend"] == 1
    assert SideLogRow.objects.filter(reason="zombie_spend").count() == 1


# ---- the gate's record ----


def test_what_the_gate_said_is_on_record_once_for_each_key_and_change(marking: Marking) -> None:
    one, other = actor(Role.GATE), actor(Role.GATE)
    for by in (one, one, other, one):
        gate(marking, by)
    published(marking)
    assert gate(marking, one)["gate"] == "pass"
    assert gate(marking, one)["gate"] == "pass"
    said = [(row.by_id, row.gate, row.upto) for row in GateReading.objects.order_by("read_at")]
    assert said == [(one.credential_id, "wait", 0), (other.credential_id, "wait", 0), (one.credential_id, "pass", 1)]
