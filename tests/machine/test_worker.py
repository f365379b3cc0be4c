"""The worker process: what it runs, what it refuses, and what it survives."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import django_rq
import psycopg
import pytest
import redis
from django.db import connection
from rq import Queue
from rq.callbacks import Callback
from rq.registry import FailedJobRegistry
from rq.serializers import JSONSerializer

from fencing.jobs import worker
from fencing.machine.folder import DataFolder
from fencing.machine.servers import Servers, valkey_url
from tests.throwaway import throw_away

TOP = Path(__file__).resolve().parent.parent.parent
SWEEP = "fencing.jobs.fence.sweep"


@pytest.fixture
def queue(valkey: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """The empty queue `default`, for a worker in this process, which shares the test's transaction and signals."""
    # As Django's own test client does: a connection with an open transaction looks like a broken one.
    monkeypatch.setattr(worker, "close_old_connections", lambda: None)
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    made = django_rq.get_queue("default", commit_mode="auto")
    yield made
    made.connection.close()
    for each, handler in before.items():
        signal.signal(each, handler)


def work_off(queue: Queue) -> int:
    """Let a worker of ours empty `queue`, and return how many jobs failed."""
    busy = worker.make_worker([queue.name], threading.Event())
    busy.work(burst=True, logging_level="CRITICAL")
    busy.connection.close()
    return FailedJobRegistry(queue=queue).count


@pytest.mark.parametrize("name", ["fencing.jobs.tick", SWEEP, "fencing.jobs.fence.drain"])
def test_an_entry_point_of_the_jobs_can_run(name: str, queue: Queue) -> None:
    job = worker.FenceJob.create(name, connection=queue.connection, serializer=JSONSerializer)
    assert f"{job.func.__module__}.{job.func.__name__}" == name


@pytest.mark.parametrize(
    "name",
    [
        "os.mkdir",
        "fencing.services.credentials.issue",
        "fencing.jobsevil.run",
        "fencing.jobs",
        "fencing.jobs.wake",
        "fencing.jobs.fence.time.sleep",
        "fencing.jobs.fence.redis.Redis",
        "fencing.jobs.worker.run_worker",
        "fencing.jobs.__init__",
    ],
)
def test_whatever_else_redis_names_is_refused(name: str, queue: Queue) -> None:
    job = worker.FenceJob.create(name, connection=queue.connection, serializer=JSONSerializer)
    with pytest.raises(worker.ForbiddenJob):
        _ = job.func


@pytest.mark.django_db
def test_a_planted_job_does_nothing(queue: Queue, tmp_path: Path) -> None:
    queue.enqueue_call("os.mkdir", args=(str(tmp_path / "planted"),))
    assert work_off(queue) == 1
    assert not (tmp_path / "planted").exists()


@pytest.mark.django_db
def test_a_planted_callback_does_nothing(queue: Queue) -> None:
    # RQ would call it with the job, its connection and the result, which it cannot take: the job would fail.
    queue.enqueue_call(SWEEP, on_success=Callback("os.mkdir"), on_failure=Callback("os.mkdir"))
    assert work_off(queue) == 0


@pytest.mark.django_db
def test_a_pickled_job_is_not_unpickled(queue: Queue, tmp_path: Path) -> None:
    job = queue.enqueue_call(SWEEP, failure_ttl=60)
    # What a pickle of `os.mkdir(…)` looks like; a worker that read it would make the folder while reading.
    pickled = f"cos\nmkdir\n(V{tmp_path / 'planted'}\ntR.".encode()
    queue.connection.hset(job.key, "data", pickled)
    work_off(queue)
    assert not (tmp_path / "planted").exists()


@pytest.mark.django_db
def test_a_job_that_is_done_leaves_nothing_in_redis(queue: Queue) -> None:
    job = queue.enqueue_call(SWEEP)
    assert work_off(queue) == 0
    assert not queue.connection.exists(job.key)


def test_a_tick_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping, calls = threading.Event(), []

    def tick() -> None:
        calls.append(time.monotonic())
        if len(calls) == 3:
            stopping.set()
        raise RuntimeError("away")

    monkeypatch.setattr("fencing.jobs.tick", tick)
    monkeypatch.setattr(worker, "close_old_connections", lambda: None)
    worker.keep_ticking(stopping, every_s=0.01)
    assert len(calls) == 3


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[Servers]:
    """A Valkey of this test alone, to be killed."""
    folder = DataFolder(path=tmp_path / "data")
    folder.prepare()
    servers = Servers.plan(folder, {"DATABASE_URL": "given"})
    servers.start()
    yield servers
    servers.stop()


@pytest.fixture
def own_worker(own_valkey: Servers, django_db_setup: None) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py work default`, as `up` starts it, on the test database."""
    assert own_valkey.valkey
    host = connection.settings_dict["HOST"].replace("/", "%2F")
    password = throw_away().folder.secret("fence_fencer")
    variables = {
        **os.environ,
        "REDIS_URL": valkey_url(own_valkey.valkey.socket),
        "FENCE_ROLE": "fencer",
        "FENCE_DATABASE_URL_FENCER": f"postgresql://fence_fencer:{password}@/test_fence?host={host}",
        "DJANGO_SETTINGS_MODULE": "fencing.settings",
    }
    process = subprocess.Popen([sys.executable, "manage.py", "work", "default"], cwd=TOP, env=variables)
    yield process
    process.kill()
    process.wait()


def eventually(condition: Callable[[], object], within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.05)


def queue_of(servers: Servers) -> Queue:
    """The queue `default` in the Valkey of the test."""
    assert servers.valkey
    return django_rq.get_queue(
        "default", commit_mode="auto", connection=redis.Redis.from_url(valkey_url(servers.valkey.socket))
    )


@pytest.mark.django_db
def test_a_worker_outlives_redis_and_a_closed_database_connection(
    own_valkey: Servers, own_worker: subprocess.Popen[bytes], connect_as: Callable[[str], psycopg.Connection]
) -> None:
    queue = queue_of(own_valkey)
    job = queue.enqueue_call(SWEEP)
    eventually(lambda: not queue.connection.exists(job.key))

    valkey = own_valkey.children[0]
    os.kill(valkey.pid, signal.SIGKILL)
    time.sleep(1.5)
    own_valkey.restart(valkey)
    own_valkey.wait()
    closed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'fence fencer'"
    assert connect_as("fence_fencer").execute(closed).fetchone() != (0,)

    job = queue.enqueue_call(SWEEP)
    eventually(lambda: not queue.connection.exists(job.key))
    assert FailedJobRegistry(queue=queue).count == 0
    queue.connection.close()

    assert own_worker.poll() is None
    own_worker.send_signal(signal.SIGTERM)
    assert own_worker.wait(15) == 0
