"""Effects in a real browser: a doubt answered both ways, an escape found and adopted, an incident resolved."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from fencing.gateway import ledgers
from fencing.models import Intent
from fencing.services.requests import ObserveEffect
from tests.browser.watching import check_axe, check_fits, shoot
from tests.stories import NOTE, REFUND, Story, told

Open = Callable[..., Page]


def in_doubt(story: Story, step: str) -> str:
    """Leave an effect without an answer; give its intent."""
    admitted = story.admit(story.agree(step, NOTE, key=step), NOTE)
    assert story.report(admitted, "unknown")["state"] == "in_doubt"
    return str(admitted["intent"])


def test_a_doubt_is_answered_both_ways_with_evidence(sign_in: Open) -> None:
    story = Story.begin()
    happened, lost = in_doubt(story, "s1"), in_doubt(story, "s2")
    page = sign_in("lena", "/doubt")
    expect(page.get_by_text("2 effects may have happened")).to_be_visible()
    shoot(page, "doubt")
    check_axe(page)
    check_fits(page)
    page.goto(f"/effects/{happened}")
    check_axe(page)
    check_fits(page)
    shoot(page, "effect-in-doubt")
    page.get_by_text("It happened…").click()
    page.get_by_role("button", name="Record that send_note happened").click()
    # Without evidence the browser itself asks for it.
    assert Intent.objects.get(id=happened).state == "in_doubt"
    page.locator("#happened").get_by_label("Evidence").fill("entry 12 of the outbox")
    page.get_by_role("button", name="Record that send_note happened").click()
    expect(page.get_by_text("Recorded that it happened")).to_be_visible()
    assert Intent.objects.get(id=happened).state == "succeeded"
    page.goto(f"/effects/{lost}")
    page.get_by_text("It did not happen…").click()
    page.locator("#not-happened").get_by_label("Evidence").fill("the outbox is empty")
    page.get_by_role("button", name="it may be sent again").click()
    expect(page.get_by_text("Recorded that it did not happen")).to_be_visible()
    assert Intent.objects.get(id=lost).state == "ready"
    page.goto("/doubt")
    expect(page.get_by_text("Nothing is in doubt:")).to_be_visible()


def test_an_escape_is_found_adopted_and_its_resource_told(sign_in: Open) -> None:
    story = Story.begin()
    row = ObserveEffect(tool="refund", action=dict(REFUND), external_id="re_1")
    assert told(ledgers.observe_effects([row], story.gateway)[0])["match"] == "escape"
    story.agree()
    page = sign_in("lena", "/incidents")
    check_axe(page)
    check_fits(page)
    page.get_by_role("link", name="landed escape").click()
    expect(page.get_by_text("no commit stands behind")).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "incident")
    page.get_by_role("link", name="9", exact=True).click()
    expect(page.get_by_text("happened without authority")).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "resource")
    page.get_by_role("link", name="ready").click()
    page.get_by_text("Adopt an escape…").click()
    page.locator("#adopt").get_by_label("Reason").fill("the very refund of the customer")
    page.get_by_role("button", name="Adopt it").click()
    expect(page.get_by_text("Adopted: it is not sent again")).to_be_visible()
    page.goto("/effects")
    check_axe(page)
    check_fits(page)
    page.goto("/incidents")
    expect(page.get_by_text("No incident is open.")).to_be_visible()
