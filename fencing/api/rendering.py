"""How answers are written: JSON in UTF-8, moments in UTC with microseconds and `Z` (N3)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import orjson
import re2

from fencing.protocol.objects import rfc3339


def _written(value: object) -> object:
    match value:
        case datetime():
            return rfc3339(value)
        case uuid.UUID():
            return str(value)
        case Mapping():
            return dict(value)
        case frozenset() | set():
            return sorted(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_encoder: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_written, check_circular=False
)


# Ours are the forms of all that is no plain JSON.
_ONLY_JSON: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
# A number with an exponent, the one thing that the two encoders spell otherwise; in a text the same signs do no harm.
_EXPONENT: Final = re2.compile(rb"(?:^|[:,\[])-?[0-9]+(?:\.[0-9]+)?e-?[0-9]+(?:$|[,}\]])")


def json_bytes(value: object) -> bytes:
    """Write a value as JSON. A lone surrogate, which only a refused body can bring in here, becomes a question mark.

    Written by the quick encoder, in the bytes of the standard library's; by that one where they may differ. No number
    is NaN: bodies and the database have none.
    """
    try:
        written = orjson.dumps(value, default=_written, option=_ONLY_JSON)
    except TypeError:
        written = b""
    if written and not _EXPONENT.search(written):
        return written
    return _encoder.encode(value).encode("utf-8", "replace")
