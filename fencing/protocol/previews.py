"""What a grant would let through if it were live: now, and on steps of the past, as they stood then (G8).

The grant need not exist. Each step is judged by the very functions by which the fence decides, with the grant as it
would be once everybody approved it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from fencing.protocol import fence
from fencing.protocol.fence import Phase, Rules, Step
from fencing.protocol.grants import Grant, why_not_covering
from fencing.protocol.refused_uses import DIVERGED, why_not_alone

if TYPE_CHECKING:
    from fencing.protocol.tools import ToolDefinition

AMOUNTS: Final = ("amount", "amount_cents", "amount_minor", "cents", "total", "sum", "value")
MAX_CURRENCY: Final = 10
_NUMBER: Final = re.compile(r"-?\d{1,30}(\.\d{1,10})?\Z")


class Fate(StrEnum):
    """What a grant would do for a step."""

    PASSES = "passes"
    WAITS = "waits"
    BARRED = "barred"
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a grant would do for a step: let an action through, from `at` on; wait for its path; or `why` it would not.

    A step that it is not about, or that needs no grant, is `not_asked`.
    """

    fate: Fate
    why: str = ""
    digest: str | None = None
    payload: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A sum in an action's arguments: the member that has it, and the currency where the action names one."""

    member: str
    value: Decimal
    currency: str | None = None


NOT_ASKED: Final = Verdict(fate=Fate.NOT_ASKED)


def as_live(grant: Grant, rules: Rules, now: datetime) -> Grant:
    """Give a grant as it would be once it is live: approved as often as the tool asks, its life ahead of it."""
    approvals = max(grant.approvals, rules.grant_approvals - 1)
    return replace(grant, approvals=approvals, uses=0, expires_at=now + timedelta(seconds=max(1, grant.ttl_s)))


def judge_now(step: Step, grant: Grant, *, reason: str | None, rules: Rules, now: datetime) -> Verdict:
    """Say what a grant would do for a step as it stands. `reason` says why the step is in its phase."""
    tool = fence.tool_of(step)
    if not _is_about(step, grant, rules) or fence.is_agreed(step, rules):
        return NOT_ASKED
    if step.phase not in fence.UNDECIDED:
        told = f" ({reason.replace('_', ' ')})" if reason else ""
        return NOT_ASKED if grant.epoch != step.epoch else _barred(f"it is {step.phase.value} already{told}")
    if grant.epoch != step.epoch:
        return _barred(f"it is in epoch {step.epoch}, and the grant would be for epoch {grant.epoch}")
    if fence.divergence(step) is not None:
        return _barred(DIVERGED)
    paths, live = fence.paths_for(step), as_live(grant, rules, now)
    if grant.path in paths:
        return _alone(step, live, rules, now)
    if paths:
        return _barred(f"{' and '.join(sorted(paths))} voted, and it would let {grant.path} act alone")
    # Nobody voted yet: what the path will vote is its own affair, but the tool's limits are known.
    if grant.digest is not None and step.pinned_digest not in (None, grant.digest):
        return _barred("it is pinned to another digest")
    if tool is None:
        return Verdict(fate=Fate.WAITS)
    digest = grant.digest or step.pinned_digest or ""
    why = why_not_covering(
        live, step=step.step, epoch=step.epoch, path=grant.path, digest=digest, tool=tool, rules=rules, now=now
    )
    return Verdict(fate=Fate.WAITS) if why is None else _barred(why)


def judge_then(step: Step, heard_at: Sequence[datetime], grant: Grant, *, rules: Rules) -> Verdict:
    """Say what a grant would have done for a decided step, had it been live: the votes count as of their moments.

    The path would have acted alone once the grace was over after its vote (F4), if nobody else had spoken by then.
    """
    if not _is_about(step, grant, rules):
        return NOT_ASKED
    own = [at for vote, at in zip(step.votes, heard_at, strict=True) if vote.path == grant.path and vote.payload]
    if not own or own[0] >= step.deadline_at:
        return NOT_ASKED
    look_at = own[0] + timedelta(seconds=rules.grace_s)
    votes = tuple(vote for vote, at in zip(step.votes, heard_at, strict=True) if at <= look_at)
    then = replace(step, votes=votes, phase=Phase.PROPOSED)
    if fence.divergence(then) is not None:
        return _barred(DIVERGED)
    if fence.is_agreed(then, rules):
        return NOT_ASKED
    live = as_live(replace(grant, epoch=step.epoch), rules, look_at)
    return replace(_alone(then, live, rules, look_at), at=look_at)


def amount_of(args: Any, definition: ToolDefinition | None) -> Amount | None:
    """Find the sum that an action is about, where its arguments tell one that is not sensitive (U5)."""
    hidden = () if definition is None else definition.sensitive
    if not isinstance(args, dict):
        return None
    for member in AMOUNTS:
        value = args.get(member)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_text = isinstance(value, str) and _NUMBER.match(value) is not None
        if (is_number or is_text) and f"/{member}" not in hidden:
            currency = args.get("currency")
            is_told = isinstance(currency, str) and len(currency) <= MAX_CURRENCY and currency.isalpha()
            return Amount(member=member, value=Decimal(str(value)), currency=currency if is_told else None)
    return None


def _is_about(step: Step, grant: Grant, rules: Rules) -> bool:
    """Whether a step lies in a grant's scope, as far as its step and tool tell."""
    tools = {vote.tool for vote in step.votes if vote.path == grant.path and vote.tool is not None}
    tool = next(iter(tools), None) or fence.tool_of(step)
    is_of_tool = grant.tool is None or tool is None or tool == grant.tool
    return grant.step in (None, step.step) and is_of_tool and not rules.is_read_only and step.phase is not Phase.EXEMPT


def _alone(step: Step, live: Grant, rules: Rules, now: datetime) -> Verdict:
    why = why_not_alone(step, live, rules=rules, now=now)
    if why is not None:
        return _barred(why)
    (digest,) = fence.digests_on_record(step)
    return Verdict(fate=Fate.PASSES, digest=digest, payload=fence.payload_for(step, digest, (live.path,)), at=now)


def _barred(why: str) -> Verdict:
    return Verdict(fate=Fate.BARRED, why=why)
