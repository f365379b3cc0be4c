"""Sending to real receivers: what arrives, what is told of a failure, and what is never dialled."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from fencing.environment import Mode, read_environment
from fencing.protocol.addresses import LOOPBACK, may_reach
from fencing.protocol.errors import Refusal
from fencing.services import sending
from fencing.services.sending import Address, Sent, lock_address, read_address, send
from tests.receivers import MailServer, WebServer, nobody, serving

TOKEN = "s3cr3t-t0ken-of-mine"
METADATA = [
    "http://169.254.169.254/latest/meta-data/",
    "json://169.254.169.254/latest/meta-data/",
    "json://[::ffff:169.254.169.254]/",
    "json://2852039166/",
    "json://0x7f.1/",
    "json://10.0.0.1/",
    "json://localhost:6379/",
    "file:///etc/passwd",
    "gopher://x",
    "syslog://",
    "dbus://",
    "mailto://u:p@192.168.1.1",
]


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving(WebServer()) as server:
        yield server


def sent(url: str, title: str = "Fence: a title", body: str = "A body.") -> Sent:
    found = read_address(url)
    assert isinstance(found, Address), found
    return send(lock_address(found), title, body)


def test_a_mail_arrives_as_text(settings: Settings) -> None:
    with serving(MailServer()) as server:
        body = "Late divergence: <b>x</b> & co.\n\nhttp://127.0.0.1:8000/notices/1/open"
        url = f"mailto://127.0.0.1:{server.port}?from=fence@example.test&to=lena@example.test"
        assert sent(url, "Fence: late", body) == Sent(is_sent=True)
        (mail,) = server.mails
    assert mail["Subject"] == "Fence: late"
    assert "lena@example.test" in mail["To"]
    html, text = mail.get_body(("html",)), mail.get_body(("plain",))
    assert html is None or "<b>x</b>" not in html.get_content(), "what looks like markup is text"
    assert text is not None
    assert text.get_content().split() == body.split()


def test_a_webhook_gets_json(web: WebServer) -> None:
    assert sent(f"json://127.0.0.1:{web.port}/hook/{TOKEN}").is_sent
    ((path, body),) = web.calls
    assert (path.rstrip("/"), body["title"], body["message"]) == (f"/hook/{TOKEN}", "Fence: a title", "A body.")


def test_a_chat_gets_a_message(web: WebServer) -> None:
    """Mattermost's incoming webhook."""
    assert sent(f"mmost://127.0.0.1:{web.port}/3ccdd113474722377935511fc85d3dd4").is_sent
    ((path, body),) = web.calls
    assert path == "/hooks/3ccdd113474722377935511fc85d3dd4"
    assert "A body." in body["text"]


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_a_refusal_is_told_without_anything_of_the_address(status: int) -> None:
    with serving(WebServer(status=status)) as server:
        found = sent(f"json://user-of-mine:{TOKEN}@127.0.0.1:{server.port}/hook/{TOKEN}?+X-Key={TOKEN}")
    assert not found.is_sent
    assert str(status) in found.error
    assert TOKEN not in found.error
    assert "user-of-mine" not in found.error


def test_nobody_there_is_told_at_once() -> None:
    started = time.monotonic()
    found = sent(f"json://127.0.0.1:{nobody()}/")
    assert not found.is_sent
    assert "onnection error" in found.error
    assert time.monotonic() - started < 30


def test_a_server_that_says_nothing_is_left_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "READ_S", 0.3)
    with serving(WebServer(silent_s=60)) as server:
        started = time.monotonic()
        assert not sent(f"json://127.0.0.1:{server.port}/").is_sent
        assert time.monotonic() - started < 30


def test_no_redirect_is_followed(web: WebServer) -> None:
    """H07: a header of any name would go with it."""
    with serving(WebServer(status=307, location=f"http://127.0.0.1:{web.port}/stolen")) as first:
        assert not sent(f"json://127.0.0.1:{first.port}/?+Private-Token={TOKEN}").is_sent
        assert len(first.calls) == 1
    assert web.calls == []


# ---- H08: machines of the house ----


@pytest.fixture
def production(settings: Settings) -> None:
    settings.FENCE_MODE = Mode.PRODUCTION
    settings.FENCE_NOTIFY_NETWORKS = ()


@pytest.mark.parametrize("url", METADATA)
def test_machines_of_the_house_are_refused_when_an_address_is_given(url: str, production: None) -> None:
    assert isinstance(read_address(url), Refusal)


@pytest.mark.parametrize("url", [each for each in METADATA if "localhost" not in each and "0x7f" not in each])
def test_in_local_mode_this_machine_alone_is_allowed(url: str) -> None:
    assert isinstance(read_address(url), Refusal)


