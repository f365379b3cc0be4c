"""Masking what a tool calls sensitive (U5): it shows that a value is there, and whether two of them differ."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

from fencing.protocol.pointers import ABSENT, parts_of, resolve

MASKED: Final = "•••"
MASKED_OTHER: Final = "••• (another value)"


def mask(action: Any, pointers: Iterable[str], beside: Any = None) -> Any:
    """Give an action without what stands at these pointers into its `args`.

    `beside` is the action that it is compared with: where that one has another value in the same place, the mask says
    so, and nothing more. Neither action is changed.
    """
    masked = copy.deepcopy(action)
    for pointer in pointers:
        value = resolve(action["args"], pointer)
        if value is ABSENT:
            continue
        other = ABSENT if beside is None else resolve(beside["args"], pointer)
        _put(masked, ("args", *parts_of(pointer)), MASKED if other in (ABSENT, value) else MASKED_OTHER)
    return masked


def _put(value: Any, path: tuple[str, ...], mark: str) -> None:
    for name in path[:-1]:
        value = value[int(name)] if isinstance(value, list) else value[name]
    last = int(path[-1]) if isinstance(value, list) else path[-1]
    value[last] = mark
