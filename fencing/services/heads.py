"""The heads of seals outside the database: a file that is only added to, one line of JSON for each seal (U2).

A tail of the audit that is cut off together with its seals is missed here. The folder is the operator's to place
(`FENCE_HEADS`): on another disk, or on one that is written once, or read by somebody else.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from django.conf import settings

from fencing.protocol.seal import Seal, seal_of

NAME: Final = "audit-heads.ndjson"
TAIL: Final = 4096


class BadHead(ValueError):
    """A line of the file is no head: somebody else wrote into it."""


def heads_file() -> Path:
    """Where this machine keeps the heads."""
    return Path(settings.FENCE_HEADS) / NAME


def append_heads(fetch: Callable[[Seal | None], Iterable[Seal]], path: Path | None = None) -> int:
    """Add heads, and bring them to the disk; give how many they were.

    `fetch` is asked for what is missing while nobody else writes here; it gets the newest head that is there. So the
    file has every seal in its order, whoever of several sealers comes first.

    Raises:
        OSError: the file cannot be written.
        BadHead: its last line is no head.
    """
    target = heads_file() if path is None else path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _finish_line(file.fileno())
        lines = [json.dumps(seal.as_json(), sort_keys=True).encode() + b"\n" for seal in fetch(last_head(target))]
        if lines:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
    return len(lines)


def last_head(path: Path | None = None) -> Seal | None:
    """Read the newest head of the file; None where there is none.

    Raises:
        BadHead: the last line is no head.
    """
    target = heads_file() if path is None else path
    try:
        with target.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = [line for line in file.read().split(b"\n") if line]
    except FileNotFoundError:
        return None
    return _read(lines[-1], target) if lines else None


def read_heads(path: Path) -> Iterator[Seal]:
    """Read every head of a file, in the order in which they stand there.

    Raises:
        BadHead: a line is no head.
        FileNotFoundError: there is no such file.
    """
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield _read(line, path)


def _read(line: bytes, path: Path) -> Seal:
    try:
        return seal_of(json.loads(line))
    except ValueError as fault:
        raise BadHead(f"{path.name} holds a line that is no head of a seal: {line[:80]!r}") from fault


def _finish_line(descriptor: int) -> None:
    """Take out a last line that a crash cut short: its seal is in the database, and is added anew."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, TAIL, max(0, size - TAIL))
    if data and not data.endswith(b"\n"):
        os.ftruncate(descriptor, size - len(data.rpartition(b"\n")[2]))
