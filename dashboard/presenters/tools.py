"""Tools for people: policies in words, what a change changes, and what it would have made of the last week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.presenters.marks import Mark, mark_of
from dashboard.presenters.numbers import plural, seconds
from fencing.protocol.lookback import OPEN, Fate
from fencing.protocol.mcp import Claim, claims_of
from fencing.protocol.policies import NothingDone
from fencing.protocol.schema_words import Part, Way
from fencing.protocol.tool_changes import State
from fencing.protocol.tools import ToolDefinition
from fencing.protocol.weakening import Change
from fencing.queries.lookback import Lookback
from fencing.queries.tools import ChangeLine

FEW_PARTS: Final = 8
PASSES: Final = ("committed", "exempt")
_WAYS: Final = {Way.LOOSER: "looser", Way.STRICTER: "stricter", Way.OTHER: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference of two versions. `shown` are its first places, `folded` those behind a fold."""

    says: str
    pointer: str
    weakens: bool
    shown: tuple[tuple[Part, str], ...]
    folded: tuple[tuple[Part, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLine:
    """Steps that would have become something else, with links to the newest of them."""

    before: Mark
    after: Mark
    count: int
    says: str
    samples: tuple[tuple[str, str, int], ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureLine:
    """One n of N of the last week; `alarm` is the hue of an n above 0."""

    n: int
    of: int
    what: str
    alarm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookbackView:
    """What a change would have made of the last week; `figures` have data, `without` says what has none."""

    head: str
    hue: str
    told: str
    turns: tuple[TurnLine, ...]
    figures: tuple[FigureLine, ...]
    without: str
    value: Lookback


def tool_mark(definition: ToolDefinition) -> Mark:
    """Give the mark of a tool: whether the fence decides its calls."""
    return mark_of("tool", "read_only" if definition.is_read_only else "fenced")


def change_mark(line: ChangeLine) -> Mark:
    """Give the mark of a change: one that waits for nothing any more is told apart."""
    is_stale = line.state is State.PENDING and line.pending.is_stale
    return mark_of("tool_change", "stale" if is_stale else line.state.value)


def policy_facts(definition: ToolDefinition) -> list[tuple[str, str, str]]:
    """Tell the policy as (word, value, what it means)."""
    policy = definition.policy
    people = {1: "one person", 2: "two people"}
    facts = [
        ("grants", people[policy.grant_approvals], f"and at most {_span(policy.max_grant_ttl_s)}"),
        ("grace under a grant", _span(policy.grace_s), "for the missing path to speak"),
        ("deadline", _span(policy.deadline_s), "unless the planner names its own"),
        ("undoing", people[policy.compensation_approvals], "approving it"),
        ("lease of a call", _span(policy.lease_s), "then nobody knows what became of it"),
    ]
    if definition.endpoint is not None:
        facts.append(("timeout of a call", _span(policy.timeout_s), ""))
        pace = "" if policy.rate_per_s is None else f"and {policy.rate_per_s} begin in a second"
        facts.append(("calls at once", str(policy.max_in_flight), pace))
    if definition.idempotent:
        facts.append(("tries", str(policy.max_deliveries), "by machine, then a person is asked"))
    answers = ", ".join(_answer(each) for each in policy.nothing_done)
    if policy.already_done:
        facts.append(("done already", ", ".join(_answer(each) for each in policy.already_done), "for this very key"))
    facts.append(("nothing was done", answers or "no answer says so", "then it is called again" if answers else ""))
    return facts


def policy_in_short(definition: ToolDefinition) -> str:
    """Tell the policy in one line of a list."""
    policy = definition.policy
    if definition.is_read_only:
        return "admitted without a vote"
    paths = " + ".join(policy.required_paths)
    people = "two for a grant" if policy.grant_approvals > 1 else "one for a grant"
    return f"{paths} · {people} of {_span(policy.max_grant_ttl_s)} at most"


def traits(definition: ToolDefinition) -> list[str]:
    """Name what is special about a tool, in words."""
    found = [
        (definition.idempotent, "idempotent"),
        (definition.optimistic, "optimistic"),
        (definition.compensator is not None, "can be undone"),
        (bool(definition.advisory), plural(len(definition.advisory), "advisory member")),
        (bool(definition.sensitive), plural(len(definition.sensitive), "sensitive member")),
        (definition.args_schema is None, "no schema"),
    ]
    return [word for holds, word in found if holds]


def claims(definition: ToolDefinition) -> tuple[Claim, ...]:
    """Tell what the hints of a tool claim, and where the registry says something else."""
    return claims_of(
        dict(definition.hints), is_read_only=definition.is_read_only, is_idempotent=definition.idempotent
    )  # fmt: skip


def differences(found: Sequence[Change]) -> list[Difference]:
    """Prepare the differences of two versions, those that weaken the fence first."""
    return [
        Difference(
            says=change.says,
            pointer=change.pointer,
            weakens=change.weakens,
            shown=tuple((part, _WAYS[part.way]) for part in change.parts[:FEW_PARTS]),
            folded=tuple((part, _WAYS[part.way]) for part in change.parts[FEW_PARTS:]),
        )
        for change in found
    ]


def lookback_view(found: Lookback, tool: str) -> LookbackView:
    """Tell what a change would have made of the last week, the answer first."""
    told = found.replayed
    turned = sum(turn.count for turn in told.turns)
    through = sum(turn.count for turn in told.turns if _passes(turn.after) and not _passes(turn.before))
    if not told.steps:
        head, hue = f"No step of {tool} was proposed in the last week: nothing can be told from it.", "neutral"
    elif not turned:
        head, hue = f"None of {plural(told.steps, 'step')} of the last week would have ended otherwise.", "good"
    else:
        head = f"{turned:,} of {plural(told.steps, 'step')} of the last week would have ended otherwise"
        head += f"; {through:,} that {'was' if through == 1 else 'were'} stopped would have been let through."
        hue = "waiting" if through else "neutral"
    return LookbackView(
        head=head,
        hue=hue,
        told=_told(found),
        turns=tuple(_turn(each.before, each.after, each.count, each.samples) for each in told.turns),
        without=_without(found),
        figures=_figures(found),
        value=found,
    )


def _figures(found: Lookback) -> tuple[FigureLine, ...]:
    """Give every n of N of which there is data; all of nothing would be noise."""
    told, beyond = found.replayed, found.beyond
    lines = (
        (told.exempt, told.steps, "steps that would have skipped the fence", "waiting"),
        (told.misfits, told.with_actions, "steps with arguments that would not have fitted", "neutral"),
        (told.other_digests, told.with_actions, "steps whose actions would have other digests", "neutral"),
        (told.untold, told.steps, "steps of which nobody can tell: a path sent a digest alone", "neutral"),
        (beyond.too_long, beyond.grants, "grants that would live too long", "neutral"),
        (beyond.short_of_approvals, beyond.grants, "grants that would lack an approval", "neutral"),
        (beyond.with_one_less, beyond.grants, "grants that would need one person less", "waiting"),
        (beyond.given_up, beyond.calls, "calls that would have been given up before they answered", "waiting"),
        (beyond.too_often, beyond.calls, "calls that would not have been tried so often", "neutral"),
    )
    return tuple(FigureLine(n=n, of=of, what=what, alarm=alarm) for n, of, what, alarm in lines if of)


def _without(found: Lookback) -> str:
    """Say of what there is no data."""
    missing = [
        word
        for word, of in (
            ("grant was issued for it", found.beyond.grants),
            ("call of it was admitted", found.beyond.calls),
        )
        if not of
    ]
    return f"No {', and no '.join(missing)} in that week." if missing else ""


def fate_words(fate: Fate) -> str:
    """Say what became of a step."""
    reason = fate.reason.replace("_", " ")
    if fate.phase == OPEN:
        return "still open"
    if fate.phase == "committed":
        return "committed under a grant" if reason == "grant" else f"committed by {reason}"
    return "skips the fence" if fate.phase == "exempt" else f"rejected: {reason}"


def _told(found: Lookback) -> str:
    cut = (
        f" There were more: these are the newest {found.replayed.steps:,} that were found among the newest steps of all"
        " tools."
        if found.is_cut
        else ""
    )
    return (
        "Each step's own votes and grants, decided again under both definitions; a restart or a lost branch ends it in "
        f"both.{cut}"
    )


def _turn(before: Fate, after: Fate, count: int, samples: tuple[tuple[str, str, int], ...]) -> TurnLine:
    return TurnLine(
        before=_fate_mark(before),
        after=_fate_mark(after),
        count=count,
        says="let through" if _passes(after) and not _passes(before) else "",
        samples=samples,
        more=count - len(samples),
    )


def _fate_mark(fate: Fate) -> Mark:
    known = mark_of("step", "proposed" if fate.phase == OPEN else fate.phase)
    return Mark(word=fate_words(fate), hue=known.hue, shape=known.shape)


def _passes(fate: Fate) -> bool:
    return fate.phase in PASSES


def _span(duration_s: int) -> str:
    """Write a duration that was chosen: below a minute in whole seconds."""
    return f"{duration_s} s" if duration_s < 60 else seconds(duration_s)  # noqa: PLR2004 - a minute


def _answer(answer: NothingDone) -> str:
    return str(answer.status) if answer.pointer is None else f"{answer.status} with {answer.pointer} = {answer.equals}"
