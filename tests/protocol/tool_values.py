"""Definitions of one tool: strategies for any of them, and every pair that differs in one member."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

from fencing.protocol.tools import ToolDefinition, read_tool

Pair = tuple[ToolDefinition, ToolDefinition]
UNDO: Final[dict[str, Any]] = {"tool": "undo", "args": {"id": {"from": "action", "pointer": "/args/id"}}}
_POINTERS: Final = [[], ["/a"], ["/b"], ["/a", "/b"], ["/b", "/a"]]

MEMBERS: Final[dict[str, list[Any]]] = {
    "effect": ["side_effecting", "read_only"],
    "idempotent": [True, False],
    "optimistic": [False, True],
    "endpoint": ["https://a.example/", "https://b.example/", None],
    "credential": ["one", "two", None],
    "advisory": _POINTERS,
    "sensitive": _POINTERS,
    "resources": _POINTERS,
    "compensator": [UNDO, {**UNDO, "tool": "other"}, {"tool": "undo", "args": {}}, None],
    "args_schema": [None, {}, {"const": 1}, {"const": True}],
    "hints": [{}, {"readOnlyHint": True}],
}
POLICY: Final[dict[str, list[Any]]] = {
    "required_paths": [["production", "replica"], ["replica", "production"], ["production"], ["replica", "third"]],
    "trusted_path": [0, 1],
    "deadline_s": [1, 2, 10],
    "grace_s": [1, 0, 2, 10],
    "max_grant_ttl_s": [1, 2, 10],
    "grant_approvals": [1, 2],
    "compensation_approvals": [1, 2],
    "lease_s": [1, 2, 10],
    "timeout_s": [1, 2, 10],
    "max_deliveries": [1, 2, 10],
    "nothing_done": [[], [425], [429], [425, 429], [429, 425]],
}
"""The values that each member takes; `fitting` makes them fit together.

The trusted path is a place among the required ones.
"""


def tools() -> st.SearchStrategy[ToolDefinition]:
    """Any definition of the tool `refund`."""
    outer, inner = ({name: st.sampled_from(values) for name, values in each.items()} for each in (MEMBERS, POLICY))
    return st.fixed_dictionaries({**outer, "policy": st.fixed_dictionaries(inner)}).map(fitting)


def changed() -> Iterator[Pair]:
    """Every two definitions that differ in one member, and in what has to follow from it."""
    plain = {name: values[0] for name, values in MEMBERS.items()}
    policy = {name: values[0] for name, values in POLICY.items()}
    for name, values in MEMBERS.items():
        for old, new in itertools.permutations(values, 2):
            yield fitting({**plain, name: old, "policy": policy}), fitting({**plain, name: new, "policy": policy})
    for name, values in POLICY.items():
        for old, new in itertools.permutations(values, 2):
            yield (
                fitting({**plain, "policy": {**policy, name: old}}),
                fitting({**plain, "policy": {**policy, name: new}}),
            )


def fitting(chosen: dict[str, Any]) -> ToolDefinition:
    """Make a definition whose members fit together out of ones that were chosen each for itself."""
    endpoint = chosen["endpoint"]
    policy = chosen["policy"]
    paths = policy["required_paths"]
    found = read_tool(
        {
            **chosen,
            "tool": "refund",
            "mode": "push" if endpoint else "pull",
            "credential": chosen["credential"] if endpoint else None,
            "optimistic": chosen["optimistic"] and chosen["idempotent"] and chosen["compensator"] is not None,
            "policy": {**policy, "trusted_path": paths[policy["trusted_path"] % len(paths)]},
        }
    )
    assert isinstance(found, ToolDefinition), found
    return found
