"""A7: pass, halt or wait, by the first group of reasons that holds; no data is never a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol import gate
from fencing.protocol.gate import Gate, Grade, Lane, Open, Reading, Thresholds, Why

DIGEST = "sha256:" + "1" * 64


def graded(*means: float | None) -> tuple[Grade, ...]:
    return tuple(Grade(attempt=f"a-{place}", digest=DIGEST, mean=mean) for place, mean in enumerate(means))


def lane(*means: float | None, **more: Any) -> Lane:
    facts: dict[str, Any] = {
        "published": len(means),
        "mixed": 0,
        "mixed_unreplaced": 0,
        "grades": graded(*means),
        "incomplete": 0,
        "rejects": 0,
        "accepted": 20 * len(means),
        "unacknowledged": 0,
    }
    return Lane(**{**facts, **more})


def read(of: Lane, **asked: Any) -> Reading:
    return gate.judge_gate(of, Thresholds(**asked))


def why(reading: Reading) -> list[Why]:
    return [reason.code for reason in reading.reasons]


@pytest.mark.parametrize(
    ("of", "asked", "said", "reasons"),
    [
        (lane(), {}, Gate.WAIT, [Why.NOTHING_PUBLISHED]),
        (lane(0.5, incomplete=1), {}, Gate.WAIT, [Why.INCOMPLETE]),
        (lane(0.5), {"min_published": 2}, Gate.WAIT, [Why.TOO_FEW_PUBLISHED]),
        (lane(None), {"min_mean": 0.5}, Gate.WAIT, [Why.NO_SCORES]),
        (lane(None), {}, Gate.PASS, [Why.THRESHOLDS_MET]),
        (lane(0.5), {"min_mean": 0.5}, Gate.PASS, [Why.THRESHOLDS_MET]),
        (lane(0.4), {"min_mean": 0.5}, Gate.HALT, [Why.MEAN_TOO_LOW]),
        (lane(0.4, incomplete=1), {"min_mean": 0.5}, Gate.WAIT, [Why.INCOMPLETE]),
        (lane(0.5, rejects=5, accepted=20), {"max_reject_ratio": 0.2}, Gate.PASS, [Why.THRESHOLDS_MET]),
        (lane(0.5, rejects=6, accepted=20), {"max_reject_ratio": 0.2}, Gate.HALT, [Why.TOO_MANY_REJECTS]),
        (lane(unacknowledged=1), {"max_unacknowledged": 0}, Gate.HALT, [Why.TOO_MANY_UNACKNOWLEDGED]),
        (lane(0.5, unacknowledged=1), {"max_unacknowledged": 1}, Gate.PASS, [Why.THRESHOLDS_MET]),
        (lane(0.5, halted_for="mixed"), {}, Gate.HALT, [Why.LANE_HALTED]),
        (lane(0.5, mixed=1, mixed_unreplaced=1), {}, Gate.HALT, [Why.MIXED_GRADE]),
        (lane(0.5, mixed=1, mixed_unreplaced=0), {}, Gate.PASS, [Why.THRESHOLDS_MET]),
        (
            lane(0.5, halted_for="mixed", mixed=1, mixed_unreplaced=1, incomplete=1),
            {},
            Gate.HALT,
            [Why.LANE_HALTED, Why.MIXED_GRADE],
        ),
    ],
)
def test_the_first_group_of_reasons_decides(of: Lane, asked: dict[str, Any], said: Gate, reasons: list[Why]) -> None:
    reading = read(of, **asked)
    assert (reading.gate, why(reading)) == (said, reasons)


def test_the_sentence_names_what_is_missed() -> None:
    of = replace(lane(*[0.5] * 19), incomplete=1, waiting=(Open(attempt="a-17", missing=(4, 9)),))
    assert read(of).reasons[0].detail == "19 of 20 attempts are published; attempt a-17 misses seq 4 and 9."


counts = st.integers(0, 5)
LANES = st.builds(
    lambda means, more: lane(*means, **more),
    st.lists(st.none() | st.floats(-1e3, 1e3), max_size=5),
    st.fixed_dictionaries(
        {
            "incomplete": counts,
            "rejects": counts,
            "accepted": counts,
            "unacknowledged": counts,
            "mixed_unreplaced": st.integers(0, 1),
            "halted_for": st.none() | st.just("mixed"),
        }
    ),
)
ASKED = st.builds(
    Thresholds,
    min_published=st.none() | counts,
    min_mean=st.none() | st.floats(-1e3, 1e3),
    max_reject_ratio=st.none() | st.floats(0, 1),
    max_unacknowledged=st.none() | counts,
)


@given(LANES, ASKED)
def test_a_pass_leaves_no_reason_to_doubt(of: Lane, asked: Thresholds) -> None:
    """Written anew from A7, and not by the functions that decide."""
    reading = gate.judge_gate(of, asked)
    scored = [each.mean for each in of.grades if each.mean is not None]
    doubts = [
        of.halted_for is not None,
        of.mixed_unreplaced > 0,
        asked.max_unacknowledged is not None and of.unacknowledged > asked.max_unacknowledged,
        of.published == 0,
        of.incomplete > 0,
        asked.min_published is not None and of.published < asked.min_published,
        asked.min_mean is not None and not scored,
        asked.min_mean is not None and bool(scored) and (reading.figures["mean"] < asked.min_mean),
        asked.max_reject_ratio is not None
        and of.rejects > 0
        and of.rejects / (of.rejects + of.accepted) > asked.max_reject_ratio,
    ]
    assert (reading.gate is Gate.PASS) is (not any(doubts))
    assert reading.reasons
    assert {gate.GATE_OF[code] for code in why(reading)} == {reading.gate}
    if any(doubts[:3]):
        assert reading.gate is Gate.HALT
    elif any(doubts[3:7]):
        assert reading.gate is Gate.WAIT


@given(st.permutations(graded(0.1, 0.2, 0.3, 0.4)))
def test_the_snapshot_is_of_a_set(grades: list[Grade]) -> None:
    assert gate.snapshot_of(grades) == gate.snapshot_of(graded(0.1, 0.2, 0.3, 0.4))
    assert gate.snapshot_of(grades[:3]) != gate.snapshot_of(grades)


def test_the_interval_is_students() -> None:
    assert gate.interval([]) is None
    one = gate.interval([0.5])
    assert one is not None
    assert (one.mean, one.low, one.high) == (0.5, None, None)
    many = gate.interval([0.0, 0.25, 0.5])
    assert many is not None
    assert many.low == pytest.approx(0.25 - 4.303 * 0.25 / 3**0.5)
    assert many.high == pytest.approx(0.25 + 4.303 * 0.25 / 3**0.5)


@pytest.mark.parametrize(("freedom", "value"), [(31, 2.0395), (60, 2.0003), (120, 1.9799), (100_000, 1.96)])
def test_beyond_the_table_the_expansion_is_as_good(freedom: int, value: float) -> None:
    assert gate.student(freedom) == pytest.approx(value, abs=2e-4)


def test_scores_beyond_all_measure_have_no_interval_and_do_no_harm() -> None:
    reading = read(lane(1.7e308, -1.7e308, 1.7e308))
    assert reading.gate is Gate.PASS
    assert reading.figures["interval"] is None
