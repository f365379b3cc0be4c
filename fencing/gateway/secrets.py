"""Credentials of push tools: read from files or the environment when a call begins, and kept nowhere.

A file's text, or a variable's, is the secret itself, sent as `Authorization: Bearer …`; or one line `Name: value` for
a tool that wants another header. It is never written to the database, a log, a page or an export.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from django.conf import settings

_HEADER: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,60}): (\S.*)")
_MAX_BYTES: Final = 16_384
# What this system sends itself, and a credential may not stand for.
_OURS: Final = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "idempotency-key", "fence-token"}
)


class NoCredential(Exception):
    """The credential that a tool names is not there, or cannot be sent."""


def header_of(name: str) -> tuple[str, str]:
    """Give the header that carries a credential, as name and value.

    Raises:
        NoCredential: there is none of that name, or its text is none.
    """
    text = _from_file(Path(settings.FENCE_CREDENTIALS) / name) or os.environ.get(variable_of(name), "")
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable():
        raise NoCredential(name)
    found = _HEADER.fullmatch(text)
    if found is None:
        return "Authorization", f"Bearer {text}"
    if found[1].lower() in _OURS:
        raise NoCredential(name)
    return found[1], found[2]


def variable_of(name: str) -> str:
    """Name the environment variable of a credential."""
    return "FENCE_CREDENTIAL_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def _from_file(path: Path) -> str:
    # An identifier has no slash (N1), so that the file lies in the folder; `..` begins with no letter.
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
