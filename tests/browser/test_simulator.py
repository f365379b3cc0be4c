"""The simulator in a real browser: from the figures to the trace that shows one, and a failing trace by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from fencing.protocol.simulate.strings import Tally, try_all
from tests.browser.watching import Watch, check_axe, check_fits, shoot
from tests.protocol.faults import grant_that_beats_a_divergence

Open = Callable[..., Page]


@pytest.fixture(autouse=True)
def traces(tmp_path: Path, settings: Settings) -> Path:
    """A data folder of its own, with no failing trace in it."""
    settings.FENCE_DATA = tmp_path
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


def write_failing(folder: Path) -> str:
    """Write what the command line writes where a fault is planted."""
    with pytest.MonkeyPatch.context() as planted:
        grant_that_beats_a_divergence(planted)
        failure = try_all(4, tally=Tally())
    assert failure is not None
    form = {**failure.as_json(), "sentence": "</script>\u202e it was committed with 2 digests " + "on record " * 90}
    name = "I1-" + "0123456789ab" * 6 + ".json"
    (folder / name).write_text(json.dumps(form))
    return name


def test_an_engineer_opens_the_trace_in_which_a_call_leaks_after_a_reject(sign_in: Open) -> None:
    page = sign_in("vera", "/")
    page.get_by_role("navigation", name="Places").get_by_role("link", name="Simulator").click()
    leaky = page.get_by_role("region", name="Leaky gateway")
    leaky.get_by_role("link", name="after a reject").click()
    expect(page.get_by_label("leaky gateway", exact=True)).to_have_value("after_reject")
    table = page.get_by_role("region", name="Traces", exact=True).get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(1 + 8)
    table.get_by_role("link", name="Trace 9", exact=True).click()
    expect(page.get_by_role("heading", name="Trace 9")).to_be_visible()
    last = page.get_by_role("region", name="Events in order").get_by_role("row").last
    expect(last).to_contain_text("let through without authority")
    expect(last).to_contain_text("refused")
    expect(page.get_by_text("No commit token exists, and nothing was sent.")).to_be_visible()


def test_filters_by_flag_lead_back_to_the_list_and_can_be_taken_away(sign_in: Open) -> None:
    page = sign_in("vera", "/simulator")
    filters = page.get_by_role("search", name="Filters")
    filters.get_by_label("grant", exact=True).select_option("yes")
    filters.get_by_label("grant expired").select_option("yes")
    filters.get_by_label("this gateway").select_option("none")
    filters.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("2 traces of 32")).to_be_visible()
    assert page.url.endswith("#traces")
    expect(page.get_by_role("heading", name="Traces", exact=True)).to_be_in_viewport()
    filters.get_by_role("link", name="Show all").click()
    expect(page.get_by_text("32 traces of 32")).to_be_visible()


def test_a_trace_leads_to_its_twin_and_its_differences_are_walked_by_keys(sign_in: Open) -> None:
    page = sign_in("vera", "/simulator/4")
    page.keyboard.press("n")
    focused = page.locator("tr:focus")
    expect(focused).to_contain_text("vetoed by the expired grant")
    page.get_by_role("row", name="grant expired").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Trace 3")).to_be_visible()
    page.get_by_role("link", name="Trace 2", exact=True).click()
    expect(page.get_by_role("heading", name="Trace 2")).to_be_visible()


def test_a_failing_trace_is_opened_from_the_list(sign_in: Open, traces: Path) -> None:
    write_failing(traces)
    page = sign_in("vera", "/simulator")
    page.get_by_role("list", name="Failing traces").get_by_role("link").click()
    expect(page.get_by_text("fails no more")).to_be_visible()
    expect(page.get_by_text("U+202E")).to_be_visible()


def test_axe_finds_nothing_and_a_narrow_phone_is_wide_enough(sign_in: Open, traces: Path) -> None:
    name = write_failing(traces)
    page = sign_in("vera", "/simulator")
    for path in ("/simulator", "/simulator?leaky=veto&grant=no", "/simulator/4", "/simulator/15"):
        page.goto(path)
        check_axe(page)
        check_fits(page)
    page.goto(f"/simulator/failing/{name}")
    check_axe(page)
    check_fits(page)


def test_no_table_scrolls_sideways_on_a_phone(sign_in: Open, traces: Path) -> None:
    name = write_failing(traces)
    page = sign_in("vera", "/simulator")
    page.set_viewport_size({"width": 320, "height": 640})
    for path in ("/simulator", "/simulator/4", "/simulator/15", f"/simulator/failing/{name}"):
        page.goto(path)
        for frame in page.locator(".table-frame").all():
            assert frame.evaluate("(one) => one.scrollWidth - one.clientWidth") == 0, path


def test_pictures_of_the_simulator(sign_in: Open, traces: Path, watch: Watch) -> None:
    page = sign_in("vera", "/simulator")
    shoot(page, "simulator")
    for number in (4, 9, 15):
        page.goto(f"/simulator/{number}")
        shoot(page, f"simulator-trace-{number}")
    name = write_failing(traces)
    page.goto(f"/simulator/failing/{name}")
    shoot(page, "simulator-failing-gone")
    with pytest.MonkeyPatch.context() as planted:
        grant_that_beats_a_divergence(planted)
        page.reload()
        shoot(page, "simulator-failing")
    watch.allowed.append("422 (Unprocessable Entity)")
    (traces / "broken.json").write_text("{")
    page.goto("/simulator/failing/broken.json")
    shoot(page, "simulator-failing-broken")
