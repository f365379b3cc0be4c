"""The overview says what waits and whether the rules hold, in a bounded number of queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from dashboard.presenters.marks import Hue
from dashboard.presenters.overview import decisions, lines_of, refusals, rules_of, sentence_of
from fencing.queries.overview import Hour, Undecided, Waiting
from tests.dashboard.conftest import SignedIn
from tests.factories import (
    NO_DIGEST,
    make_incident,
    make_intent,
    make_rejected_step,
    make_run,
    make_step,
    make_verdict,
    soon,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 4, 2, 30, tzinfo=UTC)
NOTHING = Waiting(count=0, oldest=None)


def test_nobody_sees_it_without_signing_in(client: Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/sign-in")


def test_an_empty_system_says_that_nothing_waits(signed_in: SignedIn) -> None:
    page = signed_in().get("/").content.decode()
    assert "Nothing waits:" in page
    assert "Every step is decided" in page
    assert "no data" in page
    assert "0 %" not in page


def test_what_waits_is_named_with_its_count(signed_in: SignedIn) -> None:
    step = make_step(phase="proposed")
    make_intent(step=step, digest=NO_DIGEST, state="in_doubt")
    make_incident(kind="late_divergence")
    make_rejected_step()
    make_rejected_step()
    page = signed_in().get("/").content.decode()
    assert "1 effect in doubt" in page
    assert "1 open incident" in page
    assert "2 divergences to judge" in page


def test_a_divergence_with_a_verdict_waits_for_nobody(signed_in: SignedIn) -> None:
    make_verdict(step=make_rejected_step())
    assert "to judge" not in signed_in().get("/").content.decode()


def test_the_oldest_undecided_steps_stand_first_and_the_rest_is_counted(signed_in: SignedIn) -> None:
    run = make_run()
    for number in range(10):
        make_step(run=run, name=f"s{number}", phase="proposed", proposed_at=soon(-600 + number))
    page = signed_in().get("/?part=undecided").content.decode()
    assert "s0" in page
    assert "s9" not in page
    assert "10 steps are undecided" in page


def test_queries_do_not_grow_with_what_is_shown(signed_in: SignedIn, django_assert_max_num_queries: object) -> None:
    client = signed_in()
    for _ in range(12):
        make_rejected_step()
        make_step(phase="proposed")
        make_incident(kind="late_divergence")
    with django_assert_max_num_queries(24):  # type: ignore[operator]
        assert client.get("/").status_code == 200


@pytest.mark.parametrize(("part", "most"), [("waiting", 11), ("rules", 5), ("undecided", 6)])
def test_a_live_part_pays_for_itself_alone(
    signed_in: SignedIn, django_assert_max_num_queries: object, part: str, most: int
) -> None:
    client = signed_in()
    with django_assert_max_num_queries(most):  # type: ignore[operator]
        assert client.get(f"/?part={part}").status_code == 200


def test_an_unknown_window_is_the_usual_one(signed_in: SignedIn) -> None:
    assert signed_in().get("/?window=';drop").status_code == 200


def test_a_kind_of_which_nothing_waits_has_no_line() -> None:
    assert (
        lines_of({"doubts": (NOTHING, ""), "incidents": (Waiting(count=1, oldest=NOW), "/incidents")})[0].url
        == "/incidents"
    )
    assert lines_of({"doubts": (NOTHING, "")}) == []


def test_the_sentence_tells_since_when_the_oldest_step_is_undecided() -> None:
    step = Undecided(
        run="r", step="s", epoch=1, phase="proposed", proposed_at=NOW - timedelta(seconds=41), deadline_at=NOW
    )
    assert sentence_of([], 3, [step], NOW) == ("Nothing waits for you: 3 steps are undecided, the oldest for 41 s.", "")


def test_an_open_incident_makes_the_sentence_dangerous() -> None:
    lines = lines_of({"incidents": (Waiting(count=2, oldest=NOW), "")})
    assert sentence_of(lines, 0, [], NOW) == ("Waiting for a person: 2 open incidents.", Hue.DANGER.value)


def test_hours_without_a_decision_are_zeros_and_not_holes() -> None:
    hour = Hour(at=NOW.replace(minute=0) - timedelta(hours=2), name="committed", count=5)
    figure = decisions([hour], NOW, timedelta(hours=4))
    assert [row[0] for row in figure.rows] == ["23:00", "00:00", "01:00", "02:00"]
    assert [row[1] for row in figure.rows] == ["0", "5", "0", "0"]


def test_no_decision_at_all_is_no_figure() -> None:
    assert decisions([], NOW, timedelta(hours=4)).is_empty


def test_rare_reasons_are_added_up() -> None:
    hours = [Hour(at=NOW, name=f"reason_{number}", count=10 - number) for number in range(8)]
    figure = refusals(hours)
    assert figure.rows[-1] == ("others", "7")
    assert figure.rows[0] == ("reason 0", "10")


def test_every_invariant_stands_there_in_the_order_of_the_protocol() -> None:
    ratio = {"n": 0, "of": 1}
    names = (
        "i1_divergent_commits i2_landed_escapes i2_attempted_escapes i3_wrong_effects i4_mixed_grades"
        " i5_untraced_inputs i6_undetected_edits correlated_agreements"
    )
    counters = dict.fromkeys(names.split(), ratio)
    assert [rule.what[:2] for rule in rules_of(counters)][:7] == ["I1", "I2", "at", "I3", "I4", "I5", "I6"]
