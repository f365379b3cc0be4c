"""A browser in front of the real pages: Debian's Chromium, a server of this process, and its test database.

What a test commits through pages or factories is removed after it; the people stay for the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection, connections
from django.test import Client
from django.test.testcases import LiveServerThread
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from pytest_django import DjangoDbBlocker

from fencing.machine.chromium import ensure_chromium
from tests.browser.signing_in import Door
from tests.browser.watching import Watch
from tests.sweeping import empty_tables

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-default-apps", "--disable-extensions", "--mute-audio",
]  # fmt: skip
PASSWORD = "correct horse battery"
PEOPLE = {
    "vera": ["viewer"],
    "arne": ["auditor"],
    "omar": ["on-call"],
    "lena": ["reviewer", "on-call"],
    "rosa": ["reviewer"],
    "nils": ["administrator"],
    "maya": ["administrator"],
    "noor": [],
}
# Playwright's own loop runs in the thread of the test; Django would refuse the database there.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with sync_playwright() as playwright:
        program = ensure_chromium(os.environ)
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def people(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, User]]:
    """A person of each group, and `noor` who is in none; committed for the whole session."""
    with django_db_blocker.unblock():
        made = {name: User.objects.create_user(name, password=PASSWORD) for name in PEOPLE}
        for name, groups in PEOPLE.items():
            made[name].groups.set(Group.objects.filter(name__in=groups))
    yield made
    with django_db_blocker.unblock():
        User.objects.filter(username__in=PEOPLE).delete()


@pytest.fixture(scope="session")
def base_url(people: dict[str, User], django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The address of the pages, served by threads of this process."""
    with django_db_blocker.unblock():
        # WhiteNoise serves the static files here as it does in production.
        thread = LiveServerThread(
            "127.0.0.1", static_handler=cast("type[WSGIHandler]", lambda application: application)
        )
        thread.daemon = True
        thread.start()
        thread.is_ready.wait()
        if thread.error:
            raise thread.error
    yield f"http://127.0.0.1:{thread.port}"
    thread.terminate()


@pytest.fixture(autouse=True)
def db(base_url: str, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let the test commit to the test database, and remove what it left: the server would not see a transaction.

    It has the name of pytest-django's fixture, because that is how pytest-django knows which databases to make.
    """
    with django_db_blocker.unblock():
        yield
        connection.ensure_connection()
        empty_tables(cast("psycopg.Connection[Any]", connection.connection))
        connections.close_all()


@pytest.fixture
def watch(base_url: str) -> Iterator[Watch]:
    """What must not happen beside the test: errors in the console, requests to other hosts."""
    watch = Watch(host=base_url.removeprefix("http://"))
    yield watch
    watch.check()


@pytest.fixture
def context(browser: Browser, base_url: str, watch: Watch, db: None) -> Iterator[BrowserContext]:
    """A fresh browser window without cookies, in a zone that is not UTC."""
    window = browser.new_context(
        base_url=base_url, viewport={"width": 1440, "height": 900}, timezone_id="Europe/Berlin", locale="en-GB"
    )
    window.set_default_timeout(20_000)
    watch.over(window)
    yield window
    window.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page that nobody is signed in on."""
    return context.new_page()


@pytest.fixture
def sign_in(context: BrowserContext, base_url: str, people: dict[str, User]) -> Open:
    """Open a page as somebody: `sign_in("lena", "/runs")`."""

    def open_as(name: str = "lena", path: str = "/") -> Page:
        client = Client()
        client.force_login(people[name])
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": base_url}])
        page = context.pages[0] if context.pages else context.new_page()
        page.goto(path)
        return page

    return open_as


@pytest.fixture
def door(
    browser: Browser, context: BrowserContext, base_url: str, people: dict[str, User], watch: Watch
) -> Iterator[Door]:
    """Pages as somebody who has just confirmed who they are, each further person in a window of their own."""
    door = Door(browser=browser, window=context, base_url=base_url, people=people, watch=watch)
    yield door
    door.close()
