"""Signing in, and the pages for what went wrong, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import PASSWORD
from tests.browser.watching import Watch, check_axe, check_fits, shoot

Open = Callable[..., Page]


def test_a_deep_link_survives_sign_in(page: Page, watch: Watch) -> None:
    watch.allowed.append("422")
    page.goto("/gallery?tool=refund#acts")
    page.get_by_label("Name").fill("lena")
    page.get_by_label("Password").fill("not this")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url("/gallery?tool=refund#acts")


def test_the_door_has_nothing_for_axe_and_fits(page: Page) -> None:
    page.goto("/sign-in?next=/runs/" + "x" * 200)
    check_axe(page)
    check_fits(page)
    shoot(page, "sign-in")


def test_a_page_that_is_not_there_can_be_read_and_left(sign_in: Open, watch: Watch) -> None:
    watch.allowed.append("404")
    page = sign_in("vera", "/no-such-page")
    check_axe(page)
    check_fits(page)
    shoot(page, "fault")
    page.get_by_role("link", name="To the overview").click()
    expect(page).to_have_url("/")


def test_a_person_in_no_group_is_told_what_to_do(sign_in: Open, watch: Watch) -> None:
    watch.allowed.append("403")
    page = sign_in("noor", "/gallery")
    expect(page.get_by_text("Ask an administrator")).to_be_visible()


def test_signing_out_closes_the_door_also_behind_the_back_button(sign_in: Open) -> None:
    page = sign_in("vera", "/more")
    page.get_by_role("button", name="Sign out vera").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
