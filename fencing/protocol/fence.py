"""The fence: the decision on one step (protocol, section 6).

A step collects facts: what its proposal pinned, and one vote for each path. Whenever a fact or the clock moves, the
fencer reads the whole set and decides. The decision is a function of that set and of the clock, never of which path
spoke first (N4), and the order of F3's rows is the order of authority:

1. two digests on record reject, whatever else is there: no grant, no majority and no late arrival mends a divergence;
2. equal digests of all required paths agree;
3. one path alone is fenced under a live grant, and commits when the other paths had their grace to speak;
4. silence rejects.

Deciding here means saying what follows. Whoever holds the step's lock writes it down (F9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from fencing.protocol.grants import Grant, ended_as, why_not_covering

I1 = (
    "A side-effecting action is committed only if every required path voted the same digest for the same (run, step, "
    "epoch), or a live grant covers that path alone. Visible divergence beats every grant."
)


class Phase(StrEnum):
    """Where a step is. `rejected` and `exempt` are final; `committed` may be taken back before its admission."""

    IDLE = "idle"
    PROPOSED = "proposed"
    AGREED = "agreed"
    FENCED = "fenced"
    COMMITTED = "committed"
    REJECTED = "rejected"
    EXEMPT = "exempt"


UNDECIDED = frozenset({Phase.IDLE, Phase.PROPOSED, Phase.AGREED, Phase.FENCED})


class Reason(StrEnum):
    """Why a step is in its phase."""

    AGREEMENT = "agreement"
    GRANT = "grant"
    READ_ONLY = "read_only"
    DIVERGENCE = "divergence"
    EQUIVOCATION = "equivocation"
    PROPOSAL_MISMATCH = "proposal_mismatch"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGS = "invalid_args"
    KEY_CONFLICT = "key_conflict"
    TIMEOUT = "timeout"
    PATH_UNAVAILABLE = "path_unavailable"
    SUPERSEDED = "superseded"
    BRANCH_LOST = "branch_lost"
    LATE_DIVERGENCE = "late_divergence"
    GRANT_REVOKED = "grant_revoked"
    GRANT_EXPIRED = "grant_expired"
    EPOCH_CLOSED = "epoch_closed"
    EFFECT_FAILED = "effect_failed"


REFUSED_BY_FACTS = frozenset(
    {
        Reason.DIVERGENCE,
        Reason.EQUIVOCATION,
        Reason.PROPOSAL_MISMATCH,
        Reason.UNKNOWN_TOOL,
        Reason.INVALID_ARGS,
        Reason.KEY_CONFLICT,
        Reason.TIMEOUT,
        Reason.PATH_UNAVAILABLE,
        Reason.SUPERSEDED,
        Reason.BRANCH_LOST,
    }
)
TAKEN_BACK = frozenset(
    {Reason.LATE_DIVERGENCE, Reason.GRANT_REVOKED, Reason.GRANT_EXPIRED, Reason.EPOCH_CLOSED, Reason.BRANCH_LOST}
)
COMMITS = frozenset({Reason.AGREEMENT, Reason.GRANT})

# From → to → the reasons for which a step may move so. What stands nowhere here does not happen.
TRANSITIONS = MappingProxyType(
    {
        Phase.IDLE: MappingProxyType(
            {
                Phase.PROPOSED: frozenset({None}),
                Phase.EXEMPT: frozenset({Reason.READ_ONLY}),
                Phase.REJECTED: frozenset({Reason.SUPERSEDED, Reason.BRANCH_LOST}),
            }
        ),
        Phase.PROPOSED: MappingProxyType(
            {
                Phase.AGREED: frozenset({Reason.AGREEMENT}),
                Phase.FENCED: frozenset({Reason.GRANT}),
                Phase.COMMITTED: COMMITS,
                Phase.EXEMPT: frozenset({Reason.READ_ONLY}),
                Phase.REJECTED: REFUSED_BY_FACTS,
            }
        ),
        Phase.AGREED: MappingProxyType(
            {
                Phase.PROPOSED: frozenset({None}),
                Phase.COMMITTED: frozenset({Reason.AGREEMENT}),
                Phase.EXEMPT: frozenset({Reason.READ_ONLY}),
                Phase.REJECTED: REFUSED_BY_FACTS,
            }
        ),
        Phase.FENCED: MappingProxyType(
            {
                Phase.PROPOSED: frozenset({None}),
                Phase.AGREED: frozenset({Reason.AGREEMENT}),
                Phase.COMMITTED: COMMITS,
                Phase.EXEMPT: frozenset({Reason.READ_ONLY}),
                Phase.REJECTED: REFUSED_BY_FACTS,
            }
        ),
        Phase.COMMITTED: MappingProxyType(
            {Phase.COMMITTED: frozenset({Reason.EFFECT_FAILED}), Phase.REJECTED: TAKEN_BACK}
        ),
        Phase.REJECTED: MappingProxyType({}),
        Phase.EXEMPT: MappingProxyType({}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a tool's definition asks of the fence (T2 to T4). Durations in seconds."""

    required_paths: tuple[str, ...] = ("production", "replica")
    trusted_path: str = "production"
    grace_s: float = 5
    is_read_only: bool = False
    is_optimistic: bool = False
    has_advisory: bool = False
    grant_approvals: int = 1
    max_grant_ttl_s: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one path said. A digest without a payload is a vote without its action; no digest is an abstention.

    `fault` is `unknown_tool` or `invalid_args` where the named action can never be committed (F6).
    """

    path: str
    digest: str | None
    payload: str | None = None
    tool: str | None = None
    fault: str | None = None
    model: str | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a step's branch may act (B3). Steps on the trunk always may."""

    may_act: bool = True
    is_lost: bool = False


