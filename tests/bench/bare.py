"""The yardstick beside the API: a WSGI handler with nothing in it but one row for each request.

Served by granian as a web process is. The row is committed before the answer leaves, as ours are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import psycopg

from tests.bench.wire import TIMEOUT_S

TABLE: Final = """
CREATE SCHEMA IF NOT EXISTS bare_handler;
CREATE TABLE IF NOT EXISTS bare_handler.request (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
  path text NOT NULL, body bytea NOT NULL)
"""
WRITE: Final = "INSERT INTO bare_handler.request (path, body) VALUES (%s, %s)"
# As long as a step's object with its token, so that sending and reading it cost the same.
ANSWER: Final = b'{"token":"%b","intent":"%b","delivery":"%b","rest":"%b"}' % (
    b"t" * 560,
    b"i" * 36,
    b"d" * 36,
    b"r" * 700,
)
LENGTH: Final = str(len(ANSWER))

_mine = threading.local()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Write one row and answer."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    _connection().execute(WRITE, (environ["PATH_INFO"], body), prepare=True)
    status = "200 OK"
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", LENGTH)])
    return [ANSWER]


def _connection() -> psycopg.Connection[Any]:
    """This thread's own connection."""
    found: psycopg.Connection[Any] | None = getattr(_mine, "connection", None)
    if found is None:
        found = _mine.connection = psycopg.connect(
            os.environ["BARE_DATABASE_URL"], autocommit=True, connect_timeout=int(TIMEOUT_S)
        )
    return found
