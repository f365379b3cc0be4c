"""What arrives, before it is a fact: a repetition, a refusal, or news (N2, R4 to R6, F2, F6 to F8, G4).

Each function takes what is on record for one (run, step) and one input, and gives a verdict; who holds the lock writes
it down. The order of the questions is the order in which answers are told: an exact repetition of what was accepted is
first of all a duplicate, a standing commit answers before any epoch, and only what is new is judged by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from fencing.protocol import fence
from fencing.protocol.actions import Action, ToolLookup
from fencing.protocol.epochs import check_epoch
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import UNDECIDED, Committed, Phase, Reason, Step, Vote


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is on record for one epoch of a step. `content` is the accepted proposal's digest, None while it is idle."""

    step: Step
    content: str | None
    commit: Committed | None = None
    reason: Reason | None = None

    @property
    def has_standing_commit(self) -> bool:
        """Whether a commit of this epoch stands (R6)."""
        return self.commit is not None and self.commit.stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """What was accepted before, answered again with nothing new. `is_other`: by other content, for the side log."""

    epoch: int
    digest: str | None = None
    is_other: bool = False


def standing(known: Iterable[Known]) -> Known | None:
    """Find the one standing commit of a (run, step) over all its epochs (R6)."""
    return next((each for each in known if each.has_standing_commit), None)


# ---- proposals (F1, N2, R5, R6) ----


def judge_proposal(known: Sequence[Known], *, epoch: int, content: str, own: int) -> Repeated | Refusal | None:
    """Judge a proposal of this content for a step; None is news. `own` is the step's own number (R1)."""
    committed = standing(known)
    if committed is not None:
        return Repeated(epoch=committed.step.epoch, is_other=committed.content != content)
    same = next((each for each in known if each.step.epoch == epoch and each.content is not None), None)
    if same is not None and same.content == content:
        return Repeated(epoch=epoch)
    refusal = check_epoch(given=epoch, own=own)
    if refusal is None and same is not None:
        detail = "This step was proposed with other content: a changed decision is a new step."
        return Refusal(code=Code.STEP_CONFLICT, detail=detail)
    return refusal


def check_tool(tool: str | None, action: Action | None, tools: ToolLookup) -> Refusal | None:
    """Refuse a proposal that names an unregistered tool, or arguments that do not fit it (T1, T3)."""
    if tool is None:
        return None
    definition = tools(tool)
    if definition is None:
        pointer = "/action/tool" if action is not None else "/tool"
        detail = f"No tool {tool} is registered: an administrator adds it first."
        return Refusal(code=Code.UNKNOWN_TOOL, detail=detail, pointer=pointer)
    return None if action is None else definition.check_args(action.args, at="/action")


def first_phase(tool: str | None, tools: ToolLookup) -> tuple[Phase, Reason | None]:
    """Say where an accepted proposal begins: a tool that only reads skips the fence (T2)."""
    definition = None if tool is None else tools(tool)
    if definition is not None and definition.is_read_only:
        return Phase.EXEMPT, Reason.READ_ONLY
    return Phase.PROPOSED, None


# ---- votes (F2, F6 to F8, N2, R5) ----


class Late(StrEnum):
    """What a vote is for a step that is decided already (F7, F8)."""

    NO = "no"
    WITNESS_OR_DIVERGENCE = "witness_or_divergence"
    TOO_LATE = "too_late"
    NOTHING_TO_DECIDE = "nothing_to_decide"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A vote that is new, and is stored. `contradicts` is the path's first digest, where this is another one (F2)."""

    late: Late
    contradicts: str | None = None


def fault_of(action: Action, tools: ToolLookup) -> str | None:
    """Say why a voted action can never be committed, though it is heard and counts (F6)."""
    definition = tools(action.tool)
    if definition is None:
        return Reason.UNKNOWN_TOOL.value
    return None if definition.check_args(action.args) is None else Reason.INVALID_ARGS.value


def judge_vote(known: Sequence[Known], *, epoch: int, vote: Vote, own: int) -> Heard | Repeated | Refusal:
    """Judge a vote of one path for a step at `epoch`. `own` is the step's own number (R1)."""
    proposed = [each for each in known if each.content is not None]
    addressed = next((each for each in proposed if each.step.epoch == epoch), None)
    if not proposed:
        return _unknown_step(epoch)  # told before anything about its epoch (F6)
    repeated = None if addressed is None else _repeated_vote(addressed.step, vote)
    if repeated is not None:
        return repeated
    refusal = _check_place(proposed, epoch=epoch, own=own)
    if refusal is not None or addressed is None:
        return refusal or _unknown_step(epoch)
    first = next(iter(_said(addressed.step, vote.path)), None)
    contradicts = None if vote.digest in (None, first) else first
    return Heard(late=_lateness(addressed), contradicts=contradicts)


def with_vote(step: Step, vote: Vote) -> Step:
    """Give the step with one more vote. Votes only add up: a second one of a path never replaces its first (F2, I6)."""
    return replace(step, votes=(*step.votes, vote))