def test_what_is_dialled_is_looked_at_once_more(web: WebServer, settings: Settings) -> None:
    """A name can point elsewhere by then: what was allowed when it was saved is refused when it is dialled."""
    found = read_address(f"json://127.0.0.1:{web.port}/{TOKEN}")
    assert isinstance(found, Address)
    settings.FENCE_NOTIFY_NETWORKS = ()
    told = send(lock_address(found), "t", "b")
    assert (told.is_sent, told.error) == (
        False,
        "The address leads to a machine of this house, which is not allowed.",
    )
    assert web.calls == []


def test_a_thread_that_sends_nothing_dials_whom_it_likes(web: WebServer, settings: Settings) -> None:
    import socket  # noqa: PLC0415 - for this test alone

    settings.FENCE_NOTIFY_NETWORKS = ()
    with socket.create_connection(("127.0.0.1", web.port), timeout=5):
        pass


@pytest.mark.parametrize(
    "url",
    [
        "json://example.org/",
        "mailto://u:p@example.org",
        "jsons://example.org/?verify=no",
        "jsons://example.org/?a=1&verify=False",
        "mailtos://u:p@example.org?mode=insecure",
    ],
)
def test_in_production_nothing_goes_in_the_clear(url: str, production: None) -> None:
    assert isinstance(read_address(url), Refusal)


@given(st.ip_addresses())
def test_an_address_is_allowed_where_it_is_public_or_named(address: Any) -> None:
    inside = ipaddress.ip_network(address)
    assert may_reach(str(address), [inside]) or getattr(address, "ipv4_mapped", None) or address.version == 6
    if may_reach(str(address)) and not any(address in ipaddress.ip_network(net) for net in CARRIERS):
        assert address.is_global
        assert not address.is_multicast


# Addresses that carry another one: the inner one is judged.
CARRIERS = ("2002::/16", "64:ff9b::/96", "::ffff:0:0/96")


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_by_itself(inner: Any) -> None:
    number = int(inner)
    for carried in (
        ipaddress.IPv6Address((0xFFFF << 32) | number),
        ipaddress.IPv6Address((0x64FF9B << 96) | number),
        ipaddress.IPv6Address((0x2002 << 112) | (number << 80)),
    ):
        assert may_reach(str(carried)) is may_reach(str(inner)), carried


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1", "::1", "fe80::1%eth0", "0.0.0.0", "100.64.0.1"])  # noqa: S104
def test_what_is_no_public_address_is_not_dialled(text: str) -> None:
    assert not may_reach(text)
    assert may_reach(text, LOOPBACK) is (text in ("127.0.0.1", "::1"))


# ---- references and secrets ----


def test_a_reference_is_opened_when_it_is_sent(
    web: WebServer, monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    settings.FENCE_DATA = tmp_path
    (tmp_path / "notify").mkdir()
    (tmp_path / "notify" / "chat").write_text(f"json://127.0.0.1:{web.port}/one\n")
    monkeypatch.setenv("FENCE_NOTIFY_CHAT", f"json://127.0.0.1:{web.port}/two")
    for text in ("file:chat", "env:FENCE_NOTIFY_CHAT"):
        assert sent(text).is_sent
    assert [path.rstrip("/") for path, _ in web.calls] == ["/one", "/two"]


@pytest.mark.parametrize(
    "text",
    [
        "env:FENCE_SECRET_KEY",
        "env:PATH",
        "file:../secret",
        "file:/etc/passwd",
        "file:none",
        "env:FENCE_NOTIFY_NONE",
        "",
    ],
)
def test_a_reference_leads_to_what_is_meant_for_it_alone(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCE_SECRET_KEY", "json://127.0.0.1/")
    assert isinstance(read_address(text), Refusal)


def test_an_address_is_locked(settings: Settings) -> None:
    found = read_address(f"json://127.0.0.1/{TOKEN}")
    assert isinstance(found, Address)
    locked = lock_address(found)
    assert TOKEN not in locked
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key " * 5, []
    assert send(locked, "t", "b").error.startswith("The address cannot be read any more")


@pytest.mark.parametrize(
    ("given_", "fault"), [("10.0.0.0/8, 192.168.1.5", False), ("10.0.0.0/40", True), ("intranet", True)]
)
def test_the_environment_names_networks(given_: str, fault: bool) -> None:
    found = read_environment({"FENCE_NOTIFY_NETWORKS": given_})
    assert bool(found.faults) is fault
    assert ("127.0.0.0/8" in found.notify_networks) is True
    production = read_environment({"FENCE_NOTIFY_NETWORKS": given_, "FENCE_MODE": "production"})
    assert "127.0.0.0/8" not in production.notify_networks
