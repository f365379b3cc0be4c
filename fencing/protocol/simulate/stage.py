"""The stage of the simulator: its tools, its actions and its clock, small enough to be read at one glance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from fencing.protocol.actions import Action, read_action
from fencing.protocol.errors import Refusal
from fencing.protocol.tools import ToolDefinition, read_tool

START: Final = datetime(2026, 1, 1, 2, 14, tzinfo=UTC)
"""The moment at which every trace begins."""

_POLICY: Final = {"deadline_s": 120, "grace_s": 5, "lease_s": 10, "max_deliveries": 3, "max_grant_ttl_s": 900}
_DEFINITIONS: Final = (
    {"tool": "refund", "idempotent": True, "resources": ["/invoice"], "policy": _POLICY},
    {"tool": "hold_for_review", "idempotent": True, "resources": ["/invoice"], "policy": {**_POLICY, "grace_s": 0}},
    {"tool": "wire_transfer", "policy": {**_POLICY, "grant_approvals": 2, "max_grant_ttl_s": 300}},
    {
        "tool": "send_mail",
        "idempotent": True,
        "advisory": ["/body"],
        "args_schema": {"type": "object", "required": ["to"]},
        "policy": _POLICY,
    },
    {"tool": "lookup_invoice", "effect": "read_only"},
    {
        "tool": "create_ticket",
        "idempotent": True,
        "optimistic": True,
        "compensator": {"tool": "close_ticket", "args": {"title": {"from": "action", "pointer": "/args/title"}}},
        "policy": {**_POLICY, "grace_s": 0},
    },
    {"tool": "close_ticket", "idempotent": True, "policy": _POLICY},
    {
        "tool": "create_order",
        "idempotent": True,
        "optimistic": True,
        "compensator": {"tool": "cancel_order", "args": {"n": {"from": "action", "pointer": "/args/n"}}},
        "policy": {**_POLICY, "compensation_approvals": 2},
    },
    {"tool": "cancel_order", "policy": _POLICY},
)


def _read(definition: object) -> ToolDefinition:
    tool = read_tool(definition)  # type: ignore[arg-type]  # plain JSON, checked as such
    if isinstance(tool, Refusal):
        raise ValueError(tool.detail)  # noqa: TRY004 - the definition is wrong, not its type
    return tool


TOOLS: Final[Mapping[str, ToolDefinition]] = MappingProxyType(
    {tool.tool: tool for tool in (_read(definition) for definition in _DEFINITIONS)}
)


def tools(name: str) -> ToolDefinition | None:
    """Look up a tool of the stage."""
    return TOOLS.get(name)


def action(tool: str, /, **args: object) -> Action:
    """Read an action. Raises `ValueError` for what is none."""
    read = read_action({"tool": tool, "args": args}, tools)  # type: ignore[dict-item]  # plain JSON, checked as such
    if isinstance(read, Refusal):
        raise ValueError(read.detail)  # noqa: TRY004 - as above
    return read


REFUND: Final = action("refund", invoice=9, cents=4200)
MORE: Final = action("refund", invoice=9, cents=4300)
HOLD: Final = action("hold_for_review", invoice=9)
WIRE: Final = action("wire_transfer", iban="XX00", cents=100)
MAIL: Final = action("send_mail", to="ann@example.org", body="Your refund is on its way.")
OTHER_PROSE: Final = action("send_mail", to="ann@example.org", body="We have refunded you.")
NO_FIT: Final = action("send_mail", body="To whom?")
UNREGISTERED: Final = action("drop_table", name="invoices")
LOOKUP: Final = action("lookup_invoice", invoice=9)
TICKET: Final = action("create_ticket", title="phantom")
OTHER_TICKET: Final = action("create_ticket", title="another")
ORDER: Final = action("create_order", n=1)
