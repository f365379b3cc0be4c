"""What a grant would let through: for who issues it, and for who approves it. A dozen statements, whatever the run.

It decides nothing. What it shows is judged by the functions of the fence, from what is on record without locks; issuing
asks them again under the locks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Max, Q
from django.db.models.functions import Greatest

from fencing.models import Run
from fencing.models.facts import MAX_RESOURCE, read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import fence, grants, previews
from fencing.protocol.actions import resources_of
from fencing.protocol.asking import check_circumstances
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.previews import Amount, Fate, Verdict
from fencing.protocol.rules import rules_of
from fencing.protocol.tools import ToolDefinition
from fencing.queries.grants import GrantLine
from fencing.queries.preview_rows import Seen, actions_of, circumstances, own_epoch, steps_about
from fencing.queries.trails import StepRef

__all__ = ["Amount", "Barred", "Passed", "Passing", "Preview", "Second", "Total", "Wanted", "read_preview"]

MOST_BARRED: Final = 100
ONCALL_GROUP: Final = "on-call"
GOOD_REASON: Final = "x" * grants.REASON_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A grant that is asked for, as far as its form is filled in. Without an epoch it is for the one that is open."""

    run: str
    epoch: int | None = None
    step: str | None = None
    tool: str | None = None
    path: str | None = None
    digest: str | None = None
    max_uses: int | None = None
    ttl_s: int | None = None
    reason: str = ""

    @classmethod
    def of(cls, line: GrantLine) -> Wanted:
        """The scope of a grant that is there."""
        names = ("run", "epoch", "step", "tool", "path", "digest", "max_uses", "reason")
        return cls(**{name: line.body[name] for name in names}, ttl_s=line.facts.ttl_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """A step that it is about and that nobody decided: what its path asked for, or None while it has not voted.

    `within_uses`: there would be a use left for it.
    """

    step: StepRef
    tool: str | None
    action: Any
    digest: str
    resources: tuple[str, ...]
    amount: Amount | None
    deadline_at: datetime | None
    within_uses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A step of the last hours that it would have let through at `at`; `instead` is what became of it."""

    step: StepRef
    tool: str | None
    action: Any
    digest: str
    resources: tuple[str, ...]
    amount: Amount | None
    at: datetime
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """A step in its scope that it would not let through, and why."""

    step: StepRef
    tool: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sum over what would pass now, by tool, member and currency."""

    tool: str
    member: str
    currency: str | None
    value: Decimal
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """A person who may approve it, and when they last did anything here."""

    person: str
    person_id: int
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a grant would do. `refusal` is what issuing would answer now, but for a reason that is still empty.

    `passes` and `waits` are undecided steps, `past` those of the last six hours, `cannot` those in its scope that it
    would not help. `is_cut`: there are more steps than were looked at.
    """

    now: datetime
    wanted: grants.Grant | None
    refusal: Refusal | None
    passes: tuple[Passing, ...] = ()
    waits: tuple[Passing, ...] = ()
    past: tuple[Passed, ...] = ()
    cannot: tuple[Barred, ...] = ()
    totals: tuple[Total, ...] = ()
    needs_second: bool = False
    why_second: str = ""
    seconds: tuple[Second, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """Who asks for what, where and when."""

    wanted: Wanted
    caller: Caller
    run: Run
    own: int
    definition: ToolDefinition | None
    now: datetime
    of: str | None


def read_preview(wanted: Wanted, caller: Caller, *, of: str | None = None) -> Preview:
    """Say what a grant would let through. `of` names one that is there already: it is not in its own way."""
    run = Run.objects.filter(name=wanted.run).first()
    now = read_clock()
    if run is None:
        detail = f"There is no run {wanted.run}."
        return Preview(now=now, wanted=None, refusal=Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/run"))
    definition = None if wanted.tool is None else registry_at(current_registry()).get(wanted.tool)
    own = own_epoch(run, wanted.step)
    asking = _Asking(wanted=wanted, caller=caller, run=run, own=own, definition=definition, now=now, of=of)
    return _previewed(asking)


def _previewed(asking: _Asking) -> Preview:
    wanted, run, now = asking.wanted, asking.run, asking.now
    steps, is_cut = steps_about(run, step=wanted.step, tool=wanted.tool, now=now)
    asked = _asked(wanted, asking.own, asking.definition)
    known = next((each for each in steps if each.pure.step == wanted.step and each.pure.epoch == asking.own), None)
    judged = [(each, _judge(each, asked, now)) for each in steps]
    passes = _passing(run.name, judged, asked)
    told = asking.definition if asking.definition is not None or known is None else known.definition
    needs_second = rules_of(told).grant_approvals > 1
    cannot = (_barred(run.name, each, verdict) for each, verdict in judged if verdict.fate is Fate.BARRED)
    return Preview(
        now=now,
        wanted=asked,
        refusal=_refusal(asking, asked, known),
        passes=passes,
        waits=_waiting(run.name, judged),
        past=_past(run.name, steps, asked),
        cannot=tuple(islice(cannot, MOST_BARRED)),
        totals=_totals(passes),
        needs_second=needs_second,
        why_second=_why_second(asked, told) if needs_second else "",
        seconds=_seconds(asking.caller) if needs_second else (),
        is_cut=is_cut,
    )


def _asked(wanted: Wanted, own: int, definition: ToolDefinition | None) -> grants.Grant:
    rules = None if definition is None else rules_of(definition)
    return grants.Grant(
        name="",
        epoch=wanted.epoch or own,
        step=wanted.step,
        tool=wanted.tool,
        path=wanted.path or "production",
        digest=wanted.digest,
        max_uses=wanted.max_uses or 1,
        uses=0,
        ttl_s=wanted.ttl_s or 1,
        approvals=0,
        approvals_needed=None if rules is None else rules.grant_approvals - 1,
        pending_until=None,
        expires_at=None,
    )


def _judge(seen: Seen, asked: grants.Grant, now: datetime) -> Verdict:
    return previews.judge_now(seen.pure, asked, reason=seen.row.reason, rules=seen.rules, now=now)


def _refusal(asking: _Asking, asked: grants.Grant, known: Seen | None) -> Refusal | None:
    """What issuing would answer now, in the order in which the service asks."""
    wanted, definition = asking.wanted, asking.definition
    if wanted.tool is not None and definition is None:
        return Refusal(code=Code.UNKNOWN_TOOL, detail=f"No tool {wanted.tool} is registered.", pointer="/tool")
    rules = None if definition is None else rules_of(definition)
    refusal = grants.check_form(asked, reason=wanted.reason or GOOD_REASON, rules=rules)
    if refusal is not None:
        return refusal
    issuer = asking.caller.person_id
    those = circumstances(asking.run, known, own=asking.own, issuer=issuer, now=asking.now, without=asking.of)
    return check_circumstances(asked, those)


def _ref(run: str, seen: Seen) -> StepRef:
    return StepRef(run=run, step=seen.pure.step, epoch=seen.pure.epoch)


def _told(seen: Seen, action: Any) -> dict[str, Any]:
    """What its path asked for: the tool, the action, what it touches, and the sum in it."""
    definition = seen.definition
    touched = () if action is None or definition is None else resources_of(action["args"], definition.resources)
    return {
        "tool": fence.tool_of(seen.pure),
        "action": action,
        "resources": tuple(text[:MAX_RESOURCE] for text in touched),
        "amount": None if action is None else previews.amount_of(action["args"], definition),
    }


def _passing(run: str, judged: Sequence[tuple[Seen, Verdict]], asked: grants.Grant) -> tuple[Passing, ...]:
    """What would pass now, in the order in which its path asked."""
    found = [(seen, verdict) for seen, verdict in judged if verdict.fate is Fate.PASSES]
    actions = actions_of(verdict.payload for _, verdict in found)
    found.sort(key=lambda each: (_asked_at(each[0], asked.path), each[0].pure.step))
    return tuple(
        Passing(
            step=_ref(run, seen),
            digest=verdict.digest or "",
            deadline_at=seen.row.deadline_at,
            within_uses=place < asked.max_uses,
            **_told(seen, actions.get(verdict.payload or "")),
        )
        for place, (seen, verdict) in enumerate(found)
    )


def _asked_at(seen: Seen, path: str) -> datetime:
    own = [at for vote, at in zip(seen.pure.votes, seen.heard_at, strict=True) if vote.path == path and vote.digest]
    return own[0] if own else seen.row.opened_at


def _waiting(run: str, judged: Sequence[tuple[Seen, Verdict]]) -> tuple[Passing, ...]:
    return tuple(
        Passing(
            step=_ref(run, seen),
            digest=seen.pure.pinned_digest or "",
            deadline_at=seen.row.deadline_at,
            within_uses=True,
            **_told(seen, None),
        )
        for seen, verdict in judged
        if verdict.fate is Fate.WAITS
    )


def _past(run: str, steps: Sequence[Seen], asked: grants.Grant) -> tuple[Passed, ...]:
    judged = [
        (seen, previews.judge_then(seen.pure, seen.heard_at, asked, rules=seen.rules))
        for seen in steps
        if seen.pure.phase not in fence.UNDECIDED
    ]
    found = [(seen, verdict) for seen, verdict in judged if verdict.fate is Fate.PASSES]
    actions = actions_of(verdict.payload for _, verdict in found)
    return tuple(
        Passed(
            step=_ref(run, seen),
            digest=verdict.digest or "",
            at=verdict.at or seen.row.opened_at,
            instead=seen.row.reason or seen.row.phase,
            **_told(seen, actions.get(verdict.payload or "")),
        )
        for seen, verdict in found
    )


def _barred(run: str, seen: Seen, verdict: Verdict) -> Barred:
    return Barred(step=_ref(run, seen), tool=fence.tool_of(seen.pure), why=verdict.why)


def _totals(passes: Sequence[Passing]) -> tuple[Total, ...]:
    sums: dict[tuple[str, str, str | None], list[Decimal]] = defaultdict(list)
    for line in passes:
        if line.within_uses and line.amount is not None:
            sums[line.tool or "", line.amount.member, line.amount.currency].append(line.amount.value)
    return tuple(
        Total(tool=tool, member=member, currency=currency, value=sum(values, Decimal(0)), count=len(values))
        for (tool, member, currency), values in sums.items()
    )


def _why_second(asked: grants.Grant, definition: ToolDefinition | None) -> str:
    tool = definition.tool if definition is not None else "the tool"
    if asked.tool is None:
        return f"{tool} asks for two people: the grant covers nothing until another person on call approved it."
    minutes = grants.PENDING_S // 60
    return f"{tool} asks for two people: it waits for another person on call, {minutes} minutes at most."


def _seconds(caller: Caller) -> tuple[Second, ...]:
    """Everybody on call but the issuer, who was here last first."""
    people = User.objects.filter(Q(groups__name=ONCALL_GROUP) | Q(is_superuser=True), is_active=True)
    seen = people.exclude(pk=caller.person_id or 0).annotate(
        seen_at=Greatest(Max("last_login"), Max("credentials__last_used_at"))
    )
    found = [Second(person=row.get_username(), person_id=row.pk, last_seen_at=row.seen_at) for row in seen.distinct()]
    never = datetime.min.replace(tzinfo=UTC)
    return tuple(sorted(found, key=lambda each: each.last_seen_at or never, reverse=True))
