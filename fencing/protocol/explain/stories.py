"""What a step's sentence is made of: the facts of the fence, and the times and actions that only people read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fencing.protocol.actions import no_tools
from fencing.protocol.explain.effects import Effect
from fencing.protocol.explain.wording import Part, described, listed, parts, quote
from fencing.protocol.fence import UNDECIDED, Committed, Reason, Rules, Step, paths_for
from fencing.protocol.grants import Grant

if TYPE_CHECKING:
    from fencing.protocol.actions import ToolLookup
    from fencing.protocol.differences import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A vote as people read it: with the parsed action where it came with one, or the reason of an abstention."""

    path: str
    at: datetime
    digest: str | None = None
    action: Any = None
    abstain: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that a step's sentence tells. `heard` goes with the votes of `step` one by one, `now` is the reader's.

    `grants` are those that could have been about the step, as they were when it was decided.
    """

    step: Step
    reason: Reason | None
    rules: Rules
    now: datetime
    heard: tuple[Heard, ...] = ()
    tools: ToolLookup = no_tools
    pinned: Any = None
    commit: Committed | None = None
    effect: Effect | None = None
    grants: tuple[Grant, ...] = ()
    proposed_at: datetime | None = None
    decided_at: datetime | None = None
    committed_at: datetime | None = None
    difference: Difference | None = None
    is_correlated: bool = False

    def as_decided(self) -> Step:
        """The step with the votes that had come when it was decided: what came later has its own words (F7)."""
        if self.step.phase in UNDECIDED or self.decided_at is None:
            return self.step
        votes = zip(self.step.votes, self.heard, strict=False)
        return replace(self.step, votes=tuple(vote for vote, heard in votes if heard.at <= self.decided_at))

    def missing(self) -> list[str]:
        """The required paths that had not voted when it was decided, the trusted one first."""
        voted = paths_for(self.as_decided())
        required = sorted(self.rules.required_paths, key=lambda path: (path != self.rules.trusted_path, path))
        return [path for path in required if path not in voted]

    def firsts(self) -> list[Heard]:
        """The first vote of each path, the trusted path first."""
        found: dict[str, Heard] = {}
        for heard in self.heard:
            if heard.digest is not None:
                found.setdefault(heard.path, heard)
        return sorted(found.values(), key=lambda heard: heard.path != self.rules.trusted_path)

    def said_by(self, path: str) -> list[Heard]:
        """The different things that a path voted, in their order."""
        found: dict[str, Heard] = {}
        for heard in self.heard:
            if heard.path == path and heard.digest is not None:
                found.setdefault(heard.digest, heard)
        return list(found.values())

    def what(self, digest: str | None) -> tuple[Part, ...]:
        """Tell the action of a digest in short; where nobody sent it, the digest's beginning."""
        pinned = self.pinned if digest is not None and digest == self.step.pinned_digest else None
        action = next((each.action for each in self.heard if each.digest == digest and each.action is not None), pinned)
        if action is not None:
            return described(action, self.tools)
        return parts("an action with digest ", (digest or "").removeprefix("sha256:")[:12], "…")

    def gap(self, digest: str | None) -> timedelta | None:
        """The time between the first and the last required path's vote for a digest."""
        moments = [
            heard.at for heard in self.firsts() if heard.digest == digest and heard.path in self.rules.required_paths
        ]
        return max(moments) - min(moments) if len(moments) > 1 else None

    def abstentions(self) -> tuple[Part, ...]:
        """Who could not answer, and why."""
        by_path = {heard.path: heard.abstain for heard in self.heard if heard.digest is None}
        silent = [path for path in self.missing() if path in by_path]
        return parts(*(parts(f" {path} could not answer: ", quote(by_path[path] or ""), ".") for path in silent))


def paths(names: Iterable[str]) -> str:
    """Write paths as a list."""
    return listed(list(names))
