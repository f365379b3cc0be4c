"""Freezes as rules (L10): what one stops, and who may lift it.

A freeze beats every commit and every grant of its scope until another person lifts it: nothing of it is admitted. What
was admitted before is out, and is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A freeze that stands. Without a tool and a run it is of everything; with both, of that tool in that run."""

    id: str
    tool: str | None
    run: str | None
    at: datetime

    @property
    def scope(self) -> str:
        """Say what is frozen."""
        return scope_in_words(self.tool, self.run)


def scope_in_words(tool: str | None, run: str | None) -> str:
    """Say what a freeze of this tool and run stops."""
    if tool is None and run is None:
        return "everything"
    if tool is None:
        return f"run {run}"
    return f"tool {tool}" if run is None else f"tool {tool} in run {run}"


def covers(freeze: Freeze, *, run: str | None, tool: str | None) -> bool:
    """Tell whether a freeze is about a call or a grant of this tool in this run.

    A call that names no run lies in none. A grant whose tool nobody told yet is of no tool's scope: it ends once a
    vote tells that it is.
    """
    return freeze.tool in (None, tool) and freeze.run in (None, run)


def check_frozen(freezes: Iterable[Freeze], *, run: str | None, tool: str | None) -> Refusal | None:
    """Refuse what lies in the scope of a freeze that stands (L10)."""
    found = min((each for each in freezes if covers(each, run=run, tool=tool)), key=lambda each: each.at, default=None)
    if found is None:
        return None
    detail = f"On-call froze {found.scope} at {rfc3339(found.at)}: nothing of it leaves until another person lifts it."
    return Refusal(code=Code.FROZEN, detail=detail, extras={"freeze": found.id})


def check_lift(*, by_setter: bool, lifted: Mapping[str, Any] | None) -> Refusal | None:
    """Refuse to lift one's own freeze, or one that somebody else lifted (L10). `lifted` tells who and when."""
    if by_setter:
        return Refusal(code=Code.OWN_FREEZE, detail="Another person lifts a freeze, never the one who set it.")
    if lifted is not None:
        extras = {"decided_by": lifted["by"], "decided_at": lifted["at"]}
        return Refusal(code=Code.ALREADY_DECIDED, detail=f"{lifted['by']} lifted it already.", extras=extras)
    return None
