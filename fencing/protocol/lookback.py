"""What a change of a tool would have changed: steps of the past, decided again under both definitions (T1).

Every step is played from its own facts, in the order in which they came: its proposal, its votes, its grants, the
clock. It is played twice by the same function, under the definition that is current and under the one that is asked
for, so what differs is the work of the change alone. A restart or a lost branch ends a step in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fencing.protocol import fence, grants
from fencing.protocol.actions import read_action
from fencing.protocol.errors import Refusal
from fencing.protocol.matching import OutOfAllowance
from fencing.protocol.rules import deadline_of, rules_of

if TYPE_CHECKING:
    from fencing.protocol.tools import ToolDefinition

MAX_SAMPLES: Final = 5
_MAX_MOVES: Final = 64
OPEN: Final = "open"
UNTOLD: Final = "untold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One vote as it was received. `action` is the parsed action, None where a digest came alone, or an abstention.

    `payload` is the action's payload digest: actions that are the same are read once.
    """

    at: datetime
    path: str
    digest: str | None
    action: Any
    tool: str | None
    payload: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A grant with the moments at which it went live, was approved, and was used by other steps."""

    grant: grants.Grant
    live_at: datetime
    approved_at: tuple[datetime, ...] = ()
    used_at: tuple[datetime, ...] = ()

    def as_of(self, now: datetime) -> grants.Grant:
        """The grant as it was at a moment: what ended it later had not happened."""
        ended = (self.grant.expired_at, self.grant.revoked_at, self.grant.voided_at)
        expired, revoked, voided = (at if at is not None and at <= now else None for at in ended)
        return replace(
            self.grant,
            expired_at=expired,
            revoked_at=revoked,
            voided_at=voided,
            uses=sum(at <= now for at in self.used_at),
            approvals=sum(at <= now for at in self.approved_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A step of the past as facts. `advisory` is what was left out of its digests when they were received.

    `ended_at` is when something ended it that no tool's definition decides: a restart, a branch that lost.
    """

    run: str
    step: str
    epoch: int
    proposed_at: datetime
    own_deadline_s: float | None
    advisory: tuple[str, ...]
    pinned_digest: str | None = None
    pinned_action: Any = None
    pinned_payload: str | None = None
    pinned_tool: str | None = None
    said: tuple[Said, ...] = ()
    permits: tuple[Permit, ...] = ()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fate:
    """What became of a step: its phase and the reason; `open` while nobody decided it, `untold` where nobody can say.

    Nobody can say where a path sent a digest alone and the change makes other digests of actions.
    """

    phase: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Steps that would have become something else: how many, and the newest of them as (run, step, epoch)."""

    before: Fate
    after: Fate
    count: int
    samples: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How the steps of the past fare under two definitions. Each number is of `steps`, but where it says otherwise.

    `steps` are those that were played: fewer than there are where the work that was allowed ran out.

    `misfits` of `with_actions`: arguments that the new schema refuses and the old one took. `other_digests` of
    `with_actions`: steps in which an action has another fence digest. `exempt`: steps that would skip the fence.
    `untold`: steps of which nobody can say.
    """

    steps: int
    with_actions: int
    misfits: int
    other_digests: int
    exempt: int
    untold: int
    turns: tuple[Turn, ...]


def replay(pasts: Sequence[Past], older: ToolDefinition, newer: ToolDefinition, until: datetime) -> Replayed:
    """Decide steps of the past again, under the current definition and under another one.

    Stops, and tells how far it came, where an `allowance` of work around it runs out.
    """
    counts: Counter[str] = Counter()
    turns: dict[tuple[Fate, Fate], list[tuple[str, str, int]]] = {}
    before, after = Reader(older), Reader(newer)
    for past in pasts:
        try:
            fates = fate_of(past, before, until), fate_of(past, after, until)
            found = _compared(past, before, after, fates)
        except OutOfAllowance:
            break
        counts.update(found)
        if fates[0] != fates[1] and not found["untold"]:
            turns.setdefault(fates, []).append((past.run, past.step, past.epoch))
    return Replayed(
        steps=counts["steps"],
        with_actions=counts["with_actions"],
        misfits=counts["misfits"],
        other_digests=counts["other_digests"],
        exempt=counts["exempt"],
        untold=counts["untold"],
        turns=tuple(
            Turn(before=was, after=now, count=len(found), samples=tuple(found[:MAX_SAMPLES]))
            for (was, now), found in sorted(turns.items(), key=lambda turn: (-len(turn[1]), turn[0]))
        ),
    )


