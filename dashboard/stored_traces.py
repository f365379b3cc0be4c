"""The failing traces that the command line left in the data folder: which there are, and the text of one.

A name comes from an address. It is one plain file name or nothing, and what it opens is a regular file of that very
folder: no way up, no link that leads elsewhere, no pipe that never answers.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from django.conf import settings

MAX_BYTES: Final = 1_000_000
MAX_LISTED: Final = 50
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A failing trace by its file name, and when it was written."""

    name: str
    at: datetime


def folder() -> Path:
    """Give the folder into which `manage.py simulate` writes."""
    return Path(settings.FENCE_DATA) / "traces"


def stored() -> list[Stored]:
    """Give the newest failing traces; none where the folder is not there, or may not be read."""
    try:
        with os.scandir(folder()) as entries:
            found = [(each.stat(follow_symlinks=False).st_mtime, each.name) for each in entries if _is_trace(each)]
    except OSError:
        return []
    newest = sorted(found, reverse=True)[:MAX_LISTED]
    return [Stored(name=name, at=datetime.fromtimestamp(at, tz=UTC)) for at, name in newest]


def _is_trace(entry: os.DirEntry[str]) -> bool:
    return _NAME.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)


def text_of(name: str) -> str | None:
    """Give the text of a failing trace; None where the folder has no such file, or it is too large to be one."""
    if not _NAME.fullmatch(name):
        return None
    try:
        # Not blocking: a pipe of that name would hold the page for ever.
        descriptor = os.open(folder() / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return None
        return file.read(MAX_BYTES).decode("utf-8", "replace")
