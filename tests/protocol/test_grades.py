"""A1 to A4 and A6 on the pure core: whatever comes in which order, a grade is one epoch whole, or there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol import grades
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.grades import (
    Accept,
    Attempt,
    Duplicate,
    Flaw,
    Fragment,
    Halt,
    Incomplete,
    LaneState,
    Permit,
    Publish,
    Published,
    Spend,
    State,
)

OPEN = Attempt(attempt="a-17", expected=3, epoch=2)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def part(seq: int = 0, epoch: int = 2, body: str = "1", score: float | None = None) -> Fragment:
    return Fragment(epoch=epoch, seq=seq, digest="sha256:" + body * 64, score=score)


def judge(
    offered: Fragment, attempt: Attempt | None = OPEN, known: Fragment | None = None, token: str | None = None
) -> object:
    verdict = grades.judge_fragment(attempt, offered, known, token=token, permit=None)
    return verdict.code if isinstance(verdict, Refusal) else verdict


PUBLISHED = replace(OPEN, state=State.PUBLISHED)
STRICT = replace(OPEN, require_permits=True)


@pytest.mark.parametrize(
    ("attempt", "offered", "known", "end"),
    [
        (None, part(), None, Code.UNKNOWN_ATTEMPT),
        (OPEN, part(), None, Accept()),
        (OPEN, part(epoch=1), None, Code.STALE_EPOCH),
        (OPEN, part(epoch=3), None, Code.FUTURE_EPOCH),
        (OPEN, part(seq=3), None, Code.SEQ_OUT_OF_RANGE),
        (OPEN, part(seq=-1), None, Code.SEQ_OUT_OF_RANGE),
        (OPEN, part(), part(), Duplicate(conflict=False)),
        (OPEN, part(), part(body="2"), Duplicate(conflict=True)),
        (OPEN, part(score=0.5), part(score=0.25), Duplicate(conflict=True)),
        (PUBLISHED, part(), part(), Duplicate(conflict=False)),
        (PUBLISHED, part(), None, Code.ALREADY_PUBLISHED),
        (PUBLISHED, part(epoch=1), None, Code.STALE_EPOCH),
        (PUBLISHED, part(seq=9), None, Code.SEQ_OUT_OF_RANGE),
        (STRICT, part(), None, Code.BAD_PERMIT),
        (STRICT, part(), part(), Duplicate(conflict=False)),
        (STRICT, part(epoch=1), None, Code.STALE_EPOCH),
    ],
)
def test_a_fragment_is_answered_by_the_first_row_that_matches(
    attempt: Attempt | None, offered: Fragment, known: Fragment | None, end: object
) -> None:
    assert judge(offered, attempt, known) == end


@pytest.mark.parametrize(
    ("permit", "token", "good"),
    [
        (Permit(attempt="a-17", epoch=2, seq=0, token="t"), "t", True),
        (Permit(attempt="a-17", epoch=2, seq=0, token="t"), "u", False),
        (Permit(attempt="a-17", epoch=1, seq=0, token="t"), "t", False),
        (Permit(attempt="a-17", epoch=2, seq=1, token="t"), "t", False),
        (Permit(attempt="a-18", epoch=2, seq=0, token="t"), "t", False),
        (None, "t", False),
    ],
)
@pytest.mark.parametrize("attempt", [OPEN, STRICT])
def test_a_permit_is_good_for_its_own_fragment_alone(
    attempt: Attempt, permit: Permit | None, token: str, good: bool
) -> None:
    verdict = grades.judge_fragment(attempt, part(), None, token=token, permit=permit)
    assert (verdict == Accept()) is good
    assert good or (isinstance(verdict, Refusal) and verdict.code is Code.BAD_PERMIT)


def test_a_restart_opens_the_next_epoch_for_who_knows_the_open_one() -> None:
    assert grades.judge_restart(OPEN, expected_epoch=2) == 3
    for expected, code in ((1, Code.STALE_EPOCH), (3, Code.FUTURE_EPOCH)):
        refusal = grades.judge_restart(OPEN, expected_epoch=expected)
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.extras["current_epoch"]) == (code, 2)
    refusal = grades.judge_restart(PUBLISHED, expected_epoch=2)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.ALREADY_PUBLISHED


def publish(*parts: Fragment, halted: bool = False, expected: int | None = None) -> object:
    return grades.judge_publish(OPEN, parts, is_lane_halted=halted, expected=expected)


def test_what_is_missing_is_told_and_nothing_is_published() -> None:
    assert publish() == Incomplete(missing=(0, 1, 2))
    assert publish(part(0), part(2)) == Incomplete(missing=(1,))
    assert publish(part(0), part(1), part(2), expected=4) == Incomplete(missing=())
    assert isinstance(publish(part(2), part(0), part(1), expected=3), Publish)


def test_a_foreign_epoch_inside_halts_even_where_the_set_is_whole() -> None:
    whole = (part(0), part(1), part(2))
    assert publish(*whole, part(1, epoch=3)) == Halt(found=3)
    assert publish(part(0, epoch=1)) == Halt(found=1)
    assert publish(*whole, halted=True) == Halt()


@given(st.lists(scores, min_size=3, max_size=3), st.permutations(range(3)))
def test_a_grade_is_the_same_in_whatever_order_its_fragments_came(
    given_scores: list[float | None], order: list[int]
) -> None:
    parts = [part(seq, score=score) for seq, score in enumerate(given_scores)]
    assert publish(*(parts[seq] for seq in order)) == publish(*parts)


@given(st.lists(scores, max_size=40))
def test_a_mean_is_finite_and_lies_between_the_scores(given_scores: list[float | None]) -> None:
    mean = grades.mean_of([part(seq, score=score) for seq, score in enumerate(given_scores)])
    there = [score for score in given_scores if score is not None]
    assert (mean is None) is (not there)
    if mean is not None:
        slack = 1e-12 * max(map(abs, there)) + 1e-300
        assert math.isfinite(mean)
        assert min(there) - slack <= mean <= max(there) + slack


# ---- a store that does nothing but what the verdicts say, under any string of inputs ----


@dataclass
class Store:
    """One attempt and its lane."""

    attempt: Attempt = field(default_factory=lambda: Attempt(attempt="a", expected=2, epoch=1))
    accepted: dict[tuple[int, int], Fragment] = field(default_factory=dict)
    grade: tuple[Publish, tuple[Fragment, ...]] | None = None
    inputs: int = 0
    accepts: int = 0
    duplicates: int = 0
    side_log: list[Code] = field(default_factory=list)

    def send(self, offered: Fragment) -> None:
        self.inputs += 1
        known = self.accepted.get((offered.epoch, offered.seq))
        verdict = grades.judge_fragment(self.attempt, offered, known, token=None, permit=None)
        if isinstance(verdict, Refusal):
            self.side_log.append(verdict.code)
        elif isinstance(verdict, Duplicate):
            self.duplicates += 1
        else:
            self.accepts += 1
            self.accepted[(offered.epoch, offered.seq)] = offered

    def restart(self, expected_epoch: int) -> None:
        number = grades.judge_restart(self.attempt, expected_epoch=expected_epoch)
        if isinstance(number, int):
            self.attempt = replace(self.attempt, epoch=number)

    def publish(self) -> None:
        parts = [each for each in self.accepted.values() if each.epoch >= self.attempt.epoch]
        if self.attempt.state is State.OPEN:
            verdict = grades.judge_publish(self.attempt, parts, is_lane_halted=False, expected=None)
            if isinstance(verdict, Publish):
                self.grade = verdict, tuple(sorted(parts, key=lambda each: each.seq))
                self.attempt = replace(self.attempt, state=State.PUBLISHED)


EVENT = st.one_of(
    st.builds(part, st.integers(-1, 2), st.integers(1, 4), st.sampled_from("12"), st.sampled_from([None, 0.0, 1.0])),
    st.integers(1, 4),
    st.none(),
)


@given(st.lists(EVENT, max_size=30))
def test_no_string_of_inputs_gives_a_grade_of_two_epochs_a_short_one_or_one_that_changes(
    events: list[Fragment | int | None],
) -> None:
    store, first = Store(), None
    for event in events:
        if isinstance(event, Fragment):
            store.send(event)
        elif event is None:
            store.publish()
        else:
            store.restart(event)
        first = first or store.grade
        assert store.grade == first, "a grade changed"
    assert store.accepts + store.duplicates + len(store.side_log) == store.inputs
    if store.grade is not None:
        grade, parts = store.grade
        assert {each.epoch for each in parts} == {store.attempt.epoch}
        assert [each.seq for each in parts] == [0, 1]
        assert grade.digest == grades.grade_digest("a", store.attempt.epoch, parts)


# ---- what is read again ----


def published(*parts: Fragment | None, **more: object) -> Published:
    held = [each for each in parts if each is not None]
    facts: dict[str, object] = {
        "attempt": "a-17",
        "epoch": 2,
        "expected": 3,
        "mean": grades.mean_of(held),
        "digest": grades.grade_digest("a-17", 2, held),
        "fragments": tuple(None if each is None else ("a-17", each) for each in parts),
    }
    return Published(**{**facts, **more})  # type: ignore[arg-type]


WHOLE = (part(0, score=0.5), part(1), part(2, score=1.0))


def test_a_good_grade_has_no_flaw() -> None:
    assert grades.flaw_of(published(*WHOLE)) is None


@pytest.mark.parametrize(
    ("grade", "flaw"),
    [
        (published(WHOLE[0], WHOLE[1], part(2, epoch=1)), Flaw.MIXED),
        (published(*WHOLE, epoch=3), Flaw.MIXED),
        (published(*WHOLE, fragments=tuple(("a-18", each) for each in WHOLE)), Flaw.MIXED),
        (published(WHOLE[0], None, WHOLE[2]), Flaw.INCOMPLETE),
        (published(*WHOLE[:2]), Flaw.INCOMPLETE),
        (published(), Flaw.INCOMPLETE),
        (published(WHOLE[0], WHOLE[0], WHOLE[2]), Flaw.INCOMPLETE),
        (published(*WHOLE, mean=0.76), Flaw.CHANGED),
        (published(*WHOLE, mean=None), Flaw.CHANGED),
        (published(*WHOLE, digest="sha256:" + "0" * 64), Flaw.CHANGED),
    ],
)
def test_a_flaw_is_found_whatever_the_grade_says_of_itself(grade: Published, flaw: Flaw) -> None:
    found = grades.flaw_of(grade)
    assert found is not None
    assert found[0] is flaw


def test_spend_after_the_end_of_its_epoch_is_zombie_spend_whatever_came_of_it() -> None:
    assert grades.classify_spend(was_closed=True, has_fragment=True) is Spend.ZOMBIE
    assert grades.classify_spend(was_closed=False, has_fragment=True) is Spend.LIVE
    assert grades.classify_spend(was_closed=False, has_fragment=False) is Spend.WASTED


def test_the_tables_of_transitions_name_every_state() -> None:
    assert set(grades.TRANSITIONS) == set(State)
    assert set(grades.LANE_TRANSITIONS) == set(LaneState)
