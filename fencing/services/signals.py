"""Signals to waiting reads, sent through Redis after a commit. A hint, never a fact: it may be lost (N6)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from functools import cache
from typing import Final

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

CHANNEL: Final = "fence:signals"
TIMEOUT_S: Final = 0.5
# While Redis is away each call would wait for it again; for this long nobody asks.
PAUSE_S: Final = 1.0

log = structlog.get_logger(__name__)


class Publisher:
    """The sending side of one process. Never raises, and says once that Redis is away."""

    def __init__(self, url: str) -> None:
        # One more try, at once, for a connection that Redis closed meanwhile; the library's own default sleeps.
        self._client = redis.Redis.from_url(
            url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 1)
        )
        self._paused_until = 0.0

    def publish(self, topics: Iterable[str]) -> bool:
        """Send one message with all topics. False where nothing was sent."""
        names = sorted(set(topics))
        if not names or time.monotonic() < self._paused_until:
            return False
        try:
            self._client.publish(CHANNEL, json.dumps(names))
        except (redis.RedisError, OSError) as error:
            if not self._paused_until:
                log.warning("signals_not_sent", error=type(error).__name__)
            self._paused_until = time.monotonic() + PAUSE_S
            return False
        self._paused_until = 0.0
        return True


def publish(topics: Iterable[str]) -> None:
    """Wake who waits for one of these topics. Call it after the commit, never inside a transaction."""
    _publisher().publish(topics)


@cache
def _publisher() -> Publisher:
    return Publisher(settings.REDIS_URL)