TRUNK = Gate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The facts of one (run, step, epoch), votes in the order in which they came."""

    step: str
    epoch: int
    phase: Phase
    deadline_at: datetime
    pinned_digest: str | None = None
    pinned_payload: str | None = None
    pinned_tool: str | None = None
    votes: tuple[Vote, ...] = ()
    fenced_at: datetime | None = None
    fenced_by: str | None = None
    gate: Gate = TRUNK


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows from the facts at a moment.

    `due_at` is when the clock alone may change it. For `fenced` and for a commit under a grant, `grant` names the
    grant; a commit carries the payload digest that it binds and the tool. `fenced_at` is when the grace began to run.
    """

    phase: Phase
    reason: Reason | None = None
    due_at: datetime | None = None
    grant: str | None = None
    fenced_at: datetime | None = None
    digest: str | None = None
    payload: str | None = None
    tool: str | None = None


def digests_on_record(step: Step) -> frozenset[str]:
    """Give D, the distinct digests seen for the step: the pinned one and every vote (F3)."""
    seen = {vote.digest for vote in step.votes if vote.digest is not None}
    return frozenset(seen | {step.pinned_digest} if step.pinned_digest else seen)


def paths_for(step: Step, digest: str | None = None) -> frozenset[str]:
    """Give the paths that voted (for this digest, where one is named). An abstention is no vote."""
    return frozenset(vote.path for vote in step.votes if vote.digest is not None and digest in (None, vote.digest))


def divergence(step: Step) -> Reason | None:
    """Name the visible disagreement, if there is one (F3 row 1): which digest is right is not asked."""
    seen = digests_on_record(step)
    names_another_tool = step.pinned_tool is not None and any(
        vote.tool not in (None, step.pinned_tool) for vote in step.votes
    )
    if len(seen) <= 1 and not names_another_tool:
        return None
    if is_equivocal(step.votes):
        return Reason.EQUIVOCATION
    voted = {vote.digest for vote in step.votes if vote.digest is not None}
    return Reason.PROPOSAL_MISMATCH if len(voted) == 1 else Reason.DIVERGENCE


