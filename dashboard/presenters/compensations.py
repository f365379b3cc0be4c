"""Compensations in words: what would happen, why it is due, under which authority the effect left."""

from __future__ import annotations

from typing import Any, Final

from fencing.protocol.compensations import State
from fencing.protocol.masking import mask
from fencing.queries.undoings import Line, Read

CAUSES: Final = {
    "landed_escape": "it happened without authority",
    "doubled": "it happened a second time",
    "branch_lost": "its branch lost, and nobody else wants it",
    "requested": "a reviewer asked for it",
}
STATES: Final = {
    State.PROPOSED: "It waits for a person's decision: nothing is sent before that.",
    State.HELD: "It is held: a branch that is not decided yet may still want the effect.",
    State.APPROVED: "It is approved, and leaves when its turn has come.",
    State.IN_FLIGHT: "It is on its way to the tool.",
    State.DONE: "It is undone.",
    State.IN_DOUBT: "Nobody knows whether it was undone: a person must find out and say.",
    State.WAIVED: "A person let the effect stand.",
    State.WITHDRAWN: "Nothing has to be undone any more.",
}
HUES: Final = {
    State.PROPOSED: "waiting",
    State.HELD: "waiting",
    State.APPROVED: "waiting",
    State.IN_FLIGHT: "waiting",
    State.DONE: "good",
    State.IN_DOUBT: "waiting",
    State.WAIVED: "neutral",
    State.WITHDRAWN: "neutral",
}


def cause_of(cause: str) -> str:
    """Say why a compensation is there."""
    return CAUSES.get(cause, cause.replace("_", " "))


def sentence_of(read: Read) -> tuple[str, str]:
    """Say where one is, with the hue that goes with it."""
    state = State(read.row.state)
    return STATES[state], HUES[state]


def list_sentence(waiting: int, open_: int) -> tuple[str, str]:
    """Say what waits."""
    if waiting:
        noun = "effect waits" if waiting == 1 else "effects wait"
        return f"{waiting} {noun} for a person to decide whether to undo it.", "waiting"
    if open_:
        return "Nothing waits for a person; what is approved or held goes its way.", "neutral"
    return "Nothing has to be undone.", "good"


def facts_of(line: Line | Read) -> dict[str, str]:
    """What a decision rests on, as words: shown with a form, and laid beside what is new after a conflict."""
    row = line.row
    return {
        "state": row.state.replace("_", " "),
        "what would be sent": row.payload_id or "nothing: it is done by hand",
        "approval round": str(row.round),
    }


def masked(action: Any, pointers: tuple[str, ...]) -> Any:
    """Give an action without what its tool calls sensitive (U5)."""
    return None if action is None else mask(action, pointers)


def authority_of(read: Read) -> list[tuple[Any, str]]:
    """Say of each delivery of the effect under which authority it left."""
    told = []
    for each in read.left:
        grant = each.commit.grant
        if grant is None:
            words = "the agreement of all required paths"
        else:
            words = f"the grant {grant.name}, issued by {grant.issuer.get_username()}"
        told.append((each, words))
    return told
