"""A door for browser tests: opens pages as somebody who has just confirmed who they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.watching import Watch
from tests.people import confirm


@dataclass(kw_only=True)
class Door:
    """Opens pages in the test's window, or in one of its own for a second person."""

    browser: Browser
    window: BrowserContext
    base_url: str
    people: dict[str, User]
    watch: Watch
    others: list[BrowserContext] = field(default_factory=list)

    def open(self, name: str, path: str = "/", *, anew: bool = False, is_confirmed: bool = True) -> Page:
        """Open a page as somebody; `anew` in a window of their own."""
        window = self._fresh() if anew else self.window
        client = Client()
        client.force_login(self.people[name])
        if is_confirmed:
            confirm(client)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        window.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": self.base_url}])
        page = window.pages[0] if window.pages else window.new_page()
        page.goto(path)
        return page

    def _fresh(self) -> BrowserContext:
        window = self.browser.new_context(base_url=self.base_url, timezone_id="Europe/Berlin", locale="en-GB")
        window.set_default_timeout(20_000)
        self.watch.over(window)
        self.others.append(window)
        return window

    def close(self) -> None:
        """Close the windows of the others."""
        for window in self.others:
            window.close()


Opens = Callable[..., Page]
