"""Overview, runs and one run in a real browser, with ugly names, nothing at all, and a great many."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.watching import check_axe, check_fits, shoot
from tests.factories import make_grant, make_incident, make_opening, make_rejected_step, make_run, make_step

Open = Callable[..., Page]
UGLY = "run-" + "a-very-long-identifier." * 8 + "0123456789ab"


def busy_run() -> str:
    run = make_run(name=UGLY, labels={"customer": "</script><b>42", "note": "please pay in\u202evoice 9"})
    make_opening(run=run, number=2, kind="restart", from_epoch=1, reason="planner <b>restarted</b> \u202etwice")
    make_opening(run=run, number=3, kind="replay", from_epoch=2, step_name="pay", reason="checked by hand")
    make_rejected_step(run=run, name="pay", epoch=2, difference="other_tool")
    make_step(run=run, name="pay", epoch=3, phase="proposed")
    make_grant(run=run, tool="refund", epoch=2)
    make_incident(kind="late_divergence")
    for number in range(60):
        make_step(run=run, name=f"step-{number}", epoch=2, phase="proposed")
    return UGLY


def test_an_engineer_finds_the_oldest_undecided_step_from_the_overview(sign_in: Open) -> None:
    run = make_run(name="billing-88")
    make_step(run=run, name="pay-invoice", phase="proposed")
    page = sign_in("omar", "/")
    table = page.get_by_role("region", name="The oldest undecided steps")
    table.get_by_role("link", name="billing-88").click()
    expect(page.get_by_role("heading", name="billing-88")).to_be_visible()
    expect(page.get_by_text("1 undecided")).to_be_visible()


def test_axe_finds_nothing_on_the_three_pages_in_either_theme(sign_in: Open) -> None:
    name = busy_run()
    page = sign_in("vera", "/")
    for path in ("/", "/runs", f"/runs/{name}"):
        page.goto(path)
        check_axe(page)


def test_the_three_pages_fit_a_narrow_phone(sign_in: Open) -> None:
    name = busy_run()
    page = sign_in("vera", "/")
    for path in ("/", "/runs", f"/runs/{name}"):
        page.goto(path)
        check_fits(page)


def test_pictures_of_the_three_pages_empty_and_busy(sign_in: Open) -> None:
    page = sign_in("vera", "/")
    shoot(page, "overview-empty")
    page.goto("/runs")
    shoot(page, "runs-empty")
    name = busy_run()
    for path, picture in (("/", "overview"), ("/runs", "runs"), (f"/runs/{name}", "run")):
        page.goto(path)
        shoot(page, picture)
    expect(page.get_by_role("heading", name="Steps by epoch")).to_be_visible()
