"""Beats: when each ticker and sweep last ran, how long it took, what it failed with. In Valkey, and a hint (N6)."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

KEY: Final = "fence:beats"
TIMEOUT_S: Final = 0.5
PAUSE_S: Final = 2.0
# What has not beaten for so long belongs to a process that is gone.
FORGOTTEN_S: Final = 3600.0
_paused: list[float] = [0.0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The last time that something ran. `error` is empty where it went well."""

    name: str
    at: datetime
    took_ms: int
    error: str


def note(beats: Mapping[str, tuple[float, str]]) -> None:
    """Write down what just ran: name → (seconds that it took, what it failed with). Never raises."""
    if not beats or time.monotonic() < _paused[0]:
        return
    now = time.time()
    told: dict[Any, Any] = {name: json.dumps([now, round(took * 1000), error]) for name, (took, error) in beats.items()}
    try:
        _client().hset(KEY, mapping=told)
    except (redis.RedisError, OSError):
        _paused[0] = time.monotonic() + PAUSE_S


def take_turn(what: str, for_s: float) -> bool:
    """Take the turn for so long (seconds); False where somebody else has it. Where Valkey is away everybody has it."""
    if time.monotonic() < _paused[0]:
        return True
    try:
        return bool(_client().set(f"fence:turn:{what}", os.getpid(), nx=True, px=round(for_s * 1000)))
    except (redis.RedisError, OSError):
        _paused[0] = time.monotonic() + PAUSE_S
        return True


def read_beats() -> list[Beat] | None:
    """Read all that beat within the hour; None where Valkey is away."""
    try:
        found: Any = _client().hgetall(KEY)
    except (redis.RedisError, OSError):
        return None
    beats = []
    for name, text in found.items():
        at, took, error = json.loads(text)
        if time.time() - at < FORGOTTEN_S:
            moment = datetime.fromtimestamp(at, UTC)
            beats.append(Beat(name=name.decode(), at=moment, took_ms=took, error=error))
    return sorted(beats, key=lambda beat: beat.name)


def ticker_name(queues: str) -> str:
    """Name the ticker of this process."""
    return f"ticker {queues} {socket.gethostname()}:{os.getpid()}"


@cache
def _client() -> redis.Redis:
    timeouts = {"socket_connect_timeout": TIMEOUT_S, "socket_timeout": TIMEOUT_S}
    return redis.Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 1), **timeouts)
