"""What every page does by itself: theme, times, keys, folds, copying, forms that keep what was typed."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, Route, expect

from dashboard import samples
from tests.browser.watching import Watch, check_axe, check_fits, shoot

Open = Callable[..., Page]


def paper(page: Page) -> str:
    colour: str = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    return colour


def test_the_theme_follows_the_system_until_somebody_chooses(sign_in: Open) -> None:
    page = sign_in("vera", "/more")
    page.emulate_media(color_scheme="dark")
    dark = paper(page)
    page.emulate_media(color_scheme="light")
    light = paper(page)
    switch = page.get_by_role("navigation", name="Places").get_by_role("button", name="Theme")
    switch.click()
    switch.click()
    assert (switch.inner_text(), paper(page)) == ("Dark", dark)
    page.reload()
    assert paper(page) == dark != light
    switch.click()
    assert (switch.inner_text(), paper(page)) == ("System", light)


def test_a_moment_is_told_in_utc_and_here_and_as_an_age(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery?show=marks")
    told = page.locator("#marks dd").nth(1).inner_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC · \d{1,2} \w+, \d\d:\d\d here · 400 d ago", told)


def test_an_age_follows_the_clock_of_the_server(sign_in: Open, context: BrowserContext) -> None:
    page = sign_in("vera", "/more")
    page.clock.install(time="2001-01-01T00:00:00Z")
    page.goto("/gallery?show=marks")
    assert page.locator("#marks dd").nth(0).inner_text().endswith("· now")


def test_the_exact_form_is_shown_on_focus_and_goes_with_escape(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery?show=marks")
    chip = page.locator("#marks .digest").first
    page.keyboard.press("Tab")  # so that the browser knows of a keyboard
    chip.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_have_text(samples.digest("a"))
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_pressing_a_digest_copies_the_whole(sign_in: Open, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = sign_in("vera", "/gallery?show=marks")
    page.locator("#marks .digest").first.click()
    expect(page.locator("#say")).to_have_text("Copied.")
    assert page.evaluate("() => navigator.clipboard.readText()") == samples.digest("a")


def test_n_and_p_walk_the_differences_and_open_what_hides_them(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery?show=json")
    page.keyboard.press("c")
    for _ in range(3):
        page.keyboard.press("n")
    expect(page.locator("[data-diff-count]")).to_have_text("difference 3 of 3")
    expect(page.locator("#json .marked").last).to_be_focused()
    expect(page.locator("#json .marked").last).to_be_in_viewport()
    page.keyboard.press("p")
    expect(page.locator("[data-diff-count]")).to_have_text("difference 2 of 3")


def test_the_keys_are_listed_and_can_be_switched_off(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery?show=json")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_role("checkbox").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(dialog).to_be_hidden()
    page.reload()
    page.keyboard.press("n")
    expect(page.locator("[data-diff-count]")).to_have_text("3 differences")
    page.get_by_role("navigation", name="Places").get_by_role("button", name="Keys").click()
    expect(dialog.get_by_role("checkbox")).not_to_be_checked()


def test_a_key_in_a_field_is_a_letter(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery?show=lists")
    page.keyboard.press("/")
    page.locator("#filter-tool").fill("")
    page.locator("#filter-tool").press_sequentially("n?c")
    expect(page.locator("#filter-tool")).to_have_value("n?c")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_fold_stays_open_over_a_reload_and_opens_for_its_address(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery?show=figures,thousands")
    page.get_by_text("Refused calls").click()
    page.reload()
    expect(page.locator("#thousand")).to_have_attribute("open", "")
    page.goto("/gallery?show=figures,thousands#plot-gap-table")
    page.reload()
    expect(page.locator("#plot-gap-table")).to_have_attribute("open", "")


def test_what_was_typed_survives_a_reload(sign_in: Open) -> None:
    page = sign_in("lena", "/gallery?show=acts")
    page.get_by_text("Replay…").click()
    reason = page.locator("#act-plain textarea")
    expect(reason).to_be_focused()
    reason.fill("The invoice was paid by hand")
    page.locator("#act-plain").get_by_role("checkbox").check()
    page.reload()
    expect(reason).to_have_value("The invoice was paid by hand")
    expect(page.locator("#act-plain").get_by_role("checkbox")).to_be_checked()
    expect(reason).to_be_visible()


def post(page: Page, answer: Callable[[Route], None]) -> None:
    """Type a reason, and send the form to a server that answers so."""
    page.get_by_text("Replay…").click()
    page.locator("#act-plain textarea").fill("The invoice was paid by hand")
    page.route("**/gallery", lambda route: answer(route) if route.request.method == "POST" else route.fallback())
    page.locator("#act-plain").get_by_role("button", name="Replay pay-invoice into epoch 8").click()


def test_what_was_sent_and_taken_is_not_offered_again(sign_in: Open) -> None:
    page = sign_in("lena", "/gallery?show=acts")
    # What was typed comes back when the scripts run: before the page has loaded, the field is empty anyway.
    with page.expect_event("load"):
        post(page, lambda route: route.fulfill(status=303, headers={"Location": "/gallery?show=acts"}))
    expect(page.locator("#act-plain form")).to_be_hidden()
    expect(page.locator("#act-plain textarea")).to_have_value("")


def test_what_was_typed_survives_a_lost_connection_and_can_be_sent_again(sign_in: Open, watch: Watch) -> None:
    watch.allowed.append("net::ERR")
    page = sign_in("lena", "/gallery?show=acts")
    post(page, lambda route: route.abort())
    page.wait_for_url("chrome-error://**")
    page.go_back()
    expect(page.locator("#act-plain textarea")).to_have_value("The invoice was paid by hand")
    expect(page.locator("#act-plain textarea")).to_be_visible()
    expect(page.locator("#act-plain button[type=submit]")).not_to_have_attribute("aria-disabled", "true")


def test_a_form_is_not_sent_twice(sign_in: Open) -> None:
    page = sign_in("lena", "/gallery?show=acts")
    sent: list[str] = []

    def take(route: Route) -> None:
        sent.append(route.request.post_data or "")
        route.fulfill(status=204)  # the page stays

    post(page, take)
    page.locator("#act-plain button[type=submit]").dispatch_event("click")
    page.wait_for_timeout(200)
    assert len(sent) == 1
    assert "from_epoch=7" in sent[0]


def test_escape_closes_an_act_and_gives_the_focus_back(sign_in: Open) -> None:
    page = sign_in("lena", "/gallery?show=acts")
    opener = page.get_by_text("Replay…")
    opener.click()
    page.keyboard.press("Escape")
    expect(page.locator("#act-plain form")).to_be_hidden()
    expect(opener).to_be_focused()


def test_the_keyboard_reaches_every_control(sign_in: Open) -> None:
    page = sign_in("vera", "/more")
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stop = page.evaluate(
            "() => document.activeElement === document.body ? '' : document.activeElement.outerHTML.slice(0, 200)"
        )
        if not stop:
            break
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle !== 'none'"), stop
        stops.append(stop)
    controls = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
          .filter((one) => one.checkVisibility()).map((one) => one.outerHTML.slice(0, 200))"""
    )
    assert stops == controls


def test_the_skip_link_leads_past_the_navigation(sign_in: Open) -> None:
    page = sign_in("vera", "/more")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => Boolean(document.activeElement.closest('main'))")


def test_all_pages_are_one_page_away_on_a_phone(sign_in: Open) -> None:
    page = sign_in("vera", "/more")
    check_axe(page)
    check_fits(page)
    shoot(page, "more")
    page.set_viewport_size({"width": 390, "height": 844})
    bar = page.get_by_role("navigation", name="Main places")
    assert bar.get_by_role("link").all_inner_texts()[-1] == "More"
    assert len(bar.get_by_role("link").all()) <= 5
    bar.get_by_role("link", name="Inbox").click()
    expect(page).to_have_url("/")


def test_without_scripts_the_page_can_still_be_read(sign_in: Open, context: BrowserContext) -> None:
    page = sign_in("vera", "/more")
    page.route("**/*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto("/gallery?show=marks,figures")
    expect(page.locator("#marks dd").first).to_contain_text("UTC")
    expect(page.get_by_role("button", name="Theme")).to_have_count(0)
    page.locator("#plot-gap-table summary").click()
    expect(page.locator("#plot-gap-table table")).to_be_visible()
