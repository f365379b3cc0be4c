"""The parameter of a statement that takes many items at once: JSON as text, for PostgreSQL to read as `jsonb`."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

# What the quick encoder knows beyond JSON is no value of an item.
_ONLY_JSON: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def jsonb_text(value: Any) -> str:
    """Write a value: the same value as `json.dumps` writes, whose spelling may be another. No number in it is NaN."""
    try:
        return orjson.dumps(value, option=_ONLY_JSON).decode()
    except TypeError:
        # A whole number beyond 64 bits, half of a surrogate pair, a name that is no text.
        return json.dumps(value)
