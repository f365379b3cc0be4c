"""What a person reads first about a tool, about a change of one, and about what they are about to change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fencing.protocol.explain.wording import (
    Part,
    Sentence,
    Tone,
    clock,
    code,
    listed,
    name,
    parts,
    spelt,
    strong,
    until,
)
from fencing.protocol.tool_changes import Pending, State, state_of

if TYPE_CHECKING:
    from fencing.protocol.tools import ToolDefinition

NOBODY = "the command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Who ended a change that waited, and when; `by` is empty where the clock did."""

    by: str
    at: datetime


def explain_tool(tool: ToolDefinition) -> Sentence:
    """Say what the fence asks of a tool, and how its calls leave."""
    if tool.is_read_only:
        rest = parts(code(tool.tool), " is admitted without a token and without a vote, and its calls are counted.")
        return Sentence(tone=Tone.WAITING, head=parts(strong("Read-only"), ", it skips the fence"), rest=rest)
    paths = listed([spelt(path) for path in tool.policy.required_paths])
    asked = f"{paths} agree" if len(tool.policy.required_paths) > 1 else f"{paths} asks for it"
    sent = "a gateway outside sends it" if tool.endpoint is None else "a worker of this system sends it"
    tries = f", at most {tool.policy.max_deliveries} times with one key" if tool.idempotent else ", once"
    early = " It may leave from an undecided branch." if tool.optimistic else ""
    rest = parts(code(tool.tool), f" leaves when {asked}, or under a grant; {sent}{tries}.{early}")
    return Sentence(tone=Tone.GOOD, head=parts(strong("Fenced")), rest=rest)


def explain_review(*, tool: str, version: int, weakenings: int, differences: int) -> Sentence:
    """Say what a change that is looked at would do. `version` is the current one, 0 for a tool that is new."""
    if not version:
        rest = parts(code(tool), " is not registered yet. A first version is no change: it is current at once.")
        return Sentence(tone=Tone.NEUTRAL, head=parts(strong("A new tool")), rest=rest)
    if not differences:
        rest = parts("this is what version ", str(version), " of ", code(tool), " says already.")
        return Sentence(tone=Tone.NEUTRAL, head=parts(strong("Nothing changes")), rest=rest)
    if not weakenings:
        rest = parts("nothing in it weakens the fence, so it is current at once, as version ", f"{version + 1}.")
        return Sentence(tone=Tone.GOOD, head=parts(strong("Takes effect")), rest=rest)
    rest = parts(
        f"in {_count(weakenings, 'way')}. It waits until a second administrator has read and approved it; ",
        f"until then version {version} stays current.",
    )
    return Sentence(tone=Tone.WAITING, head=parts(strong("Weakens the fence")), rest=rest)


def explain_change(
    change: Pending, *, weakenings: int, proposer: str, now: datetime, decided: Decided | None = None
) -> Sentence:
    """Say where a change of a tool is, and what that means. `proposer` is empty where the command line asked."""
    state = state_of(change, now)
    who, tool = name(proposer or NOBODY), code(change.tool)
    match state:
        case State.PENDING if change.is_stale:
            head = parts(strong("Out of date"))
            rest = parts(
                who, f" compared it with version {change.base} of ", tool,
                f", and version {change.current} is current now. It cannot be approved any more; propose it again.",
            )  # fmt: skip
            return Sentence(tone=Tone.REFUSED, head=head, rest=rest)
        case State.PENDING:
            missing = "a second administrator" if proposer else _count(change.missing, "administrator")
            rest = parts(
                who, " wants ", tool, f" to fence less in {_count(weakenings, 'way')}. Version {change.base} stays "
                f"current meanwhile. If nobody decides, it is over at {until(change.expires_at, now)}.",
            )  # fmt: skip
            return Sentence(tone=Tone.WAITING, head=parts(strong(f"Waits for {missing}")), rest=rest)
        case State.APPROVED:
            rest = parts(who, " proposed it; ", tool, f" fences less in {_count(weakenings, 'way')} since then.")
            return Sentence(tone=Tone.GOOD, head=_by("Approved", decided, now), rest=rest)
        case State.REFUSED | State.WITHDRAWN:
            rest = parts(tool, f" stays as it was. {proposer or NOBODY} had proposed it.")
            return Sentence(tone=Tone.NEUTRAL, head=_by(state.value.capitalize(), decided, now), rest=rest)
        case State.EXPIRED:
            rest = parts("nobody decided in time, so ", tool, " stays as it was. It can be proposed again.")
            return Sentence(tone=Tone.NEUTRAL, head=parts(strong("Expired")), rest=rest)


def _by(word: str, decided: Decided | None, now: datetime) -> tuple[Part, ...]:
    if decided is None or not decided.by:
        return parts(strong(word))
    return parts(strong(word), " by ", name(decided.by), f" at {clock(decided.at, now)}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
