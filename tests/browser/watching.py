"""What a browser test sees beside the page: console errors, requests to other hosts, pictures, rules of access."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

from tests.length import is_long

PICTURES = Path(__file__).resolve().parents[2] / "var" / "screenshots"
# A test compares no pictures: they are for eyes, and take longer than all that they stand between.
ARE_WANTED = is_long() or os.environ.get("FENCE_PICTURES") == "1"
AXE = Axe()
THEMES = ("light", "dark")
WIDTHS = {"desktop": (1440, 900), "phone": (390, 844)}
# So often a page is looked at before it counts as one that scrolls sideways.
LOOKS = 30


@dataclass(kw_only=True)  # no slots: Playwright hangs its wrappers on the listener's object
class Watch:
    """Collects what must not happen while a test looks at pages of `host`; `allowed` are words of expected faults."""

    host: str
    faults: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        """Watch every page of a context."""
        context.on("request", self._asked)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))

    def check(self) -> None:
        """Fail where something happened that must not."""
        found = [fault for fault in self.faults if not any(word in fault for word in self.allowed)]
        assert not found, "\n".join(found)

    def _asked(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("http", "https", "ws", "wss") and url.netloc != self.host:
            self.faults.append(f"asked another host: {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text} ({message.location.get('url')})")


def shoot(page: Page, name: str) -> None:
    """Store pictures of the whole page in both themes, as on a desk and as on a phone, where somebody wants to look."""
    if not ARE_WANTED:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    for device, (width, height) in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            with in_theme(page, theme):
                draw_figures(page)
                page.screenshot(path=PICTURES / f"{name}-{device}-{theme}.png", full_page=True)
    if before:
        page.set_viewport_size(before)


@contextmanager
def in_theme(page: Page, theme: str) -> Iterator[None]:
    """Show a page as in a system of that theme."""
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    try:
        yield
    finally:
        page.emulate_media(color_scheme="light")


def draw_figures(page: Page) -> None:
    """Bring every figure near, and wait until all are drawn."""
    for plot in page.locator("[data-plot]").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_function("() => [...document.querySelectorAll('[data-plot]')].every((plot) => plot.dataset.drawn)")
    page.evaluate("() => scrollTo(0, 0)")


def check_axe(page: Page) -> None:
    """Fail where axe finds something against WCAG 2.2 A and AA, in either theme."""
    all_rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    # A theme changes colours and nothing else, and the other rules take most of the time.
    of_colour = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
    if page.evaluate("() => !('axe' in window)"):
        page.evaluate(AXE.axe_script)
    for theme, rules in (("light", all_rules), ("dark", of_colour)):
        with in_theme(page, theme):
            # Told of all that is well, it would describe every element of the page.
            options = {"runOnly": rules, "resultTypes": ["violations"]}
            results = AxeResults(page.evaluate("(options) => axe.run(document, options)", options))
        assert results.violations_count == 0, f"{theme}: {results.generate_report()}"


def check_fits(page: Page, width: int = 320) -> None:
    """Fail where a page of that width scrolls sideways."""
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 640})
    for _ in range(LOOKS):
        # Figures follow a new width a moment later.
        if page.evaluate("() => document.documentElement.scrollWidth") <= width:
            break
        page.wait_for_timeout(100)
    else:
        wide = page.evaluate(
            """() => [...document.querySelectorAll("main *, nav *")]
              .filter((one) => one.getBoundingClientRect().right > innerWidth)
              .filter((one) => !one.closest(".table-frame, .json, svg")).map((one) => one.outerHTML.slice(0, 120))"""
        )
        raise AssertionError("\n".join(["the page scrolls sideways", *wide]))
    if before:
        page.set_viewport_size(before)
