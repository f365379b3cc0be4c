"""The worker process: takes wake-ups off a queue, and ticks each second so that a lost wake-up costs no more.

Redis is not trusted: what it holds names a function of this package and hands it JSON, or it is refused. It may also
vanish at any moment; the worker waits and goes on.
"""

import gc
import inspect
import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import django_rq
import redis.exceptions
import structlog
from django.db import close_old_connections
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.worker import SimpleWorker

from fencing import jobs
from fencing.services import beats

log = structlog.get_logger(__name__)

TICK_S = 1.0
# Of the time between two ticks: long enough that no second ticker comes in, over before this one's own next tick.
TURN = 0.9
# How long a worker waits for a Redis that is away before it tries again.
RECONNECT_S = 1.0
# How long calls of tools that are under way may take to end when the worker stops.
COURIER_S = 13.0
# RQ derives its time limits from this one: a wait for work ends, and a silent Redis is noticed, within half a minute.
WORKER_TTL_S = 45
ENTRY_POINT = re.compile(r"fencing\.jobs(\.[a-z][a-z0-9_]*)+")


class ForbiddenJob(Exception):
    """A job names something that is no entry point of `fencing.jobs`."""


class FenceJob(Job):
    """A job that can do one thing only: call an entry point. RQ's callbacks and web hooks would do others."""

    success_callback = None
    failure_callback = None
    stopped_callback = None

    @property
    def func(self) -> Callable[..., Any]:
        """The entry point.

        Raises:
            ForbiddenJob: it is none, whatever it is; nothing of it was imported.
        """
        name = self.func_name or ""
        if self.instance is not None or not ENTRY_POINT.fullmatch(name):
            raise ForbiddenJob(name[:100])
        function: Callable[..., Any] | None = super().func
        if function is None or not is_entry_point(function):
            raise ForbiddenJob(name[:100])
        return function

    def send_webhooks(self, *_args: Any, **_options: Any) -> None:
        """Send nothing: a worker calls nobody because Redis says so."""


def is_entry_point(function: object) -> bool:
    """Whether `function` is written in this package: `fencing.jobs.fence.time.sleep` only begins like one that is.

    This module is none of its own jobs.
    """
    if not inspect.isfunction(function):
        return False
    module = function.__module__
    return module == jobs.__name__ or (module.startswith(f"{jobs.__name__}.") and module != __name__)


class FenceWorker(SimpleWorker):
    """Runs jobs in this process, each with a database connection that is known to work."""

    log_result_lifespan = False
    max_connection_wait_time = 2.0
    stopping: threading.Event

    def perform_job(self, job: Job, queue: Queue, *arguments: Any) -> bool:
        """Run one job; a connection that the database closed meanwhile is replaced first."""
        close_old_connections()
        try:
            done: bool = super().perform_job(job, queue, *arguments)
            return done
        finally:
            close_old_connections()

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Remember that a person, not a failure, ends the loop."""
        self.stopping.set()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]


def run_worker(queues: Sequence[str]) -> None:
    """Take jobs of `queues` until SIGINT or SIGTERM; return when the job at hand has ended."""
    # What was loaded stays for ever: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    stopping = threading.Event()
    named = {"name": beats.ticker_name(",".join(queues))}
    ticker = threading.Thread(target=keep_ticking, args=(stopping,), kwargs=named, name="ticker", daemon=True)
    ticker.start()
    courier = start_courier(queues, stopping)
    while not stopping.is_set():
        _listen(stopping)
        try:
            make_worker(queues, stopping).work(logging_level=logging.getLevelName(logging.WARNING))
        except redis.exceptions.RedisError as error:
            log.warning("redis_away", error=type(error).__name__)
        _listen(stopping)
        stopping.wait(RECONNECT_S)
    if courier is not None:
        courier.join(COURIER_S)
    ticker.join(TICK_S)


def start_courier(queues: Sequence[str], stopping: threading.Event) -> threading.Thread | None:
    """Start what calls push tools, in a worker of their queue."""
    from fencing.jobs import deliver  # noqa: PLC0415 - models are ready only once Django is

    return deliver.start(stopping) if deliver.QUEUE in queues else None


def keep_ticking(stopping: threading.Event, every_s: float = TICK_S, name: str = "") -> None:
    """Call `fencing.jobs.tick` every `every_s` seconds; a failure is logged once and tried again.

    Tickers of several workers take turns, for each looks for all that is due. Who has the turn and dies or hangs loses
    it before the next second.
    """
    failure = ""
    while not stopping.wait(every_s):
        close_old_connections()
        started = time.monotonic()
        try:
            if beats.take_turn("tick", every_s * TURN):
                jobs.tick()
        except Exception as error:  # the net under lost wake-ups must not get a hole
            if failure != type(error).__name__:
                failure = type(error).__name__
                log.exception("tick_failed")
        else:
            if failure:
                log.info("tick_works_again", failed_with=failure)
            failure = ""
        if name:
            beats.note({name: (time.monotonic() - started, failure)})
    close_old_connections()


def make_worker(queues: Sequence[str], stopping: threading.Event) -> FenceWorker:
    """Return a worker for `queues` that sets `stopping` when a signal ends it.

    Raises:
        RedisError: Redis is away.
    """
    chosen = [django_rq.get_queue(name, job_class=FenceJob) for name in queues]
    worker = FenceWorker(
        chosen,
        connection=chosen[0].connection,
        job_class=FenceJob,
        queue_class=type(chosen[0]),
        serializer=JSONSerializer,
        worker_ttl=WORKER_TTL_S,
        log_job_description=False,
    )
    worker.stopping = stopping
    return worker


def _listen(stopping: threading.Event) -> None:
    """Let signals to stop set `stopping`; RQ takes them over while its loop runs."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
