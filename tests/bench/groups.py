"""What each part of the system costs: processor time and memory by group of processes, as `/proc` tells them.

Processor seconds for each step say the same on a busy machine as on an idle one, which no rate does.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
KB: Final = 1024
GROUPS: Final = ("web", "workers", "postgres", "valkey", "up", "handler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes: `resident` counts shared pages in every process that maps them, `proportional` each page once."""

    resident: int
    proportional: int


def members(up: int, handler: int = 0) -> dict[str, list[int]]:
    """The processes of a running `up` (a process id) by group, and of a bare handler where there is one."""
    found: dict[str, list[int]] = defaultdict(list)
    if handler:
        found["handler"] = [handler, *_below(handler)]
    for pid in (up, *_below(up)):
        found[_group_of(pid, up)].append(pid)
    return found


def cpu_seconds(up: int, handler: int = 0) -> dict[str, float]:
    """Processor seconds that each group has used since it began, of children that have ended too."""
    return {group: sum(_cpu_of(pid) for pid in pids) for group, pids in members(up, handler).items()}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two looks."""
    return {group: after[group] - before.get(group, 0.0) for group in GROUPS if group in after}


def memory(up: int) -> dict[str, Memory]:
    """The memory of each group now."""
    return {
        group: Memory(
            resident=sum(_rollup(pid).get("Rss", 0) for pid in pids),
            proportional=sum(_rollup(pid).get("Pss", 0) for pid in pids),
        )
        for group, pids in members(up).items()
    }


def _below(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (stat := _stat(int(entry.name))):
            children[int(stat[1])].append(int(entry.name))
    todo = [pid]
    while todo:
        found = children[todo.pop()]
        yield from found
        todo += found


def _group_of(pid: int, up: int) -> str:
    words = _command(pid)
    if pid == up:
        return "up"
    if "fencing.machine.web" in words:
        return "web"
    if "manage.py work" in words:
        return "workers"
    return "valkey" if "valkey" in words or "redis" in words else "postgres" if "postgres" in words else "up"


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` behind the name, which may hold anything; empty where the process is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_of(pid: int) -> float:
    """Of the process and of those of its children that have ended."""
    return sum(int(ticks) for ticks in _stat(pid)[11:15]) * TICK_S


def _rollup(pid: int) -> dict[str, int]:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()[1:]
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * KB for line in lines}
