"""Admission, as a rule: the one function that refuses what has no standing commit for exactly this payload (L3, L4).

`judge` asks its questions in the order in which the answers are told. What it lets through still has to be in turn
(`intents.admit`); what it refuses never reaches a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fencing.protocol import fence
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Committed, Reason, Rules, Step
from fencing.protocol.freezes import check_frozen
from fencing.protocol.intake import Known

if TYPE_CHECKING:
    from fencing.protocol.actions import Action
    from fencing.protocol.freezes import Freeze
    from fencing.protocol.tokens import Claims
    from fencing.protocol.tools import ToolDefinition

ESCAPES = frozenset(
    {
        Code.NO_TOKEN,
        Code.NOT_COMMITTED,
        Code.BAD_TOKEN,
        Code.UNKNOWN_COMMIT,
        Code.REVOKED,
        Code.GRANT_EXPIRED,
        Code.PAYLOAD_MISMATCH,
        Code.UNKNOWN_TOOL,
        Code.INVALID_ARGS,
        Code.WRONG_EPOCH,
        Code.FROZEN,
    }
)
"""Refusals that are attempts at an effect without authority (L4). What only has to wait is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that asks to be let through, and what it says about itself."""

    action: Action
    token: str | None = None
    run: str | None = None
    step: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The commit that a call's token names: its place, its stored token, and the payload that it binds."""

    run: str
    step: str
    epoch: int
    token: str
    payload: str
    closed_reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exempt:
    """Let through without a token: the tool only reads (T2)."""


def exemption(action: Action, definition: ToolDefinition | None) -> Exempt | Refusal | None:
    """Answer a call that needs no commit; None is a call that does (T1, T2)."""
    if definition is None:
        detail = f"No tool {action.tool} is registered: nothing goes there."
        return Refusal(code=Code.UNKNOWN_TOOL, detail=detail)
    if not definition.is_read_only:
        return None
    return definition.check_args(action.args, at="/action") or Exempt()


def judge(
    call: Call,
    *,
    named: Sequence[Known],
    bound: Bound | None,
    verify: Callable[[str], Claims | Refusal],
    take_back: Callable[[], Reason | None],
    definition: ToolDefinition | None,
    freezes: Iterable[Freeze] = (),
) -> Refusal | None:
    """Refuse a call, or None where its commit stands for exactly this payload (L3, L4).

    `named` are all epochs of the step that the call names, `bound` is what its token points at, not believed yet.
    `verify` checks a token that is not the stored one; `take_back` is asked once the commit is known, and takes it back
    if its authority ended (F8, G5, R3). `freezes` are those that stand and may be about it (L10): told last, since
    whoever lifts one makes none of the rest good.
    """
    refusal = check_named(call, named) or check_token(call.token, bound, verify)
    if refusal is not None:
        return refusal
    if bound is None:
        return Refusal(code=Code.UNKNOWN_COMMIT, detail="The token's commit is not on record.", pointer="/token")
    refusal = check_place(call, bound)
    if refusal is not None:
        return refusal
    # A token answers for its own generation, also when a failed effect closed its commit (L7).
    has_failed = bound.closed_reason is Reason.EFFECT_FAILED
    reason = take_back() or (None if has_failed else bound.closed_reason)
    if reason is not None:
        return revoked(reason)
    if call.action.payload_digest != bound.payload:
        detail = "The commit binds another payload: what was agreed is what is sent, to the byte."
        return Refusal(code=Code.PAYLOAD_MISMATCH, detail=detail, extras={"payload_digest": bound.payload})
    unfit = None if definition is None else definition.check_args(call.action.args, at="/action")
    return unfit or check_frozen(freezes, run=bound.run, tool=call.action.tool)


def check_named(call: Call, named: Sequence[Known]) -> Refusal | None:
    """A call while its step has no commit is told so, before anything about its token: it must not hide in retries."""
    if call.run is None or call.step is None:
        return None
    at_epoch = [known for known in named if call.epoch in (None, known.step.epoch)]
    has_any = any(known.commit is not None for known in named)
    if any(known.has_standing_commit for known in at_epoch) or (has_any and call.token):
        return None
    phase = at_epoch[-1].step.phase.value if at_epoch else "not proposed"
    return Refusal(
        code=Code.NOT_COMMITTED,
        detail=f"The step is {phase}: without a commit nothing leaves.",
        extras={"phase": phase},
    )


def check_token(token: str | None, bound: Bound | None, verify: Callable[[str], Claims | Refusal]) -> Refusal | None:
    """Compare a token with the stored bytes first: that is the proof that this system minted it (L3)."""
    if not token:
        return Refusal(code=Code.NO_TOKEN, detail="A call needs the commit token of its step.", pointer="/token")
    if bound is not None and bound.token == token:
        return None
    verified = verify(token)
    if isinstance(verified, Refusal):
        return verified
    if bound is not None:
        detail = "The token is not the one that was minted for its commit."
        return Refusal(code=Code.BAD_TOKEN, detail=detail, pointer="/token")
    detail = "The token is genuine, but its commit is not on record."
    return Refusal(code=Code.UNKNOWN_COMMIT, detail=detail, pointer="/token")


def check_place(call: Call, bound: Bound) -> Refusal | None:
    """What a call says about itself must be what its token says."""
    if call.run not in (None, bound.run) or call.step not in (None, bound.step):
        detail = f"The token is that of {bound.run}/{bound.step}."
        return Refusal(code=Code.BAD_TOKEN, detail=detail, pointer="/token")
    if call.epoch not in (None, bound.epoch):
        detail = f"The token is that of epoch {bound.epoch}."
        return Refusal(code=Code.WRONG_EPOCH, detail=detail, pointer="/epoch", extras={"current_epoch": bound.epoch})
    return None


def revoked(reason: Reason) -> Refusal:
    """The answer to a token whose commit was taken back (K3, L4)."""
    if reason is Reason.GRANT_EXPIRED:
        detail = "The grant behind this commit ended before its effect left."
        return Refusal(code=Code.GRANT_EXPIRED, detail=detail)
    detail = f"The commit was taken back: {reason.value}."
    return Refusal(code=Code.REVOKED, detail=detail, extras={"revoked": reason.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A step whose claim on an effect is not lost, with its commit, if it has one."""

    step: Step
    rules: Rules
    commit: Committed | None


def has_authority(claimants: Iterable[Claimant], *, run_epoch: int, now: datetime) -> bool:
    """Tell whether any claim may still repeat what is unknown (L5): a commit that stands, and nothing against it."""
    return any(
        each.commit is not None
        and each.commit.stands
        and fence.lost_authority(each.commit, each.step, each.rules, run_epoch=run_epoch, now=now) is None
        for each in claimants
    )
