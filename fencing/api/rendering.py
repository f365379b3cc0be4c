"""How answers are written: JSON in UTF-8, moments in UTC with microseconds and `Z` (N3)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Final

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


def json_bytes(value: object) -> bytes:
    """Write a value as JSON. A lone surrogate, which only a refused body can bring in here, becomes a question mark."""
    return _encoder.encode(value).encode("utf-8", "replace")
