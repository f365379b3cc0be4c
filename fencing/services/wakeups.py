"""Wake-ups of background jobs: after a commit, by a dotted name. They may be lost, doubled or late."""

from __future__ import annotations

import time
from functools import cache

import django_rq
import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger(__name__)

TIMEOUT_S = 0.5
PAUSE_S = 1.0
# How long a job may stand for further ones; it renews this while it works.
ALIVE_S = 3
# Name of a job: the queue that it stands in, and its entry point. Jobs of the queue `default` share one worker: they
# are short, and hand on to the next wake-up.
ENTRY_POINTS = {
    "fence": ("fence", "fencing.jobs.fence.drain"),
    "deliver": ("deliver", "fencing.jobs.deliver.drain"),
    "ledger": ("default", "fencing.jobs.ledgers.work"),
    "seal": ("default", "fencing.jobs.seal.drain"),
    "witness": ("default", "fencing.jobs.seal.tell"),
    "verify": ("default", "fencing.jobs.verify.work"),
    "notify": ("notify", "fencing.jobs.notify.work"),
}


def bell(job: str) -> str:
    """The Redis list at which a job lingers for more."""
    return f"fence:bell:{job}"


def alive(job: str) -> str:
    """The Redis key that is there while a job is enqueued or running."""
    return f"fence:alive:{job}"


class Bell:
    """Rings for a job: one is enqueued unless one is alive already, and that one is told that there is more."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 1)
        )
        self._paused_until = 0.0

    def ring(self, job: str) -> bool:
        """Ring; False where Redis is away, which costs a second at most: the tick finds what is due (N6)."""
        if time.monotonic() < self._paused_until:
            return False
        try:
            pipe = self._redis.pipeline(transaction=False)
            pipe.lpush(bell(job), 1)
            pipe.ltrim(bell(job), 0, 0)
            pipe.set(alive(job), 1, nx=True, ex=ALIVE_S)
            is_first = pipe.execute()[2]
            if is_first:
                queue, entry_point = ENTRY_POINTS[job]
                django_rq.get_queue(queue).enqueue_call(entry_point, result_ttl=0, failure_ttl=3600)
        except (redis.RedisError, OSError) as fault:
            if not self._paused_until:
                log.warning("wake_failed", job=job, fault=type(fault).__name__)
            self._paused_until = time.monotonic() + PAUSE_S
            return False
        self._paused_until = 0.0
        return True

    def has_ended(self, job: str) -> None:
        """Let the next ring enqueue one again. Raises `RedisError` where Redis is away: it forgets by itself."""
        self._redis.delete(alive(job))


def wake(job: str) -> None:
    """Wake a job. Call it after the commit: a job that starts before its facts are visible finds nothing."""
    _bell().ring(job)


def has_ended(job: str) -> None:
    """Say that a job has ended, so that the next wake-up starts it again. Raises `RedisError` where Redis is away."""
    _bell().has_ended(job)


@cache
def _bell() -> Bell:
    return Bell(settings.REDIS_URL)
