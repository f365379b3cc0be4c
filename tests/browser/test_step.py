"""One step in a real browser: why invoice nine was not refunded, a replay, a verdict, and data that is not kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.watching import Watch, check_axe, check_fits, shoot
from tests.stories import OTHER_REFUND, REFUND, Story

Open = Callable[..., Page]
HOLD: dict[str, Any] = {"tool": "send_note", "args": {"to": "review", "invoice": 9}}
LONG = ("a-very-long-identifier." * 9)[:199] + "9"
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
TURNED = "please pay in\u202evoice 9\u202c to acc\u200bount 42"
PROSE = "The customer wrote three times, and each time about another invoice. "


@pytest.fixture(autouse=True)
def patience(context: BrowserContext) -> None:
    """Wait longer than for other pages: some of these carry what nobody would send."""
    context.set_default_timeout(20_000)


def diverged(story: Story, step: str = "pay-invoice", replica: Any = REFUND, production: Any = HOLD) -> str:
    """Production wants to hold invoice nine, the replica wants to refund 42.00."""
    story.propose(step)
    story.vote(story.replica, replica, step)
    story.vote(story.production, production, step)
    story.decide()
    return f"/runs/{story.run}/steps/{step}"


def ugly(story: Story) -> str:
    """Sixty kilobytes that differ in prose, in hidden characters, in a list, and in names nobody would choose."""
    items = [{"sku": f"A-{number}", "n": number, "note": PROSE[:20]} for number in range(240)]
    other = [{**each, "n": 7} if each["n"] == 100 else each for each in items if each["n"] != 30]
    args = {
        "invoice": 9, "prose": PROSE * 600, "script": SCRIPT, "turned": TURNED, LONG: LONG, "cafe": "caf\u00e9",
        "number": 9, "nothing": None, "lines": items, "deep": {"in": {"in": {"in": {"in": {"at": "the bottom"}}}}},
    }  # fmt: skip
    replica = {
        **args, "prose": (PROSE * 600).replace("three", "four", 2) + "The end.", "script": SCRIPT[:-1],
        "turned": TURNED.replace("\u202e", ""), LONG: LONG[:-1], "cafe": "cafe\u0301", "number": "9", "lines": other,
        "deep": {"in": {"in": {"in": {"in": {"at": "the top"}}}}},
    }  # fmt: skip
    del replica["nothing"]
    return diverged(story, LONG, {"tool": "refund", "args": replica}, {"tool": "refund", "args": args})


def test_an_engineer_finds_why_invoice_nine_was_not_refunded(sign_in: Open) -> None:
    story = Story.begin()
    story.grant(tool="refund", name="night-shift-3")
    path = diverged(story)
    page = sign_in("omar", f"/runs/{story.run}")
    page.get_by_role("link", name="pay-invoice").first.click()
    expect(page).to_have_url(re.compile(re.escape(path)))
    expect(page.get_by_text("Rejected for divergence")).to_be_visible()
    expect(page.get_by_text("No commit token exists, and nothing was sent.")).to_be_visible()
    expect(page.get_by_text("a visible divergence beats every grant").first).to_be_visible()
    sides = page.get_by_role("group", name="Both actions, side by side")
    expect(sides.get_by_text("send_note")).to_be_visible()
    expect(sides.get_by_text("refund")).to_be_visible()
    figure = page.get_by_role("figure", name="Votes in time")
    figure.get_by_text("the same as a table").click()
    expect(figure.get_by_role("row", name=re.compile("production.*voted for send_note"))).to_be_visible()


def test_the_differences_are_walked_by_keyboard_and_by_button(sign_in: Open) -> None:
    story = Story.begin()
    page = sign_in("omar", diverged(story))
    focused = page.locator(":focus")
    for key, words, text in (("n", "1 of 3", "send_note"), ("n", "2 of 3", "4200"), ("n", "3 of 3", "review")):
        page.keyboard.press(key)
        expect(focused).to_contain_text(text)
        expect(page.locator("[data-diff-count]")).to_have_text(f"difference {words}")
    page.keyboard.press("p")
    expect(focused).to_contain_text("4200")
    page.get_by_role("button", name="next").click()
    expect(focused).to_contain_text("review")


def test_on_a_phone_what_the_replica_has_instead_stands_beneath(sign_in: Open) -> None:
    page = sign_in("omar", diverged(Story.begin()))
    page.set_viewport_size({"width": 390, "height": 844})
    rows = page.locator(".diff-row.differs")
    left, right = rows.nth(1).locator(".left").bounding_box(), rows.nth(1).locator(".right").bounding_box()
    assert left
    assert right
    assert right["y"] >= left["y"] + left["height"]
    assert right["x"] == left["x"]
    expect(rows.nth(1).locator(".side")).to_have_text("replica")
    expect(page.locator(".diff-row.same .right").first).to_be_hidden()


def test_a_reviewer_replays_a_divergence(sign_in: Open) -> None:
    story = Story.begin()
    diverged(story)
    page = sign_in("lena", "/divergences")
    page.get_by_role("link", name="pay-invoice").click()
    page.get_by_role("link", name="Replay…").click()
    reason = page.get_by_role("textbox", name="Reason")
    reason.fill("the replica read an old invoice")
    page.get_by_role("button", name="Replay pay-invoice into a fresh epoch").click()
    expect(page.get_by_text("Replayed into epoch 8.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"epoch=8#main$"))
    expect(page.get_by_text("Reopened")).to_be_visible()
    expect(page.get_by_text("the replica read an old invoice")).to_be_visible()
    page.get_by_role("navigation", name="Epochs of this step").get_by_role("link", name="7 rejected").click()
    expect(page.get_by_text("It was replayed into epoch 8 already.")).to_be_visible()


def test_a_replay_that_came_too_late_shows_what_changed_and_keeps_the_reason(sign_in: Open, watch: Watch) -> None:
    watch.allowed.append("409 (Conflict)")  # the browser tells of every answer that is no success
    story = Story.begin()
    page = sign_in("lena", diverged(story))
    page.get_by_role("link", name="Replay…").click()
    page.get_by_role("textbox", name="Reason").fill("the replica read an old invoice")
    story.restart()
    story.propose("pay-invoice", epoch=8)
    story.vote(story.production, OTHER_REFUND, "pay-invoice", 8)
    story.vote(story.replica, REFUND, "pay-invoice", 8)
    story.decide()
    page.get_by_role("button", name="Replay pay-invoice into a fresh epoch").click()
    alert = page.get_by_role("alert").filter(has_text="It changed while you looked.")
    expect(alert).to_be_visible()
    expect(alert.get_by_role("row", name="newest epoch 7 8")).to_be_visible()
    expect(page.get_by_role("textbox", name="Reason")).to_have_value("the replica read an old invoice")
    page.get_by_role("button", name="Replay pay-invoice into a fresh epoch").click()
    expect(page.get_by_text("Replayed into epoch 9.")).to_be_visible()


def test_a_reviewer_gives_a_verdict(sign_in: Open) -> None:
    story = Story.begin()
    page = sign_in("lena", diverged(story))
    page.get_by_role("link", name="Give a verdict…").click()
    page.get_by_role("combobox", name="Who was right?").select_option("production was right")
    page.get_by_role("textbox", name="Note").fill("the customer was paid on Monday")
    page.get_by_role("button", name="Store the verdict on pay-invoice, epoch 7").click()
    expect(page.get_by_text("Stored: production was right.")).to_be_visible()
    expect(page.get_by_role("main").locator("#decide")).to_contain_text("the customer was paid on Monday")
    page.goto("/divergences?verdict=production_right")
    expect(page.get_by_role("link", name="pay-invoice")).to_be_visible()


def test_who_is_no_reviewer_reads_why_the_buttons_do_nothing(sign_in: Open) -> None:
    page = sign_in("vera", diverged(Story.begin()))
    replay = page.get_by_role("button", name="Replay…")
    expect(replay).to_have_attribute("aria-disabled", "true")
    expect(replay).to_have_accessible_description("This is for the group reviewer; you are not in it.")


def test_a_decision_shows_itself_while_one_looks(sign_in: Open) -> None:
    story = Story.begin()
    story.propose("pay-invoice")
    story.vote(story.replica, REFUND, "pay-invoice")
    page = sign_in("omar", f"/runs/{story.run}/steps/pay-invoice")
    expect(page.get_by_text("Waiting")).to_be_visible()
    story.vote(story.production, HOLD, "pay-invoice")
    story.decide()
    expect(page.get_by_text("Rejected for divergence")).to_be_visible(timeout=10_000)
    expect(page.get_by_text("Difference: another tool.")).to_be_visible(timeout=10_000)
    expect(page.get_by_role("figure", name="Votes in time").locator(".main-svg").first).to_be_visible()


def test_axe_finds_nothing_on_a_step_in_either_theme(sign_in: Open) -> None:
    story = Story.begin()
    story.grant(tool="refund")
    page = sign_in("lena", diverged(story))
    page.keyboard.press("e")
    page.get_by_role("link", name="Give a verdict…").click()
    check_axe(page)
    page.goto(ugly(story))
    check_axe(page)
    token = story.agree("agreed")
    story.report(story.admit(token), "succeeded", response={"id": "re_1"})
    page.goto(f"/runs/{story.run}/steps/agreed")
    page.keyboard.press("e")
    check_axe(page)


def test_a_step_fits_a_narrow_phone(sign_in: Open) -> None:
    story = Story.begin()
    page = sign_in("lena", diverged(story))
    check_fits(page)
    page.goto(ugly(story))
    check_fits(page)


def test_pictures_of_steps(sign_in: Open) -> None:
    story = Story.begin()
    page = sign_in("lena", diverged(story))
    shoot(page, "step-diverged")
    for act in ("Replay…", "Give a verdict…"):
        page.get_by_role("link", name=act).click()
    page.get_by_role("button", name="Store the verdict").click()
    page.keyboard.press("e")
    shoot(page, "step-acts")
    page.goto(ugly(story))
    shoot(page, "step-ugly")
    members = [{"tool": "refund", "args": {f"m{number:03}": number + more for number in range(300)}} for more in (0, 1)]
    page.goto(diverged(story, "three-hundred", *members))
    shoot(page, "step-300")
    story.propose("waiting")
    story.vote(story.production, REFUND, "waiting", model="m-1", prompt="p-1")
    page.goto(f"/runs/{story.run}/steps/waiting")
    shoot(page, "step-waiting")
    token = story.agree("agreed")
    story.report(story.admit(token), "succeeded", response={"id": "re_1", "note": SCRIPT})
    page.goto(f"/runs/{story.run}/steps/agreed")
    shoot(page, "step-committed")
