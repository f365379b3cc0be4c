"""Compensations: approved acts that undo effects which should not have stayed (protocol, section 11).

Here stand the states and what may follow each; building and deciding stand with the rules that need them.
"""

from __future__ import annotations

import json
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from fencing.protocol.actions import Action, read_action
from fencing.protocol.errors import Refusal
from fencing.protocol.tools import render_compensation

if TYPE_CHECKING:
    from fencing.protocol.actions import ToolLookup
    from fencing.protocol.strict_json import Json
    from fencing.protocol.tools import ToolDefinition


class State(StrEnum):
    """Where a compensation is. `done`, `waived` and `withdrawn` are final."""

    PROPOSED = "proposed"
    HELD = "held"
    APPROVED = "approved"
    IN_FLIGHT = "in_flight"
    DONE = "done"
    IN_DOUBT = "in_doubt"
    WAIVED = "waived"
    WITHDRAWN = "withdrawn"


class Cause(StrEnum):
    """Why one is there (P1)."""

    LANDED_ESCAPE = "landed_escape"
    DOUBLED = "doubled"
    BRANCH_LOST = "branch_lost"
    REQUESTED = "requested"


OPEN = frozenset({State.PROPOSED, State.HELD, State.APPROVED, State.IN_FLIGHT, State.IN_DOUBT})
WITHDRAWABLE = frozenset({State.PROPOSED, State.HELD, State.APPROVED})

TRANSITIONS = MappingProxyType(
    {
        State.PROPOSED: MappingProxyType(
            {
                State.HELD: "another claim on the key is open",
                State.APPROVED: "as many people as the tool asks for",
                State.DONE: "a person recorded what was done by hand",
                State.WAIVED: "the effect stands",
                State.WITHDRAWN: "nothing has to be undone any more",
                State.IN_DOUBT: "a late report says that it happened after all",
            }
        ),
        State.HELD: MappingProxyType(
            {
                State.PROPOSED: "the other claim lost",
                State.WAIVED: "the effect stands",
                State.WITHDRAWN: "the other claim won",
                State.IN_DOUBT: "a late report says that it happened after all",
            }
        ),
        State.APPROVED: MappingProxyType(
            {
                State.IN_FLIGHT: "admitted",
                State.PROPOSED: "the approval lapsed",
                State.HELD: "another claim on the key is open",
                State.WITHDRAWN: "nothing has to be undone any more",
                State.IN_DOUBT: "a late report says that it happened after all",
            }
        ),
        State.IN_FLIGHT: MappingProxyType(
            {
                State.DONE: "succeeded",
                State.APPROVED: "not sent, or busy",
                State.PROPOSED: "failed",
                State.HELD: "failed or not sent, and another claim on the key is open",
                State.WITHDRAWN: "failed or not sent, and nothing has to be undone any more",
                State.IN_DOUBT: "unknown",
            }
        ),
        State.IN_DOUBT: MappingProxyType(
            {
                State.DONE: "a person or a late report says that it happened",
                State.PROPOSED: "a person says that it did not happen",
                State.HELD: "it did not happen, and another claim on the key is open",
                State.WITHDRAWN: "it did not happen, and nothing has to be undone any more",
            }
        ),
        State.DONE: MappingProxyType({}),
        State.WAIVED: MappingProxyType({}),
        State.WITHDRAWN: MappingProxyType({}),
    }
)


def undoing(definition: ToolDefinition | None, action: Json, response: Json, tools: ToolLookup) -> Action | None:
    """Build the exact action that would undo an effect (P2); None where a person must do it by hand (P6).

    By hand is what has no compensator, and what its template cannot be filled for: its action is not known, or holds
    not what the template points at, or what comes of it does not fit the schema of the tool that would be called.
    """
    if definition is None or definition.compensator is None or not isinstance(action, dict):
        return None
    rendered = render_compensation(definition, action, response)
    built = rendered if isinstance(rendered, Refusal) else read_action(rendered, tools)
    if isinstance(built, Refusal):
        return None
    called = tools(built.tool)
    return None if called is not None and called.check_args(built.args) is not None else built


def undoing_of_bytes(definition: ToolDefinition | None, canonical: bytes, tools: ToolLookup) -> Action | None:
    """Build what would undo an effect of which only the stored action is known, as `undoing` does."""
    return undoing(definition, json.loads(canonical), None, tools)


def lapses(before: State, after: State, *, is_changed: bool) -> bool:
    """Tell whether approvals that were given are worth nothing any more after this move (P2, P4, P5).

    One approval is one delivery: what comes back from there has used it up. `is_changed`: something else would be sent.
    What may have happened already must not be sent under an approval that was given before that was known.
    """
    if after is State.IN_DOUBT:
        return before in (State.PROPOSED, State.HELD, State.APPROVED)
    if after not in (State.PROPOSED, State.HELD, State.WITHDRAWN):
        return False
    used_up = before in (State.APPROVED, State.IN_FLIGHT, State.IN_DOUBT)
    return used_up or (before is State.PROPOSED and (after is State.HELD or is_changed))