def _compared(past: Past, before: Reader, after: Reader, fates: tuple[Fate, Fate]) -> dict[str, bool]:
    """Tell in what a step differs under two definitions, each a count of one."""
    named = [(past.pinned_action, past.pinned_payload), *((said.action, said.payload) for said in past.said)]
    pairs = [(one, other) for each in named if (one := before.read(*each)) and (other := after.read(*each))]
    was, now = (fate.phase for fate in fates)
    return {
        "steps": True,
        "with_actions": bool(pairs),
        "misfits": any(one.fault is None and other.fault is not None for one, other in pairs),
        "other_digests": any(one.digest != other.digest for one, other in pairs),
        "exempt": now == fence.Phase.EXEMPT and was != fence.Phase.EXEMPT,
        "untold": UNTOLD in (was, now),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An action of the tool as a definition reads it: its two digests, and `invalid_args` where it does not fit."""

    digest: str
    payload: str
    fault: str | None


class Reader:
    """Reads the actions of the past as a definition of their tool would have them read, each once."""

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition
        self._known: dict[str, Read | None] = {}

    def read(self, action: Any, payload: str | None) -> Read | None:
        """Read an action; None for none, and for one of another tool, of which the definition says nothing."""
        if not isinstance(action, dict) or action.get("tool") != self.definition.tool:
            return None
        if payload is None:
            return self._read(action)
        if payload not in self._known:
            self._known[payload] = self._read(action)
        return self._known[payload]

    def _read(self, action: Any) -> Read | None:
        found = read_action(action, lambda _tool: self.definition)
        if isinstance(found, Refusal):
            return None
        misfit = self.definition.check_args(found.args)
        fault = None if misfit is None else fence.Reason.INVALID_ARGS.value
        return Read(digest=found.fence_digest, payload=found.payload_digest, fault=fault)

    def vote(self, said: Said) -> fence.Vote:
        """One vote with the digest and the fault that it would have had."""
        found = self.read(said.action, said.payload)
        if found is None:
            payload = None if said.action is None else said.digest
            return fence.Vote(path=said.path, digest=said.digest, payload=payload, tool=said.tool, fault=said.fault)
        return fence.Vote(
            path=said.path, digest=found.digest, payload=found.payload, tool=self.definition.tool, fault=found.fault
        )

    def is_untold(self, past: Past) -> bool:
        """Whether nobody can say what became of a step: the digests that came alone would be others."""
        if set(self.definition.advisory) == set(past.advisory):
            return False
        pinned_alone = past.pinned_digest is not None and past.pinned_action is None
        return pinned_alone or any(each.digest is not None and each.action is None for each in past.said)


def fate_of(past: Past, reader: Reader, until: datetime) -> Fate:
    """Play one step under a definition of its tool, from its proposal to the end or to `until`."""
    definition = reader.definition
    if reader.is_untold(past):
        return Fate(phase=UNTOLD)
    if definition.is_read_only and past.pinned_tool == definition.tool:
        return Fate(phase=fence.Phase.EXEMPT, reason=fence.Reason.READ_ONLY)
    pinned = reader.read(past.pinned_action, past.pinned_payload)
    if pinned is not None and pinned.fault is not None:
        return Fate(phase=fence.Phase.REJECTED, reason=fence.Reason.INVALID_ARGS)
    step = fence.Step(
        step=past.step,
        epoch=past.epoch,
        phase=fence.Phase.PROPOSED,
        deadline_at=deadline_of(definition, past.own_deadline_s, past.proposed_at),
        pinned_digest=past.pinned_digest if pinned is None else pinned.digest,
        pinned_tool=past.pinned_tool,
    )
    end = min(until, past.ended_at) if past.ended_at is not None else until
    found = _played(past, step, [reader.vote(each) for each in past.said], rules_of(definition), end)
    if found is not None:
        return found
    is_ended = past.ended_at is not None and past.ended_at <= until
    return Fate(phase=fence.Phase.REJECTED, reason=fence.Reason.SUPERSEDED) if is_ended else Fate(phase=OPEN)


def _played(
    past: Past, step: fence.Step, votes: Sequence[fence.Vote], rules: fence.Rules, end: datetime
) -> Fate | None:
    """Let the facts of a step come one after the other; None where nothing is decided by `end`."""
    moments = sorted({past.proposed_at, step.deadline_at, *_moments(past)})
    for _ in range(_MAX_MOVES + len(moments)):
        if not moments or moments[0] > end:
            break
        now = moments.pop(0)
        heard = tuple(vote for vote, said in zip(votes, past.said, strict=True) if said.at <= now)
        permits = [permit.as_of(now) for permit in past.permits if permit.live_at <= now]
        decision = fence.decide(replace(step, votes=heard), rules=rules, grants=permits, now=now)
        if decision.phase in (fence.Phase.COMMITTED, fence.Phase.REJECTED, fence.Phase.EXEMPT):
            return Fate(phase=decision.phase, reason=decision.reason or "")
        step = replace(step, phase=decision.phase, fenced_by=decision.grant, fenced_at=decision.fenced_at)
        if decision.due_at is not None and decision.due_at > now and decision.due_at not in moments:
            moments = sorted([*moments, decision.due_at])
    return None


def _moments(past: Past) -> Iterator[datetime]:
    """Give the moments at which something about a step changed."""
    yield from (said.at for said in past.said)
    for permit in past.permits:
        yield permit.live_at
        yield from permit.approved_at
        ends = (permit.grant.expires_at, permit.grant.expired_at, permit.grant.revoked_at, permit.grant.voided_at)
        yield from (at for at in ends if at is not None)


# -- grants and calls of the past --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A grant of the past as it was asked for. `seconds` counts the people who approved it beside its issuer."""

    ttl_s: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A delivery of the past: its number, and how many seconds went by until its first outcome (None: none came)."""

    number: int
    took_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """What of the past lies beyond a definition. The first three are of `grants`, the others of `calls`."""

    grants: int
    too_long: int
    short_of_approvals: int
    with_one_less: int
    calls: int
    given_up: int
    too_often: int


def beyond(issued: Iterable[Issued], called: Iterable[Called], older: ToolDefinition, newer: ToolDefinition) -> Beyond:
    """Count the grants and the calls that would have been treated otherwise."""
    permits, calls = list(issued), list(called)
    old, new = older.policy, newer.policy
    waits_old, waits_new = (_waits(each) for each in (older, newer))
    return Beyond(
        grants=len(permits),
        too_long=sum(new.max_grant_ttl_s < each.ttl_s <= old.max_grant_ttl_s for each in permits),
        short_of_approvals=sum(old.grant_approvals - 1 <= each.seconds < new.grant_approvals - 1 for each in permits),
        with_one_less=len(permits) if new.grant_approvals < old.grant_approvals else 0,
        calls=len(calls),
        given_up=sum(each.took_s is not None and waits_new < each.took_s <= waits_old for each in calls),
        too_often=sum(new.max_deliveries < each.number <= old.max_deliveries for each in calls),
    )


def _waits(definition: ToolDefinition) -> float:
    """Say how long a call may take before it counts as unknown, in seconds."""
    policy = definition.policy
    return policy.lease_s if definition.endpoint is None else min(policy.lease_s, policy.timeout_s)
