"""The processes below a running `up`, found where Linux lists them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")


def below(pid: int, word: str) -> list[int]:
    """The processes under `pid`, at any depth, whose command line holds a word."""
    children: dict[int, list[int]] = {}
    for process in PROC.glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(process.name))
    found, left = [], list(children.get(pid, []))
    while left:
        each = left.pop()
        left += children.get(each, [])
        if word in _command_of(each):
            found.append(each)
    return found


def kill(pids: list[int]) -> None:
    """Kill processes that a test's own `up` started, with a signal that none of them can catch."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _command_of(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
