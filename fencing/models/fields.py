"""The columns that many tables share: time-ordered keys, identifiers, digests, and the database's clock."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Func

IDENTIFIER_LENGTH = 200
DIGEST_LENGTH = 71  # "sha256:" and 64 hexadecimal digits

if TYPE_CHECKING:
    CharField = models.CharField[Any, Any]
else:
    CharField = models.CharField


class ExactCharField(CharField):
    """Text that is looked up by equality alone.

    For every unique or referring `varchar` Django makes a second index, for LIKE. Spelling the type's long name keeps
    it from that: nobody searches digests by prefix, and each such index costs every insert of the hot path.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:  # noqa: ARG002 - Django's signature
        """Name the column's type."""
        return f"character varying({self.max_length})"


_lock = threading.Lock()
_last = 0


def uuid7() -> uuid.UUID:
    """Make a UUID of version 7 (RFC 9562, method 3): the time first, to a fraction of a microsecond.

    Keys of one process grow strictly, also within a millisecond: rows of one transaction sort as they were made.
    """
    return uuid.UUID(int=_next_key())


def uuid7_text() -> str:
    """Make one as text: where thousands are only written down, the object would cost as much as all the rest."""
    text = f"{_next_key():032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _next_key() -> int:
    global _last  # noqa: PLW0603 - one clock for the process
    with _lock:
        now = time.time_ns()
        ticks = (now // 1_000_000 << 12) | (now % 1_000_000 << 12) // 1_000_000
        _last = ticks = max(ticks, _last + 1)
    value = (ticks >> 12) << 80 | 0x7 << 76 | (ticks & 0xFFF) << 64 | 0b10 << 62
    return value | int.from_bytes(os.urandom(8), "big") >> 2


class ClockTimestamp(Func):
    """`clock_timestamp()`: unlike `now()` it moves within a transaction (N3, design 10)."""

    template = "clock_timestamp()"
    output_field = models.DateTimeField()


def key() -> models.UUIDField[Any, Any]:
    """Make the primary key of a table: a UUID of version 7."""
    return models.UUIDField(primary_key=True, default=uuid7, editable=False)


def identifier(**options: Any) -> models.CharField[Any, Any]:
    """Make a column for a name in the sense of N1: 1 to 200 characters."""
    return ExactCharField(max_length=IDENTIFIER_LENGTH, **options)


def digest(**options: Any) -> models.CharField[Any, Any]:
    """Make a column for a digest in the sense of C2: `sha256:` and 64 lower-case hexadecimal digits."""
    return ExactCharField(max_length=DIGEST_LENGTH, **options)


def recorded_at() -> models.DateTimeField[Any, Any]:
    """Make the moment of a fact: by the database's clock, unless the service gives the one that it decided by (N3)."""
    return models.DateTimeField(db_default=ClockTimestamp())
