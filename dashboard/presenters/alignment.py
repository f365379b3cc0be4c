"""Aligning two sequences by content: what stands on both sides stays together, whatever was put in before it.

Pure, and bounded: a sequence that an adversary made takes no longer than an honest one, it is only aligned less well.
Ground that both share is found by elements that occur once on each side (patience), then by Myers' greedy walk where
few things differ. What is left over is paired by how much it resembles, where it is small enough to compare.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

Pair = tuple[int | None, int | None]
Match = tuple[int, int]

MAX_EDITS: Final = 200
MAX_WALK: Final = 60_000
MAX_ROUNDS: Final = 4_000
MAX_COMPARED: Final = 1_600


@dataclass(slots=True, kw_only=True)
class _Budget:
    """What the walks of one alignment may still cost, in steps."""

    walk: int = MAX_WALK
    rounds: int = MAX_ROUNDS
    compared: int = MAX_COMPARED


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of both sides: from `i` to `i_end` on the left, from `j` to `j_end` on the right."""

    i: int
    i_end: int
    j: int
    j_end: int

    @property
    def is_empty(self) -> bool:
        return self.i >= self.i_end or self.j >= self.j_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two sequences by their prints: equal prints mean equal elements."""

    left: Sequence[Hashable]
    right: Sequence[Hashable]
    _budget: _Budget = field(default_factory=_Budget)

    def matches(self) -> list[Match]:
        """Give the index pairs of equal elements that stay together, growing on both sides."""
        found: list[Match] = []
        waiting = [_Span(0, len(self.left), 0, len(self.right))]
        while waiting:
            span = self._trimmed(waiting.pop(), found)
            if span.is_empty:
                continue
            self._budget.rounds -= 1
            anchors = self._anchors(span) if self._budget.rounds > 0 else []
            if anchors:
                waiting += self._between(span, anchors)
                found += anchors
            else:
                found += self._walked(span)
        return sorted(found)

    def gaps(self, matches: Sequence[Match]) -> Iterator[tuple[range, range]]:
        """Give the stretches between matches, those that are empty on both sides left out."""
        i = j = 0
        for left, right in [*matches, (len(self.left), len(self.right))]:
            if i < left or j < right:
                yield range(i, left), range(j, right)
            i, j = left + 1, right + 1

    def _trimmed(self, span: _Span, found: list[Match]) -> _Span:
        i, i_end, j, j_end = span.i, span.i_end, span.j, span.j_end
        while i < i_end and j < j_end and self.left[i] == self.right[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        while i < i_end and j < j_end and self.left[i_end - 1] == self.right[j_end - 1]:
            i_end, j_end = i_end - 1, j_end - 1
            found.append((i_end, j_end))
        return _Span(i, i_end, j, j_end)

    def _anchors(self, span: _Span) -> list[Match]:
        """Find elements that occur once on each side, and the longest row of them that keeps both orders."""
        left = Counter(self.left[span.i : span.i_end])
        right = Counter(self.right[span.j : span.j_end])
        places = {self.right[j]: j for j in range(span.j, span.j_end) if right[self.right[j]] == 1}
        once = [
            (i, places[self.left[i]])
            for i in range(span.i, span.i_end)
            if left[self.left[i]] == 1 and self.left[i] in places
        ]
        return _longest_growing(once)

    @staticmethod
    def _between(span: _Span, anchors: Sequence[Match]) -> list[_Span]:
        i, j, found = span.i, span.j, []
        for left, right in [*anchors, (span.i_end, span.j_end)]:
            found.append(_Span(i, left, j, right))
            i, j = left + 1, right + 1
        return found

    def _walked(self, span: _Span) -> list[Match]:
        """Walk a stretch as Myers does (1986), until more than MAX_EDITS things differ or the budget is spent."""
        left, right = self.left[span.i : span.i_end], self.right[span.j : span.j_end]
        reach, history = {1: 0}, []
        for edits in range(min(len(left) + len(right), MAX_EDITS) + 1):
            history.append(reach.copy())
            for diagonal in range(-edits, edits + 1, 2):
                is_down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
                x = reach[diagonal + 1] if is_down else reach[diagonal - 1] + 1
                start = x
                while x < len(left) and 0 <= x - diagonal < len(right) and left[x] == right[x - diagonal]:
                    x += 1
                self._budget.walk -= 1 + x - start
                reach[diagonal] = x
                if x >= len(left) and x - diagonal >= len(right):
                    return [(span.i + i, span.j + j) for i, j in _walked_back(history, len(left), len(right))]
            if self._budget.walk < 0:
                break
        return []


def align(
    left: Sequence[Hashable], right: Sequence[Hashable], resemblance: Callable[[int, int], float] | None = None
) -> list[Pair]:
    """Pair the elements of two sequences, in both orders; None stands where one side has nothing.

    `resemblance` tells for two places how much their unequal elements have in common (0 for nothing): such are paired
    too. Without it unequal elements never are.
    """
    sides = Sides(left=left, right=right)
    matches = sides.matches()
    pairs: list[Pair] = [*matches]
    for i_range, j_range in sides.gaps(matches):
        pairs += _paired(i_range, j_range, resemblance, sides._budget)  # noqa: SLF001 - the same module's
    return _in_order(pairs)


def _paired(
    i_range: range, j_range: range, resemblance: Callable[[int, int], float] | None, budget: _Budget
) -> list[Pair]:
    alone: list[Pair] = [*((i, None) for i in i_range), *((None, j) for j in j_range)]
    if resemblance is None or not i_range or not j_range:
        return alone
    if len(i_range) == len(j_range) == 1:
        return [(i_range[0], j_range[0])]
    budget.compared -= len(i_range) * len(j_range)
    if budget.compared < 0:
        chosen = list(zip(i_range, j_range, strict=False))  # too many to compare: by place
    else:
        chosen = _most_alike(i_range, j_range, resemblance)
    taken_left, taken_right = {i for i, _ in chosen}, {j for _, j in chosen}
    rest = [pair for pair in alone if pair[0] not in taken_left and pair[1] not in taken_right]
    return [*chosen, *rest]


def _most_alike(i_range: range, j_range: range, resemblance: Callable[[int, int], float]) -> list[Match]:
    """Choose pairs that keep both orders and resemble most in sum (Needleman and Wunsch)."""
    scores = [[resemblance(i, j) for j in j_range] for i in i_range]
    best = [[0.0] * (len(j_range) + 1) for _ in range(len(i_range) + 1)]
    for i in reversed(range(len(i_range))):
        for j in reversed(range(len(j_range))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + scores[i][j])
    i = j = 0
    chosen: list[Match] = []
    while i < len(i_range) and j < len(j_range):
        if scores[i][j] > 0 and best[i][j] == best[i + 1][j + 1] + scores[i][j]:
            chosen.append((i_range[i], j_range[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return chosen


def _in_order(pairs: list[Pair]) -> list[Pair]:
    """Order pairs so that both sides grow: of two neighbours with one side each, the left one first."""
    both = sorted(pair for pair in pairs if pair[0] is not None and pair[1] is not None)
    lefts = sorted(i for i, j in pairs if i is not None and j is None)
    rights = sorted(j for i, j in pairs if j is not None and i is None)
    ordered: list[Pair] = []
    at_left = at_right = 0
    for pair in [*both, None]:
        until_left, until_right = pair or (None, None)
        while at_left < len(lefts) and (until_left is None or lefts[at_left] < until_left):
            ordered.append((lefts[at_left], None))
            at_left += 1
        while at_right < len(rights) and (until_right is None or rights[at_right] < until_right):
            ordered.append((None, rights[at_right]))
            at_right += 1
        if pair is not None:
            ordered.append(pair)
    return ordered


def _longest_growing(matches: Sequence[Match]) -> list[Match]:
    """Find the longest row of matches whose right side grows too; the left one does."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(matches):
        place = bisect_left(ends, j)
        before.append(at_end[place - 1] if place else -1)
        if place == len(ends):
            ends.append(j)
            at_end.append(index)
        else:
            ends[place], at_end[place] = j, index
    row: list[Match] = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        row.append(matches[index])
        index = before[index]
    return row[::-1]


def _walked_back(history: Sequence[dict[int, int]], x: int, y: int) -> list[Match]:
    found: list[Match] = []
    for edits in reversed(range(len(history))):
        reach, diagonal = history[edits], x - y
        is_down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        earlier = diagonal + 1 if is_down else diagonal - 1
        from_x = reach[earlier] if edits else 0
        from_y = from_x - earlier if edits else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = from_x, from_y
    return found
