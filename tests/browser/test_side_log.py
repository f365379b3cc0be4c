"""The side log in a real browser: why a vote was refused, and forty rows acknowledged at once."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from fencing.models import Acknowledgement
from fencing.protocol.notices import Kind
from fencing.services.notices import raise_notice, spread_due
from tests.browser.watching import check_axe, check_fits, shoot
from tests.factories import make_side_log_row, make_target, soon
from tests.stories import OTHER_REFUND, REFUND, Story

Open = Callable[..., Page]
UGLY = "r\u202e-<b>x</b>-" + "very-long-" * 12


def test_why_a_vote_was_refused(sign_in: Open) -> None:
    story = Story.begin()
    story.propose("pay")
    story.vote(story.production, REFUND, "pay")
    story.vote(story.production, OTHER_REFUND, "pay")
    make_side_log_row(run=UGLY, step=UGLY, detail=UGLY, recorded_at=soon(-5))
    page = sign_in("omar", "/")
    page.get_by_role("link", name="of the side log that nobody acknowledged").click()
    shoot(page, "side-log")
    check_axe(page)
    check_fits(page)
    page.get_by_label("Run", exact=True).fill(story.run)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="equivocation").click()
    expect(page.get_by_role("heading", name="Equivocation")).to_be_visible()
    expect(page.locator("#main")).to_contain_text("Refused, equivocation")
    shoot(page, "side-log-row")
    check_axe(page)
    check_fits(page)
    page.get_by_role("definition").get_by_role("link", name="pay", exact=True).click()
    expect(page).to_have_url(f"/runs/{story.run}/steps/pay?epoch=7")


def test_forty_rows_are_acknowledged(sign_in: Open) -> None:
    rows = [make_side_log_row(run=f"run-{number}", tool="refund", recorded_at=soon(-number)) for number in range(40)]
    make_side_log_row(run="another", reason="late_vote")
    page = sign_in("lena", "/side-log?tool=refund")
    page.get_by_label("all on this page").check()
    page.get_by_role("button", name="Acknowledge 40 rows").click()
    expect(page.get_by_text("These 40 rows are acknowledged in your name")).to_be_visible()
    shoot(page, "side-log-acknowledge")
    check_axe(page)
    check_fits(page)
    make_side_log_row(tool="refund")  # comes in while the reason is typed
    page.get_by_label("Reason").fill("A planner of the old version; it is stopped.")
    page.get_by_role("button", name="Acknowledge 40 rows").click()
    expect(page.get_by_text("40 rows acknowledged")).to_be_visible()
    expect(page).to_have_url("/side-log?tool=refund")
    assert set(Acknowledgement.objects.values_list("row_id", flat=True)) == {row.pk for row in rows}


def test_a_message_leads_to_its_object_after_signing_in_and_health_is_told(sign_in: Open) -> None:
    sign_in("omar", "/notices")
    raise_notice(Kind.SILENT_PATH, "replica", page="outage replica", facts={"path": "replica", "steps": "4"})
    spread_due()
    page = sign_in("omar", "/notices")
    shoot(page, "notices")
    check_axe(page)
    check_fits(page)
    page.get_by_role("link", name="path silent").click()
    expect(page.get_by_text("Silent path replica")).to_be_visible()
    shoot(page, "notice")
    check_axe(page)
    check_fits(page)
    page.goto(f"{page.url}/open")
    expect(page).to_have_url("/outages/replica")
    page.goto("/notices?state=all")
    expect(page.get_by_role("cell", name="seen").first).to_be_visible()
    make_target(name="pager", failures=3, error="A Connection error occurred.")
    page.goto("/health")
    expect(page.get_by_text("1 target fails of 1")).to_be_visible()
    shoot(page, "health")
    check_axe(page)
    check_fits(page)
    page.goto("/you/notices")
    shoot(page, "my-targets")
    check_axe(page)
    check_fits(page)
