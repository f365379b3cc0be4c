"""Where calls of push tools lead: closed addresses, names that resolve otherwise, redirects, proxies, TLS (L9).

A real server in a thread is called, and asked what arrived. No database takes part.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from fencing.gateway.calling import Request
from fencing.protocol.pushing import End, Ended
from tests.pushing import LOCAL, Serving, call, let_go, serving


@pytest.fixture
def server() -> Iterator[Serving]:
    """A tool that serves on this machine."""
    with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def dropped() -> Iterator[None]:
    """Let go of connections that were cut."""
    yield
    let_go()


def ask(url: str, *, open_hosts: frozenset[str] = frozenset(), **values: Any) -> Ended:
    return call(Request(url=url, body=b"{}", timeout_s=2, **values), open_hosts=open_hosts)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "2852039166", "0x7f000001"])
def test_no_closed_address_is_dialled(server: Serving, host: str) -> None:
    ended = ask(f"http://{host}:{server.port}/pay")
    assert ended.how is End.NOT_OPENED
    assert server.ledger.calls == []


def test_a_name_that_resolves_otherwise_a_moment_later_leads_nowhere_else(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is public, every further one this machine: what was judged is what is dialled."""
    answers = iter([["203.0.113.9"], ["127.0.0.1"]])

    async def resolve(_loop: object, _host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in next(answers)]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    ask(f"http://rebinding.example:{server.port}/pay")
    assert server.ledger.calls == []


def test_one_closed_address_among_open_ones_closes_the_name(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(_loop: object, _host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in ("127.0.0.1", "93.184.216.34")]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    assert ask(f"http://mixed.example:{server.port}/pay").how is End.NOT_OPENED
    assert server.ledger.calls == []


def test_no_redirect_is_followed_and_nothing_is_sent_elsewhere(server: Serving) -> None:
    with serving() as other:
        body = b'{"tool":"pay","args":{"do":"redirect"}}'
        request = Request(url=f"{server.url}/pay", body=body, timeout_s=2, headers={"Private-Token": "T"})
        ended = call(request)
        assert (ended.how, ended.status) == (End.ANSWERED, 302)
        assert other.ledger.calls == []
        assert len(server.ledger.calls) == 1


def test_a_certificate_that_does_not_verify_is_no_connection(server: Serving) -> None:
    ended = ask(f"https://127.0.0.1:{server.port}/pay", open_hosts=LOCAL)
    assert ended.how is End.NOT_OPENED
    assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED


def test_proxies_of_the_environment_are_not_asked(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        ended = ask(f"{server.url}/pay", open_hosts=LOCAL)
        assert ended.status == 200
        assert proxy.ledger.calls == []
