"""What the system needs, each asked whether it is there (`/readyz`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import redis
from django.conf import settings
from django.db import Error, connection
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Worker
from rq.worker_registration import REDIS_WORKER_KEYS

from fencing.api import faults
from fencing.services.unavailable import why_unavailable

TIMEOUT_S: Final = 1.0
# RQ's workers report themselves at least this often, busy or not.
SEEN_WITHIN: Final = timedelta(minutes=10)
MOST_WORKERS: Final = 1000

Check = dict[str, Any]


def check_all() -> dict[str, Check]:
    """Ask each dependency. `ok` is the answer, `why` a sentence where it is no."""
    return {"database": check_database(), "redis": check_redis(), "workers": check_workers()}


def is_ready(checks: Mapping[str, Check]) -> bool:
    """Whether calls can be taken. Without Redis and workers they can: facts are kept, and only deciding waits (N6)."""
    return bool(checks["database"]["ok"])


def check_database() -> Check:
    """Whether the database answers, takes writes, and has every constraint and trigger that holds an invariant."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'")
            row = cursor.fetchone()
        if row and row[0]:
            return _no("The database is read-only.")
        missing = _missing_guards()
    except Error as error:
        return _no(f"The database {why_unavailable(error) or 'fails'}.")
    if missing:
        return _no(f"Guards are missing in the database: {', '.join(missing)}.")
    why = faults.RECENT.why()
    return _no(f"The database {why}, as a call found a moment ago.") if why in ("is full", "is read-only") else _yes()


def check_redis() -> Check:
    """Whether Redis answers."""
    try:
        _client().ping()
    except (redis.RedisError, OSError) as error:
        return _no(
            f"Redis is away ({type(error).__name__}): nothing is decided until it is back or a sweep finds the work."
        )
    return _yes()


def check_workers() -> Check:
    """Whether workers have reported themselves lately, and how many."""
    try:
        workers = Worker.all(connection=_client())
    except (redis.RedisError, OSError):
        return _no("Redis is away: no worker can be seen.")
    oldest = datetime.now(UTC) - SEEN_WITHIN
    seen = sum(1 for worker in workers if worker.last_heartbeat and _aware(worker.last_heartbeat) >= oldest)
    return {**_yes(), "seen": seen} if seen else {**_no("No worker is running: nothing is decided."), "seen": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A worker that has reported itself lately."""

    name: str
    queues: tuple[str, ...]
    state: str
    seen_at: datetime


def workers_seen() -> list[SeenWorker] | None:
    """The workers that have reported themselves lately, in two round trips however many; None where Redis is away."""
    try:
        client = _client()
        keys: list[Any] = sorted(client.smembers(REDIS_WORKER_KEYS))[:MOST_WORKERS]
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.hmget(key, ["last_heartbeat", "queues", "state"])
        found = zip(keys, pipe.execute(), strict=True)
    except (redis.RedisError, OSError):
        return None
    oldest = datetime.now(UTC) - SEEN_WITHIN
    made = []
    for key, (beat, queues, state) in found:
        seen_at = _moment(beat)
        if seen_at is not None and seen_at >= oldest:
            name = key.decode().removeprefix(Worker.redis_worker_namespace_prefix)
            served = tuple((queues or b"").decode().split(",")) if queues else ()
            made.append(SeenWorker(name=name, queues=served, state=(state or b"?").decode(), seen_at=seen_at))
    return made


def redis_facts() -> Mapping[str, Any]:
    """What Redis says of itself; nothing where it is away."""
    try:
        facts: Mapping[str, Any] = _client().info()
    except (redis.RedisError, OSError):
        return {}
    return facts


def queue_depths() -> dict[str, int] | None:
    """How many jobs wait in each queue; None where Redis is away."""
    try:
        return {name: int(_client().llen(f"rq:queue:{name}")) for name in settings.RQ_QUEUES}
    except (redis.RedisError, OSError):
        return None


@cache
def _client() -> redis.Redis:
    timeouts = {"socket_connect_timeout": TIMEOUT_S, "socket_timeout": TIMEOUT_S}
    return redis.Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 1), **timeouts)


def _missing_guards() -> list[str]:
    from fencing.models.guards import missing_guards  # noqa: PLC0415 - reads the schema of every model: only when asked

    return missing_guards(connection)


def _moment(text: bytes | None) -> datetime | None:
    try:
        return None if text is None else _aware(datetime.fromisoformat(text.decode()))
    except ValueError:
        return None


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _yes() -> Check:
    return {"ok": True}


def _no(why: str) -> Check:
    return {"ok": False, "why": why}
