"""Live parts renew themselves and move nothing that a person is at."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, Response, Route, expect

from tests.browser.watching import Watch

Open = Callable[..., Page]
ROWS = "#live-rows [data-row]"


def answer_of(page: Page, part: str) -> Response:
    """Wait for the next answer of a part."""
    with page.expect_response(re.compile(f"part={part}"), timeout=8000) as told:
        pass
    return told.value


def serve(page: Page, part: str, body: str) -> None:
    """Answer a part with something else from now on."""
    page.route(re.compile(f"part={part}"), lambda route: route.fulfill(body=body, headers={"ETag": '"other"'}))


def wake(page: Page, part: str) -> None:
    """Have a part ask now, and wait until the answer is in place."""
    with page.expect_response(re.compile(f"part={part}")):
        page.locator(f"#live-{part}").dispatch_event("wake")
    page.wait_for_timeout(50)


@pytest.fixture
def page(sign_in: Open) -> Page:
    """The gallery, its live parts in view."""
    page = sign_in("vera", "/gallery?show=live,thousands")
    page.mouse.move(1, 1)
    page.locator("#live").scroll_into_view_if_needed()
    return page


def test_a_part_that_did_not_change_answers_304_and_tells_when_it_was_read(page: Page) -> None:
    before = page.locator("#live-clock [data-live-state]").inner_text()
    statuses = {answer_of(page, "clock").status for _ in range(2)}
    assert 304 in statuses
    assert re.fullmatch(r"read \d\d:\d\d:\d\d UTC", page.locator("#live-clock [data-live-state]").inner_text())
    assert before != page.locator("#live-clock [data-live-state]").inner_text()


def test_new_rows_wait_until_somebody_asks_for_them(page: Page) -> None:
    seen = [row.get_attribute("data-row") for row in page.locator(ROWS).all()]
    offer = page.locator("#live-rows [data-live-show]")
    expect(offer).to_have_text(re.compile(r"\d new"), timeout=12_000)
    assert [row.get_attribute("data-row") for row in page.locator(ROWS).all()] == seen
    offer.click()
    expect(offer).to_be_hidden()
    assert page.locator(ROWS).first.get_attribute("data-row") not in seen
    expect(page.locator(ROWS).first).to_contain_text(re.compile(r"UTC · (now|\d+ s ago)"))


def test_the_dot_key_shows_what_waits(page: Page) -> None:
    serve(page, "rows", "<table><tbody data-rows><tr data-row='new'><td>brand new</td></tr></tbody></table>")
    wake(page, "rows")
    expect(page.locator("#live-rows [data-live-show]")).to_have_text("1 new")
    page.keyboard.press(".")
    expect(page.locator(ROWS)).to_have_text(["brand new"])


def test_a_known_row_is_renewed_where_it_stands(page: Page) -> None:
    key = page.locator(ROWS).nth(2).get_attribute("data-row")
    serve(page, "rows", f"<table><tbody data-rows><tr data-row='{key}'><td>renewed</td></tr></tbody></table>")
    wake(page, "rows")
    expect(page.locator(ROWS).nth(2)).to_have_text("renewed")
    expect(page.locator(ROWS)).to_have_count(5)


def test_a_row_under_the_pointer_is_left_alone(page: Page) -> None:
    key = page.locator(ROWS).nth(2).get_attribute("data-row")
    page.locator(ROWS).nth(2).hover()
    serve(page, "rows", f"<table><tbody data-rows><tr data-row='{key}'><td>renewed</td></tr></tbody></table>")
    wake(page, "rows")
    expect(page.locator(ROWS).nth(2)).to_contain_text("tick")


def test_a_part_under_the_pointer_waits_until_the_pointer_goes(page: Page) -> None:
    page.locator("#live-clock [data-live-body]").hover()
    serve(page, "clock", "<p>another time</p>")
    wake(page, "clock")
    expect(page.locator("#live-clock [data-live-body]")).to_contain_text("The server's minute")
    expect(page.locator("#live-clock [data-live-show]")).to_have_text("newer waits")
    page.mouse.move(1, 1)
    expect(page.locator("#live-clock [data-live-body]")).to_have_text("another time")


def test_a_part_that_holds_the_focus_waits_until_the_focus_goes(page: Page) -> None:
    page.locator("#clock-fold summary").focus()
    serve(page, "clock", "<p>another time</p>")
    wake(page, "clock")
    expect(page.locator("#live-clock [data-live-body]")).to_contain_text("The server's minute")
    page.locator("#clock-fold summary").blur()
    expect(page.locator("#live-clock [data-live-body]")).to_have_text("another time")


def test_a_part_that_grows_or_shrinks_moves_nothing_under_the_pointer(page: Page) -> None:
    below = page.locator("#thousand summary")
    below.hover()
    before = below.bounding_box()
    for body in ("<p>tall</p>" * 40, "<p>small</p>"):
        page.unroute_all()
        serve(page, "clock", body)
        wake(page, "clock")
        after = below.bounding_box()
        assert before is not None
        assert after is not None
        assert abs(before["y"] - after["y"]) <= 1


def test_a_fold_inside_a_part_stays_as_it_was_left(page: Page) -> None:
    page.locator("#clock-fold summary").click()
    page.locator("#clock-fold summary").blur()
    page.mouse.move(1, 1)
    serve(page, "clock", "<p>newer</p><details id='clock-fold'><summary>a fold</summary><p>inside</p></details>")
    wake(page, "clock")
    expect(page.locator("#live-clock").get_by_text("newer")).to_be_visible()
    expect(page.get_by_text("inside")).to_be_visible()


@pytest.mark.parametrize(("fault", "told"), [(500, "answered 500"), (401, "you are signed out"), (0, "no answer")])
def test_a_part_that_cannot_be_read_says_since_when(page: Page, watch: Watch, fault: int, told: str) -> None:
    watch.allowed += ["Failed to load resource", "net::ERR", "htmx:"]

    def answer(route: Route) -> None:
        if fault:
            route.fulfill(status=fault)
        else:
            route.abort()

    page.route(re.compile("part=clock"), answer)
    state = page.locator("#live-clock [data-live-state]")
    page.locator("#live-clock").dispatch_event("wake")
    expect(state).to_have_text(re.compile(rf"last read \d\d:\d\d:\d\d UTC; {told}.*Trying again\."))
    page.unroute_all()
    expect(state).to_have_text(re.compile(r"^read "), timeout=8000)


def test_a_hidden_page_asks_for_nothing(page: Page) -> None:
    page.evaluate("() => Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2500)
    assert asked == []


def test_a_row_that_is_no_longer_there_says_so_and_stays_where_it_is(page: Page) -> None:
    keys = [row.get_attribute("data-row") for row in page.locator(ROWS).all()]
    kept = f"<tr data-row='{keys[0]}'><td>renewed</td></tr>"
    serve(page, "rows", f"<table><tbody data-rows>{kept}</tbody></table>")
    wake(page, "rows")
    expect(page.locator(ROWS)).to_have_count(5)
    expect(page.locator(ROWS).nth(2)).to_contain_text("no longer in this list")
    expect(page.locator(ROWS).nth(0)).not_to_contain_text("no longer in this list")
    offer = page.locator("#live-rows [data-live-show]")
    expect(offer).to_have_text("4 gone")
    offer.click()
    expect(page.locator(ROWS)).to_have_count(1)


# -- what is left ----------------------------------------------------------------------------------------------------


@pytest.fixture
def left(sign_in: Open) -> Page:
    """The gallery's countdowns: the first ends in 79 s by the server's clock."""
    return sign_in("vera", "/gallery?show=time,live")


def words_of(page: Page) -> str:
    return page.locator("#left time").first.locator("[data-left]").inner_text()


def test_what_is_left_is_counted_by_the_clock_of_the_server_whatever_this_machine_says(
    sign_in: Open, context: BrowserContext
) -> None:
    page = sign_in("vera", "/more")
    page.clock.install(time="2001-01-01T00:00:00Z")
    page.goto("/gallery?show=time,live")
    assert re.fullmatch(r"1:1[6-9] left", words_of(page))


def test_after_a_sleep_nothing_is_told_until_the_server_told_the_time(
    sign_in: Open, context: BrowserContext, watch: Watch
) -> None:
    watch.allowed += ["Failed to load resource", "net::ERR", "htmx:"]
    page = sign_in("vera", "/more")
    page.clock.install(time="2026-11-30T02:00:00Z")
    page.goto("/gallery?show=time,live")
    assert re.fullmatch(r"1:1[6-9] left", words_of(page))
    page.route(re.compile("part="), lambda route: route.abort())
    page.clock.fast_forward(60_000)  # the lid was closed for a minute
    page.clock.run_for(1000)
    expect(page.locator("#left [data-left]").first).to_have_text("asking the server…")
    page.unroute_all()
    page.clock.run_for(200_000)  # it asks again, ever less often
    expect(page.locator("#left [data-left]").first).to_have_text(re.compile(r"1:\d\d left"))


def test_a_clock_that_was_set_is_noticed(left: Page, watch: Watch) -> None:
    watch.allowed += ["Failed to load resource", "net::ERR", "htmx:"]
    left.route(re.compile("part="), lambda route: route.abort())
    left.evaluate("() => { const real = Date.now; Date.now = () => real() - 600000; }")
    expect(left.locator("#left [data-left]").first).to_have_text("asking the server…", timeout=4000)
    left.unroute_all()


def test_what_is_over_says_so_and_asks(left: Page) -> None:
    expect(left.locator("#left time").nth(2).locator("[data-left]")).to_have_text("time is up")
