"""Runs and one run: every epoch, restart and replay in plain sight, in a bounded number of queries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dashboard.presenters.runs import sentence_of
from tests.dashboard.conftest import SignedIn
from tests.factories import fresh, make_grant, make_opening, make_rejected_step, make_run, make_step, soon

pytestmark = pytest.mark.django_db
UGLY = "run-" + "a-very-long-identifier." * 8 + "0123456789ab"


def test_no_run_yet_tells_how_one_appears(signed_in: SignedIn) -> None:
    assert "No run yet" in signed_in().get("/runs").content.decode()


def test_runs_stand_newest_first_with_their_steps_by_phase(signed_in: SignedIn) -> None:
    old = make_run(name=fresh("old"), opened_at=soon(-60))
    new = make_run(name=fresh("new"))
    make_step(run=old, phase="proposed")
    page = signed_in().get("/runs").content.decode()
    assert page.index(new.name) < page.index(old.name)
    assert "proposed" in page


def test_a_prefix_filters_and_says_so_where_nothing_begins_with_it(signed_in: SignedIn) -> None:
    make_run(name="alpha-1")
    make_run(name="beta-1")
    client = signed_in()
    page = client.get("/runs?run=alpha").content.decode()
    assert "alpha-1" in page
    assert "beta-1" not in page
    assert "No run begins with that" in client.get("/runs?run=gamma").content.decode()


def test_pages_neither_skip_nor_repeat(signed_in: SignedIn) -> None:
    names = {make_run(name=f"paged-{number:03}").name for number in range(60)}
    client = signed_in()
    first = client.get("/runs")
    shown = {line.name for line, _ in first.context["rows"]}
    second = client.get(first.context["pager"].next_url)
    rest = {line.name for line, _ in second.context["rows"]}
    assert shown | rest >= names
    assert not shown & rest


@pytest.mark.parametrize("cursor", ["nonsense", "%00", "a" * 300])
def test_a_cursor_that_no_list_gave_begins_at_the_newest(signed_in: SignedIn, cursor: str) -> None:
    run = make_run()
    assert run.name in signed_in().get(f"/runs?cursor={cursor}").content.decode()


def test_a_run_shows_its_restart_and_replay_and_who_did_it(signed_in: SignedIn) -> None:
    run = make_run(epoch=1)
    make_opening(run=run, number=2, kind="restart", from_epoch=1, reason="planner <b>restarted</b>")
    make_opening(run=run, number=3, kind="replay", from_epoch=2, step_name="pay", reason="again")
    make_rejected_step(run=run, name="pay", epoch=2)
    make_step(run=run, name="pay", epoch=3, phase="proposed")
    page = signed_in().get(f"/runs/{run.name}").content.decode()
    assert "restarted" in page
    assert "step pay goes on from 2 in epoch 3" in page
    assert "planner &lt;b&gt;restarted&lt;/b&gt;" in page
    assert page.index("Epoch 3") < page.index("Epoch 2")


def test_a_run_shows_its_grants_with_their_scope_and_use(signed_in: SignedIn) -> None:
    grant = make_grant(run=make_run(), tool="refund")
    page = signed_in().get(f"/runs/{grant.run.name}").content.decode()
    assert grant.name in page
    assert f"0 / {grant.max_uses}" in page


def test_a_run_that_is_not_there_is_a_page_that_says_so(signed_in: SignedIn) -> None:
    answer = signed_in().get("/runs/no-such-run")
    assert answer.status_code == 404
    assert b"Traceback" not in answer.content


def test_a_long_name_is_shown_whole_somewhere(signed_in: SignedIn) -> None:
    make_run(name=UGLY)
    assert UGLY in signed_in().get(f"/runs/{UGLY}").content.decode()


def test_steps_can_be_filtered_by_phase(signed_in: SignedIn) -> None:
    run = make_run()
    make_step(run=run, name="kept", phase="proposed")
    make_rejected_step(run=run, name="left-out", reason="timeout")
    page = signed_in().get(f"/runs/{run.name}?phase=proposed&part=steps").content.decode()
    assert "kept" in page
    assert "left-out" not in page


def test_queries_do_not_grow_with_runs_and_steps(signed_in: SignedIn, django_assert_max_num_queries: object) -> None:
    run = make_run()
    for number in range(40):
        make_step(run=run, name=f"s{number}", phase="proposed")
        make_run()
    client = signed_in()
    with django_assert_max_num_queries(8):  # type: ignore[operator]
        client.get("/runs")
    with django_assert_max_num_queries(14):  # type: ignore[operator]
        client.get(f"/runs/{run.name}")


def test_the_sentence_counts_every_phase_and_calls_the_rest_undecided() -> None:
    phases = {"committed": 3, "rejected": 1, "proposed": 2, "idle": 1}
    text, hue = sentence_of(phases, 7, 9)
    assert text == "7 steps, now in epoch 7: 3 committed, 1 rejected, 3 undecided. Replays reached number 9."
    assert hue == "waiting"


def test_a_run_without_steps_says_so() -> None:
    assert sentence_of({}, 1, 1)[0].startswith("Nothing was proposed yet")


def test_the_moment_is_told_in_utc(signed_in: SignedIn) -> None:
    run = make_run(opened_at=datetime(2026, 3, 4, 2, 14, 7, tzinfo=UTC))
    assert "2026-03-04 02:14:07" in signed_in().get(f"/runs/{run.name}").content.decode()
