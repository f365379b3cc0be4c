"""A run whose rows are really committed, and a Valkey that holds nothing yet."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis
from django.conf import settings
from pytest_django.plugin import DjangoDbBlocker

from fencing.jobs.worker import make_worker
from tests.fencing.beside import empty_database
from tests.stories import Story


@pytest.fixture
def db(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database without a transaction around the test: what is committed is removed afterwards."""
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.fixture
def story(db: None, valkey: str) -> Story:
    """A run in epoch 7, with its actors."""
    return Story.begin()


@pytest.fixture
def queues(valkey: str) -> Iterator[redis.Redis]:
    """A client of the queues' Valkey."""
    with closing(redis.Redis.from_url(settings.REDIS_URL)) as client:
        yield client


@pytest.fixture
def work(valkey: str) -> Iterator[Any]:
    """A function that lets a worker of ours take every job that is enqueued, and end."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def burst(*names: str) -> None:
        make_worker(names or ("fence",), threading.Event()).work(burst=True, logging_level="CRITICAL")

    yield burst
    for number, handler in before.items():
        signal.signal(number, handler)
