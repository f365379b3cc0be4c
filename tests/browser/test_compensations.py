"""A reviewer undoes what should not have stayed, in a real browser: approved, changed while open, waived, by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect

from fencing.models import Compensation
from tests.browser.signing_in import Door
from tests.browser.watching import check_axe, check_fits, shoot
from tests.fencing.test_compensating import ORDER, TWO, Undoing
from tests.fencing.test_forks import MORE
from tests.stories import NOTE, TOOLS, register

REASON = "the branch lost, and nobody wants the ticket"


@pytest.fixture
def story(db: None) -> Undoing:
    register([*TOOLS, *MORE, *TWO])
    story = Undoing()
    assert story.open()["status"] == 201
    assert story.fork()["status"] == 201
    return story


@pytest.fixture(autouse=True)
def patience(context: BrowserContext) -> Iterator[None]:
    """Wait as long as a busy machine needs."""
    context.set_default_timeout(20_000)
    expect.set_options(timeout=15_000)
    yield
    expect.set_options(timeout=5_000)


def test_a_reviewer_reads_exactly_what_would_be_sent_and_approves_it(door: Door, story: Undoing) -> None:
    made = story.lost(ticket="T-1")
    page = door.open("lena", "/compensations")
    shoot(page, "compensations")
    check_axe(page)
    check_fits(page)
    page.get_by_role("region", name="Compensations that wait").get_by_role("link", name="create_ticket").click()
    expect(page.get_by_role("group", name="What would be sent")).to_contain_text("T-1")
    shoot(page, "compensation")
    check_axe(page)
    check_fits(page)
    page.locator("#approve > summary").click()
    page.get_by_role("textbox", name="Reason").first.fill(REASON)
    page.get_by_role("button", name="Approve: call close_ticket exactly as shown").click()
    expect(page.get_by_text("Your approval is stored: it is approved now.")).to_be_visible()
    assert story.state(made) == "approved"


def test_two_people_are_needed_and_what_changes_meanwhile_is_shown(door: Door, story: Undoing) -> None:
    made = story.lost("o", ORDER)
    page = door.open("lena", f"/compensations/{made}")
    page.locator("#approve > summary").click()
    page.get_by_role("textbox", name="Reason").first.fill(REASON)
    # Another branch may still want it: it is held while she types.
    story.fork("D", "E", fork="f2")
    story.want("d", ORDER, branch="D")
    page.get_by_role("button", name="Approve: call cancel_order exactly as shown").click()
    expect(page.get_by_text("may still want the effect").first).to_be_visible()
    door.watch.allowed.append("409")
    assert story.state(made) == "held"
    page.goto(f"/compensations/{made}")
    expect(page.get_by_text("holds it")).to_be_visible()
    shoot(page, "compensation-held")
    story.reconcile("E", fork="f2")
    story.approve(made)
    page.goto(f"/compensations/{made}")
    page.locator("#approve > summary").click()
    page.get_by_role("textbox", name="Reason").first.fill(REASON)
    page.get_by_role("button", name="Approve: call cancel_order exactly as shown").click()
    expect(page.get_by_text("Your approval is stored: it is approved now.")).to_be_visible()


def test_an_effect_may_stand_and_another_is_undone_by_hand(door: Door, story: Undoing) -> None:
    made = story.lost()
    story.want("n", NOTE)
    by_hand = story.ask(intent=story.send("n", NOTE)["intent"])["id"]
    page = door.open("lena", f"/compensations/{made}")
    page.locator("#waive > summary").click()
    page.locator("#waive").get_by_role("textbox", name="Reason").fill("the ticket is useful")
    page.get_by_role("button", name="Let the effect stand: nothing is undone").click()
    expect(page.get_by_text("The effect stands by your word")).to_be_visible()
    page.goto(f"/compensations/{by_hand}")
    page.locator("#record > summary").click()
    page.get_by_role("textbox", name="Evidence").fill("told them on the phone")
    page.get_by_role("button", name="Store that it was undone by hand").click()
    expect(page.get_by_text("What was done by hand is stored: it is done now.")).to_be_visible()
    assert Compensation.objects.get(pk=by_hand).evidence == "told them on the phone"


def test_several_are_decided_as_listed_and_the_run_shows_its_branches(door: Door, story: Undoing) -> None:
    story.fork("B1", "B2", fork="inner", parent="B")
    for step, title in (("one", "first"), ("two", "second")):
        action = {"tool": "create_ticket", "args": {"title": title}}
        story.want(step, action, branch="B")
        story.send(step, action, ticket=title)
    story.reconcile(None)
    page = door.open("lena", f"/runs/{story.run}")
    expect(page.get_by_text("rolled back with 2 effects outstanding")).to_be_visible()
    shoot(page, "branches")
    check_axe(page)
    page.goto("/compensations")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Decide on the chosen…").click()
    expect(page.get_by_role("group", name="What would be sent")).to_have_count(2)
    shoot(page, "choose-compensations")
    check_axe(page)
    check_fits(page)
    page.get_by_role("textbox", name="Reason").fill(REASON)
    page.get_by_role("button", name="Approve 2 calls").click()
    expect(page.get_by_text("2 have your approval, as stored.")).to_be_visible()
    assert set(Compensation.objects.values_list("state", flat=True)) == {"approved"}


def test_of_two_reviewers_at_once_one_decides_and_the_other_reads_who_did(door: Door, story: Undoing) -> None:
    made = story.lost()
    pages = [door.open("lena", f"/compensations/{made}"), door.open("rosa", f"/compensations/{made}", anew=True)]
    for page in pages:
        page.locator("#approve > summary").click()
        page.get_by_role("textbox", name="Reason").first.fill(REASON)
    first, second = (page.get_by_role("button", name="Approve: call close_ticket exactly as shown") for page in pages)
    first.click()
    expect(pages[0].get_by_text("Your approval is stored: it is approved now.")).to_be_visible()
    second.click()
    expect(pages[1].get_by_text("lena").first).to_be_visible()
    shoot(pages[1], "compensation-decided-meanwhile")
    check_axe(pages[1])
    door.watch.allowed.append("409")
    assert Compensation.objects.get(pk=made).approvals.count() == 1
