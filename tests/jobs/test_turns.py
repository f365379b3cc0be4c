"""Tickers take turns: one looks for what is due each second, and who hangs or dies does not keep it from the others."""

from __future__ import annotations

import threading

import pytest
import redis

from fencing.jobs import worker
from fencing.services import beats

TURN = "fence:turn:tick"


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ticks that a ticker made; it has no connections to close."""
    made: list[str] = []
    monkeypatch.setattr("fencing.jobs.tick", lambda: made.append("tick"))
    monkeypatch.setattr(worker, "close_old_connections", lambda: None)
    return made


class Rounds(threading.Event):
    """Lets a ticker go round so many times."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = iter([False] * count)

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - the signature of an event
        return next(self.left, True)


def test_of_two_tickers_one_looks(queues: redis.Redis, ticks: list[str]) -> None:
    worker.keep_ticking(Rounds(1), every_s=60)
    worker.keep_ticking(Rounds(3), every_s=60)
    assert ticks == ["tick"]


def test_a_turn_ends_by_itself_before_the_next_second(queues: redis.Redis, ticks: list[str]) -> None:
    worker.keep_ticking(Rounds(1))
    assert 0 < queues.pttl(TURN) < 1000 * worker.TICK_S
    # What is left of a ticker that hangs: its turn, until it ends.
    queues.delete(TURN)
    worker.keep_ticking(Rounds(1))
    assert len(ticks) == 2


@pytest.fixture
def away(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Valkey answers."""
    nowhere = redis.Redis(unix_socket_path="/nonexistent/valkey.sock")
    monkeypatch.setattr(beats, "_client", lambda: nowhere)
    monkeypatch.setattr(beats, "_paused", [0.0])


def test_while_valkey_is_away_every_ticker_looks(away: None, ticks: list[str]) -> None:
    worker.keep_ticking(Rounds(2), every_s=60)
    worker.keep_ticking(Rounds(1), every_s=60)
    assert len(ticks) == 3
