"""The gallery in a real browser: whatever a component can show, it can show here."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from dashboard.views.gallery import SECTIONS
from tests.browser.watching import check_axe, check_fits, shoot

Open = Callable[..., Page]


def test_axe_finds_nothing_in_the_gallery_in_either_theme(sign_in: Open) -> None:
    everything_but_thousands = ",".join(section for section in SECTIONS if section != "thousands")
    page = sign_in("vera", f"/gallery?show={everything_but_thousands}")
    page.keyboard.press("e")
    check_axe(page)


def test_the_gallery_fits_a_narrow_phone_with_ugly_data(sign_in: Open) -> None:
    check_fits(sign_in("vera", "/gallery"))


def test_pictures_of_the_gallery(sign_in: Open) -> None:
    page = sign_in("vera", "/gallery")
    shoot(page, "gallery")
    expect(page.get_by_role("heading", name="Gallery")).to_be_visible()
