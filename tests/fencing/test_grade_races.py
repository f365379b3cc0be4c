"""Races of design 11 between use cases of grades, on real connections. Each names every end that is allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pytest_django.plugin import DjangoDbBlocker

from fencing.models import Attempt, AttemptEpoch, Fragment, FragmentLease, Grade, SideLogRow
from tests.fencing.beside import at_once, empty_database, held
from tests.length import long_or
from tests.marking import Marking
from tests.stories import register

ROUNDS = long_or(6, long=200)


@pytest.fixture
def marking(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Marking]:
    """A lane and an attempt of two fragments, committed; what is committed is removed afterwards."""
    with django_db_blocker.unblock():
        register([])
        yield Marking.begin()
        empty_database()


def fresh_attempt(marking: Marking) -> Attempt:
    marking.attempt = f"{marking.attempt.partition('_')[0]}_{Attempt.objects.count()}"
    marking.admit(marking.attempt)
    return Attempt.objects.get(name=marking.attempt)


def seen(attempt: Attempt) -> tuple[int, str, list[int]]:
    """The open epoch, the state, and the epochs of the fragments in the grade."""
    attempt.refresh_from_db()
    grade = Grade.objects.filter(attempt=attempt).first()
    epochs = (
        [] if grade is None else sorted(Fragment.objects.filter(pk__in=grade.fragments).values_list("epoch", flat=True))
    )
    return attempt.epoch, attempt.state, epochs


def test_a_fragment_behind_a_restart_is_stale_and_one_before_it_is_dropped(marking: Marking) -> None:
    with held() as beside:
        assert marking.restart()["epoch"] == 2
        late = beside(lambda: marking.send(0, epoch=1))
    assert late.result(15)["code"] == "stale_epoch"
    fresh_attempt(marking)
    with held() as beside:
        assert marking.send(0)["result"] == "accept"
        restart = beside(marking.restart)
    assert restart.result(15)["dropped"] == 1


def test_a_publication_behind_a_restart_misses_everything(marking: Marking) -> None:
    marking.whole()
    with held() as beside:
        assert marking.restart()["dropped"] == 2
        late = beside(marking.publish)
    assert late.result(15) == {"status": 200, "result": "incomplete", "missing": [0, 1], "expected": 2}


def test_a_restart_behind_a_publication_is_refused(marking: Marking) -> None:
    marking.whole()
    with held() as beside:
        grade = marking.publish()["grade"]
        late = beside(marking.restart)
    assert late.result(15)["code"] == "already_published"
    assert marking.publish()["grade"] == grade


def test_a_publication_waits_for_the_fragment_that_makes_it_whole(marking: Marking) -> None:
    marking.send(0)
    with held() as beside:
        assert marking.send(1)["result"] == "accept"
        late = beside(marking.publish)
    assert late.result(15)["result"] == "publish"


def test_everything_at_once_gives_one_epoch_or_no_grade(marking: Marking) -> None:
    """A fragment, a restart and a publication begin together: whoever is first, the grade is of one epoch whole."""
    ends: Counter[str] = Counter()
    for _ in range(ROUNDS):
        attempt = fresh_attempt(marking)
        marking.send(0)
        fragment, restart, publication = at_once(lambda: marking.send(1), marking.restart, marking.publish)
        epoch, state, epochs = seen(attempt)
        if publication["result"] == "publish":
            assert (epoch, state, epochs) == (1, "published", [1, 1])
            assert fragment["result"] == "accept"
            assert restart["code"] == "already_published"
        else:
            assert (epoch, state, epochs) == (2, "open", [])
            assert restart["dropped"] == (2 if fragment.get("result") == "accept" else 1)
            assert fragment.get("result") == "accept" or fragment["code"] == "stale_epoch"
        ends[publication["result"]] += 1
    assert sum(ends.values()) == ROUNDS
    assert SideLogRow.objects.filter(kind="fragment").exclude(reason="stale_epoch").count() == 0


def test_two_publications_give_one_grade(marking: Marking) -> None:
    for _ in range(ROUNDS):
        attempt = fresh_attempt(marking)
        marking.whole()
        one, other = at_once(marking.publish, marking.publish)
        assert (one["result"], one["grade"]) == ("publish", other["grade"])
        assert sorted([bool(one.get("duplicate")), bool(other.get("duplicate"))]) == [False, True]
        assert Grade.objects.filter(attempt=attempt).count() == 1


def test_publications_of_one_lane_have_their_places_one_after_the_other(marking: Marking) -> None:
    lanes = [Marking(publisher=marking.publisher, scorer=marking.scorer, lane=marking.lane) for _ in range(3)]
    for each in lanes:
        each.admit(each.attempt)
        each.whole()
    assert [end["result"] for end in at_once(*(each.publish for each in lanes))] == ["publish"] * 3
    assert sorted(Grade.objects.values_list("place", flat=True)) == [1, 2, 3]


def test_of_two_restarts_one_opens_the_next_epoch(marking: Marking) -> None:
    for _ in range(ROUNDS):
        attempt = fresh_attempt(marking)
        one, other = at_once(lambda: marking.restart(reason="first"), lambda: marking.restart(reason="second"))
        assert sorted([one.get("code", ""), other.get("code", "")]) == ["", "stale_epoch"]
        assert AttemptEpoch.objects.filter(attempt=attempt).count() == 2
        # The same restart twice is one.
        ends = at_once(lambda: marking.restart(2, "same"), lambda: marking.restart(2, "same"))
        assert sorted(str(end.get("duplicate")) for end in ends) == ["None", "True"]
        assert seen(attempt)[0] == 3


def test_the_same_fragment_twice_at_once_is_one_sample(marking: Marking) -> None:
    for _ in range(ROUNDS):
        attempt = fresh_attempt(marking)
        ends = at_once(lambda: marking.send(0, body="one"), lambda: marking.send(0, body="other"))
        assert sorted(end["result"] for end in ends) == ["accept", "duplicate"]
        assert Fragment.objects.filter(attempt=attempt).count() == 1


def test_no_fragment_is_handed_to_two_workers(marking: Marking) -> None:
    for _ in range(ROUNDS):
        attempt = fresh_attempt(marking)
        at_once(*[lambda: marking.lease(1)] * 4)
        while marking.lease(5):
            pass
        leases = FragmentLease.objects.filter(attempt=attempt)
        assert sorted(leases.values_list("seq", flat=True)) == [0, 1]
