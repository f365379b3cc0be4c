"""What each path said about a step, and which two of these a page compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from dashboard.presenters.json_lines import JsonView, json_view
from dashboard.presenters.side_by_side import SideBySide, side_by_side
from fencing.protocol.differences import Difference
from fencing.protocol.masking import mask
from fencing.queries.trace import Said, Trace

DIFFERENCES: Final = MappingProxyType(
    {
        Difference.UNICODE_FORM: "the same but for how Unicode writes a character",
        Difference.NUMBER_OR_STRING: "the same but for numbers written as text",
        Difference.WHITESPACE: "the same but for white space",
        Difference.CASE: "the same but for upper and lower case",
        Difference.ARRAY_ORDER: "the same but for the order of a list",
        Difference.NULL_OR_ABSENT: "the same but for nulls that one side leaves out",
        Difference.OTHER_ARGS: "other arguments of the same tool",
        Difference.OTHER_TOOL: "another tool",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one path said, or the proposal pinned. `words` stand where there is no action; `quoted` is an abstention."""

    title: str
    digest: str | None = None
    payload_digest: str | None = None
    action: Any = None
    at: datetime | str | None = None
    words: str = ""
    quoted: str = ""
    model: str | None = None
    prompt: str | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A side that could be compared instead: its place among all, and its title."""

    index: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides beside each other. `rows` where both gave an action, else the lines of each that did."""

    left: Side
    right: Side | None
    rows: SideBySide | None
    left_view: JsonView | None
    right_view: JsonView | None
    others: tuple[Other, ...]
    difference: str

    @property
    def is_agreed(self) -> bool:
        """Tell whether both gave the same digest: the fence compares that, and nothing else."""
        return self.right is not None and self.left.digest is not None and self.left.digest == self.right.digest


def sides_of(trace: Trace) -> tuple[Side, ...]:
    """Give every side, the trusted path first: each digest of each path once, who has not voted, and the proposal."""
    rules = trace.step.rules()
    paths = dict.fromkeys([rules.trusted_path, *rules.required_paths, *(vote.path for vote in trace.votes)])
    found = [side for path in paths for side in _of_path(path, trace.votes, is_undecided=_is_undecided(trace))]
    pinned = trace.step.row["pinned_digest"]
    if pinned is not None:
        found.append(
            Side(
                title="the proposal",
                digest=pinned,
                payload_digest=trace.step.row["pinned_payload"],
                action=trace.pinned_action,
                at=trace.step.row["proposed_at"],
                words="" if trace.pinned_action is not None else "pinned this digest without its action",
            )
        )
    return tuple(found)


def has_masked(trace: Trace) -> bool:
    """Tell whether pages mask something that a side asked for."""
    return any(side.action is not None and _masked(trace, side) != side.action for side in sides_of(trace))


def compare(trace: Trace, against: int | None = None, *, reveals: bool = False) -> Comparison:
    """Compare the trusted path with the first side that differs from it, or with the one that was chosen.

    `reveals`: sensitive members are shown as they are, to who may see them (U5).
    """
    sides = sides_of(trace)
    chosen = against if against is not None and 0 < against < len(sides) else _first_that_differs(sides)
    left, right = sides[0], sides[chosen] if chosen is not None else None
    shown = _masked(trace, left), None if right is None else _masked(trace, right, beside=left)
    if reveals:
        shown = left.action, None if right is None else right.action
    has_both = shown[0] is not None and shown[1] is not None
    definition = trace.step.definition(left.action["tool"]) if left.action is not None else None
    difference = trace.step.row["difference"]
    return Comparison(
        left=left,
        right=right,
        rows=side_by_side(*shown, advisory=definition.advisory if definition else ()) if has_both else None,
        left_view=None if has_both or shown[0] is None else json_view(shown[0]["args"]),
        right_view=None if has_both or shown[1] is None else json_view(shown[1]["args"]),
        others=tuple(
            Other(index=index, title=side.title)
            for index, side in enumerate(sides)
            if index not in (0, chosen) and side.digest is not None
        ),
        difference=difference_words(difference),
    )


def _masked(trace: Trace, side: Side, beside: Side | None = None) -> Any:
    """Give a side's action as pages may show it (U5)."""
    if side.action is None:
        return None
    definition = trace.step.definition(side.action["tool"])
    return mask(side.action, definition.sensitive if definition else (), beside.action if beside else None)


def difference_words(difference: str | None) -> str:
    """Say a difference class in words; empty where there is none."""
    if difference is None:
        return ""
    return DIFFERENCES.get(Difference(difference), difference.replace("_", " "))


def _is_undecided(trace: Trace) -> bool:
    return trace.step.row["decided_at"] is None


def _first_that_differs(sides: Sequence[Side]) -> int | None:
    others = range(1, len(sides))
    differing = (index for index in others if sides[index].digest not in (None, sides[0].digest))
    return next(differing, 1 if len(sides) > 1 else None)


def _of_path(path: str, votes: Sequence[Said], *, is_undecided: bool) -> list[Side]:
    mine = [vote for vote in votes if vote.path == path]
    digests = list(dict.fromkeys(vote.digest for vote in mine if vote.digest is not None))
    if digests:
        return [_voted(path, digest, number, mine) for number, digest in enumerate(digests)]
    if mine:
        return [Side(title=path, words="abstained", quoted=mine[0].abstain or "", at=mine[0].received_at)]
    return [Side(title=path, words="has not voted yet" if is_undecided else "did not vote")]


def _voted(path: str, digest: str, number: int, mine: Sequence[Said]) -> Side:
    """One digest of a path: its first vote for it, with the action that came then or later (F5)."""
    first = next(vote for vote in mine if vote.digest == digest)
    with_action = next((vote for vote in mine if vote.digest == digest and vote.action is not None), first)
    return Side(
        title=path if number == 0 else f"{path}, vote {number + 1}",
        digest=digest,
        payload_digest=with_action.payload_digest,
        action=with_action.action,
        at=first.received_at,
        words="" if with_action.action is not None else "voted by digest, without its action",
        model=first.model,
        prompt=first.prompt,
        is_late=first.is_late,
    )
