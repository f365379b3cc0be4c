"""Ringing for a job: one message, and never a burden on the call that rings (N6)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import django_rq
import pytest
import redis
from structlog.testing import capture_logs

from fencing.services.wakeups import Bell, alive
from tests.live import free_port


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address that takes calls and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@pytest.fixture
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencing.services.wakeups.PAUSE_S", 3600.0)


def ring_without_asking(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Ring where whoever asked Redis would find nothing to ask."""
    with monkeypatch.context() as context:
        context.setattr(bell, "_redis", None)
        return bell.ring("fence")


@pytest.mark.usefixtures("long_pause")
def test_a_redis_that_is_gone_is_told_once_and_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Bell(f"redis://127.0.0.1:{free_port()}/0")
    with capture_logs() as logs:
        assert bell.ring("fence") is False
        assert ring_without_asking(bell, monkeypatch) is False
    assert [line["event"] for line in logs] == ["wake_failed"]


@pytest.mark.usefixtures("long_pause")
def test_a_redis_that_is_silent_costs_a_moment_once(silent_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Bell(silent_address)
    began = time.monotonic()
    assert bell.ring("fence") is False
    assert time.monotonic() - began < 30, "nobody waits for ever"
    assert ring_without_asking(bell, monkeypatch) is False


def test_a_bell_works_again_when_redis_is_back(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencing.services.wakeups.PAUSE_S", 0.1)
    bell = Bell(valkey)
    away = redis.Redis.from_url(f"redis://127.0.0.1:{free_port()}/0")
    with monkeypatch.context() as gone:
        gone.setattr(bell, "_redis", away)
        assert bell.ring("fence") is False
    away.close()
    time.sleep(0.11)
    assert bell.ring("fence") is True
    assert len(django_rq.get_queue("fence")) == 1


def test_a_bell_rings_for_one_job_until_that_has_ended(valkey: str) -> None:
    bell = Bell(valkey)
    for _ in range(20):
        assert bell.ring("fence") is True
    assert len(django_rq.get_queue("fence")) == 1
    with closing(redis.Redis.from_url(valkey)) as client:
        client.delete(alive("fence"))
    bell.ring("fence")
    assert len(django_rq.get_queue("fence")) == 2
