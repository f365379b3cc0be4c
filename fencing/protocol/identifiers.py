"""Identifiers: the one form that every name of the protocol has (N1)."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

IDENTIFIER_MAX: Final = 200
IDENTIFIER_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}"
"""For schemas and forms; they must anchor it at both ends."""

_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)


def is_identifier(text: object) -> TypeGuard[str]:
    """Whether `text` is a string that may name a run, step, branch, fork, attempt, lane, grant, tool, path or key."""
    return isinstance(text, str) and _IDENTIFIER.fullmatch(text) is not None
