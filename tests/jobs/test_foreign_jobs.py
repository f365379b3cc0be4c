"""Redis is not trusted: what it holds names an entry point of ours and hands it JSON, or nothing of it is run."""

from __future__ import annotations

import json
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import django_rq
import pytest
import redis
from rq.job import Job

from tests.stories import REFUND, Story

# Each with arguments that it would take, so that only a refusal can make it fail.
FOREIGN: Final[list[tuple[str, list[Any]]]] = [
    ("os.system", ["touch {trace}"]),
    ("subprocess.check_call", [["touch", "{trace}"]]),
    ("builtins.exec", ["open('{trace}', 'w')"]),
    ("fencing.services.signing.rotate_key", []),
    ("fencing.jobs", []),
    ("fencing.jobs.fence.time.sleep", [0]),
    ("fencing.jobs.fence.decide_due", [1]),
    ("fencing.jobs.worker.signal.raise_signal", [0]),
    ("fencing.jobs.worker.redis.Redis", []),
    ("fencing.jobs.worker.logging.shutdown", []),
    ("fencing.jobs..fence.drain", []),
    ("fencing.jobs.fence.__class__", []),
    ("fencing.jobs.Fence.drain", []),
    (" fencing.jobs.fence.drain", []),
    ("fencing.jobs.fence.drain\n", []),
    ("tests.jobs.test_foreign_jobs.never", []),
    ("", []),
]


def never() -> None:
    """What no worker may call."""
    raise AssertionError("a foreign job was run")


def enqueued(client: redis.Redis, data: bytes, **more: Any) -> str:
    """Put a job into the queue's Redis as somebody would who can write to it, and who asks no library."""
    job = f"foreign-{abs(hash(data))}"
    members = {"created_at": "2026-01-01T00:00:00.000000Z", "data": data, "origin": "fence", "status": "queued", **more}
    for name, value in members.items():
        client.hset(f"rq:job:{job}", name, value)
    client.rpush("rq:queue:fence", job)
    return job


def written(function: str, *args: Any) -> bytes:
    return zlib.compress(json.dumps([function, None, list(args), {}]).encode())


def fault_of(job: str) -> str:
    """Why a job failed; empty where it did not."""
    result = Job.fetch(job, connection=django_rq.get_connection("fence"), serializer=JSON).latest_result()
    return "" if result is None else str(result.exc_string or "")


JSON = "rq.serializers.JSONSerializer"


@pytest.mark.parametrize(("function", "arguments"), FOREIGN)
def test_a_job_that_is_none_of_ours_is_not_run(
    function: str, arguments: list[Any], work: Callable[..., None], queues: redis.Redis, db: None, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    told = json.loads(json.dumps(arguments).replace("{trace}", str(trace)))
    job = enqueued(queues, written(function, *told))
    work()
    assert "ForbiddenJob" in fault_of(job)
    assert not trace.exists()


def test_nothing_that_is_pickled_is_ever_read(
    story: Story, work: Callable[..., None], queues: redis.Redis, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"

    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            import os  # noqa: PLC0415 - only the bomb needs it

            return os.system, (f"touch {trace}",)

    enqueued(queues, zlib.compress(pickle.dumps(("fencing.jobs.fence.drain", None, (Bomb(),), {}))))
    enqueued(queues, pickle.dumps(Bomb()))
    story.propose()
    story.vote(story.replica, REFUND)
    story.vote(story.production, REFUND)
    work()
    assert not trace.exists()
    assert story.step()["phase"] == "committed", "the worker went on with what is ours"


@pytest.mark.parametrize("member", ["success_callback_name", "failure_callback_name", "stopped_callback_name"])
def test_a_job_of_ours_brings_no_callback_along(
    member: str, story: Story, work: Callable[..., None], queues: redis.Redis
) -> None:
    good, bad = written("fencing.jobs.fence.drain"), written("fencing.jobs.nowhere")
    enqueued(queues, good, **{member: "tests.jobs.test_foreign_jobs.never"})
    enqueued(queues, bad, **{member: "tests.jobs.test_foreign_jobs.never"})
    work()
    story.propose()
    assert story.step()["phase"] == "proposed"
