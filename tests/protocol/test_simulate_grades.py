"""Section 16, the grade part: the exact figures, and that the suite can fail."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.protocol import grades
from fencing.protocol.simulate import grading
from fencing.protocol.simulate.grading import ORDERS, appending, enforcing, play_orders


def test_no_grade_is_mixed_and_every_stale_fragment_is_on_record() -> None:
    shown = play_orders()
    assert [str(figure) for figure in shown.ours] == ["mixed_grades=0/3", "stale_in_side_log=2/2"]
    assert str(shown.control) == "mixed_grades=2/3"
    assert shown.faults == ()


def test_the_orders_are_the_four_that_are_named() -> None:
    ends = {name: (enforcing(events).grade, appending(events).is_mixed) for name, events in ORDERS.items()}
    assert ends == {
        "late_old_fragment": ((2, 2), True),
        "same_fragment_twice": ((1, 1), False),
        "publish_before_complete": (None, False),
        "zombie_across_restart": ((2, 2), True),
    }


def test_a_core_that_takes_stale_fragments_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: the epoch of a fragment is not looked at, and neither is it at publication."""

    def careless(attempt: Any, offered: Any, known: Any, **_: Any) -> Any:
        return grades.Duplicate(conflict=False) if known else grades.Accept()

    def blind(attempt: grades.Attempt, fragments: Any, **_: Any) -> Any:
        return (
            grades.Publish(mean=None, digest="")
            if len(fragments) >= attempt.expected
            else grades.Incomplete(missing=())
        )

    monkeypatch.setattr(grades, "judge_fragment", careless)
    monkeypatch.setattr(grades, "judge_publish", blind)
    monkeypatch.setattr(grades, "judge_restart", lambda attempt, **_: attempt.epoch)
    shown = play_orders()
    assert shown.ours[0].n > 0
    assert shown.faults


def test_a_control_that_mixes_nothing_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading, "appending", enforcing)
    assert play_orders().faults == ("mixed_grades=0/3 and must be 2/3",)
