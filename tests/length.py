"""How long a test looks: the suite's small form, or the long one that `manage.py test --long` asks for."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

# Modules read it while they are imported, before any fixture; processes that a test starts inherit it.
VARIABLE: Final = "FENCE_LONG"


def is_long() -> bool:
    """Whether the long forms were asked for."""
    return os.environ.get(VARIABLE) == "1"


def long_or(small: T, *, long: T) -> T:
    """Choose between a figure of the suite and its long form."""
    return long if is_long() else small
