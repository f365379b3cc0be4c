"""Python's clocks shifted by `CLOCK_SHIFT_S` seconds: a host whose clock is wrong. Put this folder on `PYTHONPATH`.

Only what tells the time of day is shifted. What measures how long something takes is right on a wrong host as well.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from datetime import datetime as _datetime
from typing import Any

SHIFT_S = float(os.environ.get("CLOCK_SHIFT_S", "0"))
_time, _time_ns = time.time, time.time_ns


class _AlsoReal(type(_datetime)):  # type: ignore[misc]
    """Moments that were made by C code are of the real class, and are moments all the same."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _datetime)


class ShiftedDatetime(_datetime, metaclass=_AlsoReal):
    """`datetime.datetime` on a host whose clock is wrong."""

    __slots__ = ()

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _datetime.now(tz) + dt.timedelta(seconds=SHIFT_S)

    @classmethod
    def utcnow(cls) -> Any:
        return _datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=SHIFT_S)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


if SHIFT_S:
    time.time = lambda: _time() + SHIFT_S
    time.time_ns = lambda: _time_ns() + int(SHIFT_S * 1e9)
    dt.datetime = ShiftedDatetime  # type: ignore[misc]