def is_equivocal(votes: Iterable[Vote]) -> bool:
    """Tell whether one path sent two different digests (F2)."""
    said: dict[str, str] = {}
    return any(vote.digest is not None and said.setdefault(vote.path, vote.digest) != vote.digest for vote in votes)


def tool_of(step: Step) -> str | None:
    """Name the tool that the step is about, as far as anybody told: pinned, or named by a vote."""
    return step.pinned_tool or next((vote.tool for vote in step.votes if vote.tool is not None), None)


def is_agreed(step: Step, rules: Rules) -> bool:
    """Tell whether every required path voted the one digest on record (F3 row 2; F7 asks the same of late votes)."""
    return len(digests_on_record(step)) == 1 and paths_for(step) >= set(rules.required_paths)


def is_correlated(step: Step, rules: Rules) -> bool:
    """Tell whether an agreement's paths report the same model and the same prompt: not independent (F10)."""
    origins = {vote.path: (vote.model, vote.prompt) for vote in step.votes if vote.digest is not None}
    told = [origins.get(path, (None, None)) for path in rules.required_paths]
    return len(told) > 1 and None not in told[0] and len(set(told)) == 1


def payload_for(step: Step, digest: str, paths: Iterable[str]) -> str | None:
    """Find the first action that one of these paths gave for the digest (C6: the trusted path's, or the granted's)."""
    return next(
        (
            vote.payload
            for path in paths
            for vote in step.votes
            if vote.path == path and vote.digest == digest and vote.payload
        ),
        None,
    )


def payload_paths(rules: Rules) -> tuple[str, ...]:
    """Order the paths whose action may be bound: the trusted one; any, if the tool has nothing advisory (F5)."""
    others = tuple(path for path in rules.required_paths if path != rules.trusted_path)
    return (rules.trusted_path,) if rules.has_advisory else (rules.trusted_path, *others)


def decide(
    step: Step,
    *,
    rules: Rules,
    grants: Iterable[Grant],
    now: datetime,
    is_key_taken: Callable[[str], bool] = lambda _digest: False,
) -> Decision:
    """Decide an undecided step: the first row of F3 that matches, and F4 and F5 for what may commit.

    `rules` are those of `tool_of(step)`, the defaults where no tool is known yet. `grants` are the run's, in any order.
    `is_key_taken` tells whether the invocation key serves another digest (L1). `now` is the database's clock, read
    after the last lock was taken.
    """
    if (disagreement := divergence(step)) is not None:
        return Decision(phase=Phase.REJECTED, reason=disagreement)
    has_agreed = is_agreed(step, rules)
    grant = None if has_agreed else covering_grant(step, rules=rules, grants=grants, now=now)
    if has_agreed or grant is not None:
        return _admissible(step, rules=rules, grant=grant, now=now, is_key_taken=is_key_taken)
    if step.gate.is_lost:
        return Decision(phase=Phase.REJECTED, reason=Reason.BRANCH_LOST)
    if now >= step.deadline_at:
        return Decision(phase=Phase.REJECTED, reason=Reason.TIMEOUT)
    if {vote.path for vote in step.votes if vote.digest is None} - paths_for(step) >= set(rules.required_paths):
        return Decision(phase=Phase.REJECTED, reason=Reason.PATH_UNAVAILABLE)
    return Decision(phase=Phase.PROPOSED, due_at=step.deadline_at)


def covering_grant(step: Step, *, rules: Rules, grants: Iterable[Grant], now: datetime) -> Grant | None:
    """Find the grant under which the one path that voted may act alone (F3 row 3), by name where several do."""
    paths = paths_for(step)
    seen = digests_on_record(step)
    if len(paths) != 1 or len(seen) != 1 or rules.is_read_only:  # what only reads needs no permission to act alone
        return None
    (path,), (digest,) = paths, seen
    payload = payload_for(step, digest, (path,))
    tool = tool_of(step)
    if payload is None or tool is None:
        return None
    covering = (
        grant
        for grant in grants
        if why_not_covering(
            grant, step=step.step, epoch=step.epoch, path=path, digest=digest, tool=tool, rules=rules, now=now
        )
        is None
    )
    return min(covering, key=lambda grant: (grant.name != step.fenced_by, grant.name), default=None)


