"""Names of people: plain ones, so that nobody's name can be mistaken for another's in a list or in the audit.

Each is an identifier in the sense of N1 as well: the names of personal keys begin with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 64
PATTERN: Final = r"^[a-z0-9][a-z0-9._@-]{0,63}\Z"
_PLAIN: Final = re.compile(PATTERN)
# What looks alike in common typefaces: each group is read as its first member. Punctuation is read as nothing.
_ALIKE: Final = (("0", "o"), ("1", "l"), ("i", "l"), ("rn", "m"), ("vv", "w"), ("cl", "d"), ("5", "s"), ("2", "z"))
_SILENT: Final = re.compile(r"[._@-]")


def plain(typed: str) -> str:
    """Read a name as a person types it: compatibility forms, capitals and blanks around it do not matter."""
    return unicodedata.normalize("NFKC", typed).strip().casefold()


def why_unfit(name: str, others: Iterable[str] = ()) -> str:
    """Say why a name cannot be given to a new person; empty where it can. `others` are the names that exist."""
    if not _PLAIN.match(name):
        return "A name has 1 to 64 of the small letters a to z, digits and . _ @ -, and begins with a letter or digit."
    known = skeleton(name)
    for other in others:
        if other == name:
            return f"There is a person named {name}; names are never used again."
        if skeleton(other) == known:
            return f"{name} looks like {other}, who exists: choose a name that nobody takes for theirs."
    return ""


def skeleton(name: str) -> str:
    """Reduce a name to what the eye reads: equal for names that look alike."""
    text = _SILENT.sub("", plain(name)) or name
    for first, second in _ALIKE:
        text = text.replace(first, second)
    return text
