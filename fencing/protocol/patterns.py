"""Regular expressions of schemas, matched in linear time whatever the arguments are (T3).

Python's own engine backtracks: thirty characters that a model wrote can keep it busy for years, under the lock of a
step. RE2 does not. What it cannot do, backreferences and looking around, is refused when a tool is registered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Protocol

import re2

MAX_PATTERN: Final = 1_000
MAX_PROGRAM: Final = 2_000
"""A pattern costs at most its program times the length of the text; counted repetitions make programs long."""

_MAX_MEMORY: Final = 1 << 20
_KEPT: Final = 4_096
_UNICODE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class Pattern(Protocol):
    """A compiled pattern."""

    programsize: int

    def search(self, text: str) -> object:
        """Give something true where the pattern is found anywhere in a text."""


def fault_of_pattern(text: str) -> str | None:
    """Say why a pattern cannot be registered; None where it can."""
    if len(text) > MAX_PATTERN:
        return f"The pattern has {len(text):,} characters; at most {MAX_PATTERN:,} are taken."
    try:
        program = compiled_pattern(text).programsize
    except re2.error as error:
        told = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        return f"The pattern is none that RE2 matches ({told}). Looking around and backreferences are not taken."
    if program > MAX_PROGRAM:
        return "The pattern repeats too much: bound the length of a text by `maxLength`, not by its pattern."
    return None


@lru_cache(maxsize=_KEPT)
def compiled_pattern(text: str) -> Pattern:
    """Compile a pattern, once. Raises `re2.error` for one that cannot be."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    pattern: Pattern = re2.compile(_UNICODE.sub(_as_re2, text), options)
    return pattern


def _as_re2(found: re.Match[str]) -> str:
    r"""Write `\u00e9`, as JSON Schema's dialect has it, in RE2's way; every other escape stays."""
    return f"\\x{{{found[1]}}}" if found[1] else found[0]