def _admissible(
    step: Step, *, rules: Rules, grant: Grant | None, now: datetime, is_key_taken: Callable[[str], bool]
) -> Decision:
    """Rows 1a, 1b, 2 and 3 of F3, for facts that would let the action through."""
    (digest,) = digests_on_record(step)
    fault = next((vote.fault for vote in step.votes if vote.fault), None)
    if fault is not None:
        return Decision(phase=Phase.REJECTED, reason=Reason(fault))
    if rules.is_read_only:
        return Decision(phase=Phase.EXEMPT, reason=Reason.READ_ONLY, digest=digest, tool=tool_of(step))
    if is_key_taken(digest):
        return Decision(phase=Phase.REJECTED, reason=Reason.KEY_CONFLICT)
    if step.gate.is_lost:
        return Decision(phase=Phase.REJECTED, reason=Reason.BRANCH_LOST)
    may_act = step.gate.may_act or rules.is_optimistic
    if grant is not None:
        return _under_grant(step, grant, digest=digest, rules=rules, may_act=may_act, now=now)
    payload = payload_for(step, digest, payload_paths(rules))
    if payload is None or not may_act:
        return Decision(phase=Phase.AGREED, reason=Reason.AGREEMENT, digest=digest, payload=payload, tool=tool_of(step))
    return Decision(phase=Phase.COMMITTED, reason=Reason.AGREEMENT, digest=digest, payload=payload, tool=tool_of(step))


def _under_grant(step: Step, grant: Grant, *, digest: str, rules: Rules, may_act: bool, now: datetime) -> Decision:
    """F4: a single path is fenced first, and commits when the grace has passed and the grant is live then."""
    is_fenced = step.phase is Phase.FENCED and step.fenced_by == grant.name and step.fenced_at is not None
    since = step.fenced_at if is_fenced and step.fenced_at is not None else now
    ready_at = since + timedelta(seconds=rules.grace_s)
    payload = payload_for(step, digest, (grant.path,))
    phase = Phase.COMMITTED if may_act and now >= ready_at else Phase.FENCED
    end = grant.expires_at if grant.expires_at is not None else ready_at
    due_at = end if phase is Phase.COMMITTED or not may_act else min(ready_at, end)
    return Decision(
        phase=phase,
        reason=Reason.GRANT,
        due_at=due_at,
        grant=grant.name,
        fenced_at=since,
        digest=digest,
        payload=payload,
        tool=tool_of(step),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit as facts: whether it rests on a grant (which one), and whether it stands."""

    authority: str
    digest: str
    grant: Grant | None
    stands: bool


def rests_on_grant_alone(commit: Committed, step: Step, rules: Rules) -> bool:
    """Tell whether a grant is a commit's only authority: votes that came later count at once (F7)."""
    return commit.authority == "grant" and not is_agreed(step, rules)


def lost_authority(commit: Committed, step: Step, rules: Rules, *, run_epoch: int, now: datetime) -> Reason | None:
    """Say why a standing commit whose effect is not admitted must be taken back, or None (F8, G5, R3, B4).

    Where its effect is admitted none of this applies: what is out is out, and people are told (F8).
    """
    if len(digests_on_record(step)) > 1:
        return Reason.LATE_DIVERGENCE
    if step.gate.is_lost:
        return Reason.BRANCH_LOST
    if not rests_on_grant_alone(commit, step, rules):
        return None
    if step.epoch < run_epoch:
        return Reason.EPOCH_CLOSED
    ended = "grant_expired" if commit.grant is None else ended_as(commit.grant, now)
    return None if ended is None else Reason(ended)
