"""What a refused body was about, as far as that can be read without doubt (S1)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fencing.protocol.errors import Code
from fencing.protocol.json_faults import marked_value, pairs_of

Members = dict[str, Any]


def certain_members(raw: bytes, *, is_bulk: bool) -> list[Members]:
    """The members of each item of a body that is refused for its form, without those that are at fault themselves.

    A name that stands twice names nothing. What is no JSON at all has no items.
    """
    try:
        marked = marked_value(raw.decode().strip(" \t\n\r"))
    except ValueError:
        return []
    items = _certain(marked).get("items") if is_bulk else [marked]
    return [_certain(item) for item in items] if isinstance(items, list) else []


def _certain(marked: Any) -> Members:
    pairs = pairs_of(marked)
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1 and not isinstance(value, Code)}
