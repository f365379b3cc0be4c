"""The fence job: drains the fencer's work list, and lingers a moment for what comes next."""

from __future__ import annotations

import time

import redis
import structlog
from django.conf import settings

from fencing.gateway.outcomes import sweep_intents
from fencing.gateway.undoings import release_due, sweep_compensations
from fencing.models import Step
from fencing.models.facts import read_clock
from fencing.services.counts import sum_changes
from fencing.services.fencing import BATCH, decide_due
from fencing.services.forks import expire_forks
from fencing.services.grants import expire_grants
from fencing.services.tool_changes import expire_changes
from fencing.services.wakeups import ALIVE_S, alive, bell, wake

log = structlog.get_logger(__name__)

# A job ends well below RQ's job timeout, and hands on to the next wake-up.
RUN_S = 20.0
LINGER_S = 1
# How often a job that works says that it is alive, which it does for longer.
SAID_EVERY_S = ALIVE_S / 3


def drain() -> int:
    """Decide what is due until nothing is, then wait a moment at the bell; give how many steps were decided."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=LINGER_S + 2)
    until, decided, said_at = time.monotonic() + RUN_S, 0, -SAID_EVERY_S
    release_due()
    try:
        while (now := time.monotonic()) < until:
            if now - said_at >= SAID_EVERY_S:
                client.set(alive("fence"), 1, ex=ALIVE_S)
                said_at = now
            decided += drain_once()
            if client.blpop([bell("fence")], timeout=LINGER_S) is None:
                break
    finally:
        # Whoever rings from here on starts a new job. What rang just before is found by the look below.
        client.delete(alive("fence"))
        client.close()
    return decided + drain_once()


def drain_once() -> int:
    """Decide batch after batch until a batch comes back short."""
    decided = 0
    while (batch := decide_due()) > 0:
        decided += batch
        if batch < BATCH:
            break
    return decided


def sweep() -> None:
    """The net under lost wake-ups: what is due by the clock, and what a wake-up should have told."""
    expire_grants()
    expire_changes()
    expire_forks()
    sweep_intents()
    sweep_compensations()
    release_due()
    sum_changes()
    if has_due_steps():
        wake("fence")
        # Where Redis is away no job comes: progress pauses, nothing is lost (N6).


def has_due_steps() -> bool:
    """Tell whether the work list holds anything due."""
    return Step.objects.filter(due_at__lte=read_clock()).exists()