def tells_the_tool(before: Step, vote: Vote) -> bool:
    """Whether this vote is the first word about the step's tool, whose deadline then counts from the proposal (F1)."""
    return vote.tool is not None and fence.tool_of(before) is None


def equivocation(first: str) -> Refusal:
    """The answer to a path that voted another digest before: both are on record (F2)."""
    detail = "This path voted another digest before: both are on record, and the step cannot be committed."
    return Refusal(code=Code.EQUIVOCATION, detail=detail, extras={"digest": first})


def _said(step: Step, path: str) -> list[str]:
    return [vote.digest for vote in step.votes if vote.path == path and vote.digest is not None]


def _repeated_vote(step: Step, vote: Vote) -> Repeated | Refusal | None:
    """Answer what was heard before: a duplicate, or the same equivocation again (N2, F2)."""
    mine = [each for each in step.votes if each.path == vote.path]
    first = next(iter(_said(step, vote.path)), None)
    if vote.digest is None:
        return Repeated(epoch=step.epoch, digest=first) if mine else None
    if first is None:
        return None
    if first != vote.digest:
        return equivocation(first) if vote.digest in _said(step, vote.path) else None
    payloads = {each.payload for each in mine if each.digest == vote.digest and each.payload}
    if vote.payload is not None and not payloads:
        return None  # F5: the same decision, now with its action
    return Repeated(epoch=step.epoch, digest=first, is_other=vote.payload is not None and vote.payload not in payloads)


def _check_place(proposed: Sequence[Known], *, epoch: int, own: int) -> Refusal | None:
    """Refuse a vote whose number is not the step's own, or not that of its standing commit (R5)."""
    committed = standing(proposed)
    if committed is None:
        return check_epoch(given=epoch, own=own)
    if committed.step.epoch == epoch:
        return None
    return Refusal(
        code=Code.ALREADY_COMMITTED,
        detail=f"The step is committed in epoch {committed.step.epoch}.",
        pointer="/epoch",
        extras={"current_epoch": committed.step.epoch},
    )


def _lateness(known: Known) -> Late:
    if known.step.phase in UNDECIDED:
        return Late.NO
    if known.step.phase is Phase.EXEMPT:
        return Late.NOTHING_TO_DECIDE
    return Late.WITNESS_OR_DIVERGENCE if known.has_standing_commit else Late.TOO_LATE


def _unknown_step(epoch: int) -> Refusal:
    detail = f"The step is not proposed in epoch {epoch} of this run: repeat the vote when it is."
    return Refusal(code=Code.UNKNOWN_STEP, detail=detail, pointer="/step")


# ---- replays (R4) and grants (G4) ----


def may_be_replayed(phase: Phase, reason: Reason | None) -> bool:
    """Whether a step is replayed: it was rejected, or its effect definitely failed (R4, L7)."""
    return phase is Phase.REJECTED or (phase is Phase.COMMITTED and reason is Reason.EFFECT_FAILED)


def judge_replay(
    known: Sequence[Known], *, from_epoch: int, own: int, earlier: int | None
) -> Repeated | Refusal | None:
    """Judge a replay of a step; None is news. `earlier` is the number that a replay from this epoch opened before."""
    if all(each.content is None for each in known):
        detail = "The step was never proposed in this run."
        return Refusal(code=Code.UNKNOWN_STEP, detail=detail, pointer="/step")
    committed = standing(known)
    if committed is not None:
        return Repeated(epoch=committed.step.epoch)
    if earlier is not None:
        return Repeated(epoch=earlier)
    refusal = check_epoch(given=from_epoch, own=own)
    if refusal is not None:
        return Refusal(code=refusal.code, detail=refusal.detail, pointer="/from_epoch", extras=refusal.extras)
    last = next((each for each in known if each.step.epoch == from_epoch), None)
    if last is None or not may_be_replayed(last.step.phase, last.reason):
        detail = "Only a rejected step, or one whose effect failed, is replayed."
        phase = Phase.IDLE if last is None else last.step.phase
        return Refusal(code=Code.NOT_REJECTED, detail=detail, extras={"phase": phase.value})
    return None


def check_grant_place(known: Known | None, *, epoch: int, own: int) -> Refusal | None:
    """Judge whether there is still something to let through (G4). `known` is the own epoch of its step, if any."""
    refusal = check_epoch(given=epoch, own=own)
    if refusal is not None or known is None:
        return refusal
    if fence.divergence(known.step) is not None:
        detail = "The paths disagree visibly on this step, and no grant launders that: replay it, or let a person act."
        return Refusal(code=Code.DIVERGED, detail=detail, pointer="/step")
    if known.step.phase not in UNDECIDED:
        reason = "" if known.reason is None else f" ({known.reason.value})"
        detail = f"The step is {known.step.phase.value} already{reason}."
        return Refusal(code=Code.ALREADY_DECIDED, detail=detail, pointer="/step")
    return None
