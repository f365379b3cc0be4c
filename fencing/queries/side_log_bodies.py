"""What is kept of a refused body (S1), without what a tool calls sensitive (U5)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencing.models import SideLogRow, cold
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.pointers import parts_of
from fencing.protocol.tools import ToolDefinition

MASKED: Final = "•••"
LOST: Final = "Cold storage has it no more, or never took it."
CUT: Final = (
    "It is cut off or no JSON, so what a tool calls sensitive cannot be found in it to be masked. It is not shown."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a refused body; where it is not shown, `why` says why."""

    text: str = ""
    why: str = ""


def head_of(row_id: uuid.UUID) -> Head | None:
    """Read the beginning of the body of a row; None where it had none."""
    row = SideLogRow.objects.filter(pk=row_id).only("body_sha256", "body_ref").first()
    if row is None or row.body_sha256 is None:
        return None
    data = cold.get(row.body_ref)
    if data is None:
        return Head(why=LOST)
    tools = registry_at(current_registry())
    if not any(tool.sensitive for tool in tools.values()):
        return Head(text=data.decode("utf-8", "replace"))
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return Head(why=CUT)
    return Head(text=json.dumps(_masked(value, tools), ensure_ascii=False, indent=2))


def _masked(value: Any, tools: Mapping[str, ToolDefinition]) -> Any:
    """Give a value without what the tools of the actions inside it call sensitive."""
    if isinstance(value, list):
        return [_masked(each, tools) for each in value]
    if not isinstance(value, dict):
        return value
    inner = {name: _masked(each, tools) for name, each in value.items()}
    tool = tools.get(str(value.get("tool")))
    if tool is not None and "args" in inner:
        for pointer in tool.sensitive:
            inner["args"] = _without(inner["args"], parts_of(pointer))
    return inner


def _without(value: Any, path: tuple[str, ...]) -> Any:
    """Give a value whose member at `path` is masked. A body was refused: whatever is there may be of any shape."""
    if not path:
        return MASKED
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: _without(value[path[0]], path[1:])}
    if isinstance(value, list) and path[0].isdecimal() and int(path[0]) < len(value):
        return [_without(each, path[1:]) if str(at) == path[0] else each for at, each in enumerate(value)]
    # A scalar where an object should be: the secret may be it.
    return value if isinstance(value, dict | list) else MASKED
