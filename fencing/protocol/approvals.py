"""Admission of what was approved, as a rule: what refuses a call that would undo an effect (L3, L4, P5).

An approval is worth one delivery of exactly what was shown. Once what it was for is wanted, changed, decided otherwise
or failed to be undone, its token opens nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal

if TYPE_CHECKING:
    from fencing.protocol.actions import Action
    from fencing.protocol.tools import ToolDefinition

LAPSED = frozenset({State.PROPOSED, State.HELD, State.WAIVED, State.WITHDRAWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that asks to be let through with the token of an approval, and what it says about itself."""

    action: Action
    run: str | None = None
    step: str | None = None
    epoch: int | None = None


def judge(
    call: Call, *, run: str | None, state: State, is_current: bool, payload: str, definition: ToolDefinition | None
) -> Refusal | None:
    """Refuse a call, or None where its approval stands for exactly this payload.

    `run` is the compensation's, `state` where it is; `is_current`: the token is that of the round that is open, and
    `payload` the digest of what that round approved.
    """
    if call.step is not None or call.epoch is not None or call.run not in (None, run):
        return Refusal(code=Code.BAD_TOKEN, detail="The token is that of a compensation.", pointer="/token")
    if not is_current or state in LAPSED:
        detail = "The approval lapsed: what it would undo is wanted, changed, or failed to be undone."
        return Refusal(code=Code.REVOKED, detail=detail, extras={"revoked": "approval_lapsed"})
    if call.action.payload_digest != payload:
        detail = "The approval binds another payload: what was approved is what is sent, to the byte."
        return Refusal(code=Code.PAYLOAD_MISMATCH, detail=detail, extras={"payload_digest": payload})
    return None if definition is None else definition.check_args(call.action.args, at="/action")
