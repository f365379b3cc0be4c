"""Grades in a browser: a restart while fragments come in, a publication, the gate's pass, a halt and a resumption."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from fencing.models import Attempt, Lane
from fencing.services import grade_audit
from tests.browser.signing_in import Door
from tests.browser.watching import Watch, check_axe, check_fits, draw_figures, shoot
from tests.factories import fresh
from tests.marking import Marking
from tests.planting import MIX, plant
from tests.stories import register


@pytest.fixture(autouse=True)
def patience(context: BrowserContext) -> Iterator[None]:
    """Wait as long as a busy machine needs."""
    context.set_default_timeout(20_000)
    expect.set_options(timeout=15_000)
    yield
    expect.set_options(timeout=5_000)


def cell(page: Page, epoch: int, seq: int) -> str:
    """What a cell of the grid says it is."""
    found = page.locator(f'a.cell[aria-label^="epoch {epoch}, seq {seq}:"]')
    expect(found).to_have_count(1)
    return found.get_attribute("aria-label") or ""


def opening(page: Page, words: str) -> None:
    """Wait until the sentence of a page says something."""
    expect(page.get_by_role("main")).to_contain_text(re.compile(words))


@pytest.fixture
def marking(door: Door) -> Marking:
    """A lane and an attempt of four fragments."""
    register([])
    return Marking.begin(expected=4)


def test_a_restart_while_fragments_come_in_is_seen_and_the_gate_turns_to_pass(door: Door, marking: Marking) -> None:
    marking.lease(4)
    marking.send(0, body="old")
    page = door.open("lena", f"/attempts/{marking.attempt}")
    assert "accepted" in cell(page, 1, 0)
    # A restart while fragments come in: the page follows by itself.
    marking.restart()
    marking.send(1, epoch=1, body="late")
    for seq in range(3):
        marking.send(seq, epoch=2, score=0.5 + seq / 10)
    marking.send(1, epoch=2, body="another")
    expect(page.locator('a.cell[aria-label^="epoch 2, seq 2: accepted"]')).to_be_visible()
    assert "superseded" in cell(page, 1, 0)
    assert "stale" in cell(page, 1, 1)
    assert "conflicting" in cell(page, 2, 1)
    page.reload()
    opening(page, r"Incomplete: ?epoch 2 has 3 of 4 fragments; it misses seq 3")
    check_axe(page)
    # The figure is drawn when it comes near, and finds its width then.
    page.set_viewport_size({"width": 320, "height": 640})
    draw_figures(page)
    page.wait_for_function("() => document.documentElement.scrollWidth <= 320")
    check_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    shoot(page, "attempt")
    page.locator('a.cell[aria-label^="epoch 2, seq 1:"]').click()
    opening(page, "conflicting duplicate")
    check_axe(page)
    shoot(page, "fragment")
    # Published, and the gate turns to pass.
    page.goto(f"/lanes/{marking.lane}")
    opening(page, "Wait: ?No grade is published")
    marking.send(3, epoch=2, score=0.9)
    assert marking.publish()["result"] == "publish"
    opening(page, "Pass: ?1 grade was published, none mixed")


def test_a_halted_lane_is_resumed_with_a_reason_and_the_fraction_stays(door: Door, marking: Marking) -> None:
    marking.whole(expected=4)
    assert marking.publish()["result"] == "publish"
    page = door.open("lena", f"/lanes/{marking.lane}")
    opening(page, "Pass: ?1 grade was published")
    # Somebody changes a fragment behind the system's back; the auditor finds it.
    plant(MIX, [marking.attempt])
    grade_audit.audit_lane(marking.lane)
    opening(page, "Halt: ?The lane is halted")
    page.goto(f"/lanes/{marking.lane}")
    expect(page.get_by_text("mixed grade", exact=False).first).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "lane-halted")
    page.locator("summary", has_text="Resume…").click()
    page.get_by_role("textbox", name="Reason").fill("It was a drill of the night shift.")
    page.get_by_role("button", name=f"Resume: {marking.lane} publishes again").click()
    opening(page, "The lane runs again")
    opening(page, "It was a drill of the night shift")
    assert Lane.objects.get(name=marking.lane).state == "running"
    # The fraction stays; graded anew, the gate passes again.
    opening(page, "found mixed, and not graded anew")
    first = marking.attempt
    marking.attempt = fresh("attempt")
    marking.admit(marking.attempt, regrade_of=first)
    marking.whole()
    assert marking.publish()["result"] == "publish"
    opening(page, "Pass: ?2 grades were published, 1 mixed and graded anew")
    assert Attempt.objects.filter(state="published").count() == 2
    page.goto("/lanes")
    opening(page, "Every gate passes")
    check_axe(page)
    check_fits(page)
    shoot(page, "lanes")


def test_what_is_asked_of_a_lane_is_asked_anew_and_a_second_reviewer_sees_what_changed(
    door: Door, watch: Watch, marking: Marking
) -> None:
    watch.allowed += ["409", "422"]
    marking.whole(expected=4)
    assert marking.publish()["result"] == "publish"
    page = door.open("lena", f"/lanes/{marking.lane}")
    opening(page, "No threshold is set")
    page.get_by_text("Ask something else…").click()
    form = page.locator("#ask")
    expect(form.get_by_label("Reason")).to_be_focused()
    page.get_by_label("Mean score, at least").fill("0,9")
    form.get_by_label("Reason").fill("the launch asks for more")
    form.get_by_role("button", name="Ask this from now on, as version 2").click()
    expect(form.get_by_text("should be a valid number")).to_be_visible()
    check_axe(page)
    # Meanwhile somebody else asks something.
    marking.ask({"max_unacknowledged": 3}, "a night of rejects")
    page.get_by_label("Mean score, at least").fill("0.9")
    form.get_by_role("button", name="Ask this from now on, as version 2").click()
    changed = page.get_by_role("region", name="What changed")
    expect(changed.get_by_role("row", name=re.compile("max unacknowledged not there 3"))).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "lane-asked-meanwhile")
    form.get_by_role("button", name="Ask this from now on, as version 3").click()
    opening(page, "Stored: the gate goes by version 3 from now on")
    opening(page, "Halt: ?The mean score is 0.5, below 0.9")
    page.get_by_text("Asked before").click()
    opening(page, "a night of rejects")
    check_axe(page)
    check_fits(page)
    shoot(page, "lane-asked")
