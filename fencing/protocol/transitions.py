"""Tables of transitions: asked whether a move stands in one, and drawn as diagrams for the documents.

A table is `from → to → why`: why is a sentence, or a set of reasons in which None is a move that needs none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeAlias, TypeVar

S = TypeVar("S", bound=StrEnum)
Why: TypeAlias = "str | Collection[StrEnum | None]"
Table: TypeAlias = "Mapping[S, Mapping[S, Why]]"


def allows(table: Table[S], before: S, after: S, reason: StrEnum | None = None) -> bool:
    """Tell whether a table has the move. Where its reasons are a set, `reason` must be one of them."""
    why = table.get(before, {}).get(after)
    if why is None:
        return False
    return isinstance(why, str) or reason in why


def diagram(table: Table[S], *, start: S) -> str:
    """Draw a table as a Mermaid state diagram: the first state, every move with its reasons, and what is final."""
    lines = ["stateDiagram-v2", f"    [*] --> {start.value}"]
    lines += [
        f"    {before.value} --> {after.value}{_label(why)}"
        for before, moves in table.items()
        for after, why in moves.items()
    ]
    lines += [f"    {state.value} --> [*]" for state in type(start) if not table.get(state)]
    return "\n".join(lines) + "\n"


def _label(why: Why) -> str:
    if isinstance(why, str):
        return f" : {why}"
    # A set has no order of its own: the diagram is the same each time it is drawn.
    words = sorted(reason.value.replace("_", " ") for reason in why if reason is not None)
    return f" : {', '.join(words)}" if words else ""
