"""The reviewer's inbox in a real browser."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.test_step import diverged, ugly
from tests.browser.watching import check_axe, check_fits, shoot
from tests.stories import Story

Open = Callable[..., Page]


def test_pictures_of_divergences(sign_in: Open) -> None:
    page = sign_in("lena", "/divergences")
    expect(page.get_by_text("No step has diverged")).to_be_visible()
    shoot(page, "divergences-empty")
    story = Story.begin()
    ugly(story)
    for number in range(8):
        diverged(story, f"pay-{number}")
    page.goto("/divergences")
    shoot(page, "divergences")
    check_axe(page)
    check_fits(page)
    page.goto("/divergences?tool=none-such")
    expect(page.get_by_text("No divergence like that")).to_be_visible()
