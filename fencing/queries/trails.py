"""The trail of a grant (G8): everything that was done with it, asked of it and refused to it, in a bounded read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from django.db.models import Min, Q

from fencing.models import AuditEvent, Commit, Delivery, Grant, GrantRefusal, GrantUse, SideLogRow, Vote
from fencing.models.facts import read_clock
from fencing.protocol import grants
from fencing.protocol.grants import State
from fencing.protocol.objects import Object, rfc3339
from fencing.queries.grants import GrantLine, lines_of

MAX_ROWS: Final = 200
CLOCK: Final = "the clock"


class What(StrEnum):
    """What an entry of a trail tells."""

    ASKED = "asked"
    APPROVED = "approved"
    LIVE = "live"
    USED = "used"
    REFUSED_USE = "refused_use"
    REFUSED_ACT = "refused_act"
    REFUSED_CALL = "refused_call"
    LATE_VOTE = "late_vote"
    EXPIRED = "expired"
    REVOKED = "revoked"
    VOIDED = "voided"
    REVIEWED = "reviewed"


VERBS: Final = {
    "issue_grant": What.ASKED,
    "approve_grant": What.APPROVED,
    "expire_grant": What.EXPIRED,
    "revoke_grant": What.REVOKED,
    "void_grant": What.VOIDED,
    "review_grant": What.REVIEWED,
}
VOIDED: Final = {
    "epoch_closed": "its epoch was closed",
    "step_replayed": "its step was replayed",
    grants.FROZEN: "a freeze of its scope",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRef:
    """One epoch of a step, for a link."""

    run: str
    step: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRef:
    """The effect of a use: its intent as it stands, and when it left and was settled, as far as it did."""

    intent: str
    state: str
    tool: str
    payload_digest: str
    committed_at: datetime
    revoked_reason: str | None
    left_at: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a trail: when, what, by whom, in which role, from where, and why or with which words."""

    at: datetime
    what: What
    by: str
    role: str = ""
    source: str = ""
    reason: str = ""
    step: StepRef | None = None
    effect: EffectRef | None = None
    stopped: tuple[StepRef, ...] = ()
    already_out: tuple[StepRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """A grant with its entries, the oldest first. `is_cut`: there are more of some kind than are listed."""

    now: datetime
    line: GrantLine
    entries: tuple[Entry, ...]
    is_cut: bool


def read_trail(name: str) -> Trail | None:
    """Read the trail of a grant; None where there is none of that name."""
    row = Grant.objects.select_related("run", "issuer").filter(name=name).first()
    if row is None:
        return None
    now = read_clock()
    (line,) = lines_of([row], now)
    uses = list(_uses(row))
    refusals = list(_refusals(row))
    parts = [
        list(_acts(row)),
        _used(row, uses),
        [_refused(row, each) for each in refusals],
        list(_calls(row, uses)),
        list(_late_votes(row, line, uses, {each.step_id for each in refusals}, now)),
    ]
    entries = [entry for part in parts for entry in part]
    if not any(entry.what is What.EXPIRED for entry in entries) and line.body["state"] == State.EXPIRED:
        entries.append(Entry(at=row.expires_at or row.pending_until or now, what=What.EXPIRED, by=CLOCK))
    entries.sort(key=lambda entry: entry.at)
    return Trail(now=now, line=line, entries=tuple(entries), is_cut=any(len(part) >= MAX_ROWS for part in parts))


def trail_body(trail: Trail) -> Object:
    """The trail as the API gives it."""
    return {"grant": trail.line.body, "items": [_entry_body(entry) for entry in trail.entries], "is_cut": trail.is_cut}


def _entry_body(entry: Entry) -> Object:
    effect = entry.effect
    told = None
    if effect is not None:
        moments = {name: rfc3339(getattr(effect, name)) for name in ("committed_at", "left_at", "settled_at")}
        texts = {name: getattr(effect, name) for name in ("intent", "state", "tool", "payload_digest")}
        told = {**texts, "revoked": effect.revoked_reason, **moments}
    return {
        "at": rfc3339(entry.at),
        "what": entry.what.value,
        "by": entry.by,
        "role": entry.role,
        "source": entry.source,
        "reason": entry.reason,
        "step": None if entry.step is None else _step_body(entry.step),
        "effect": told,
        "stopped": [_step_body(step) for step in entry.stopped],
        "already_out": [_step_body(step) for step in entry.already_out],
    }


def _step_body(step: StepRef) -> Object:
    return {"run": step.run, "step": step.step, "epoch": step.epoch}


def _acts(grant: Grant) -> Iterator[Entry]:
    """What people and the clock did with it, from the audit: who, in which role, from where."""
    events = AuditEvent.objects.filter(kind="grant", subject=grant.name, verb__in=VERBS).order_by("id")[:MAX_ROWS]
    for event in events:
        what = VERBS[event.verb]
        after: Any = event.after or {}
        reason = VOIDED.get(event.reason, event.reason) if what is What.VOIDED else event.reason
        who: Any = {"at": event.at, "by": event.actor, "role": event.role, "source": event.source}
        stopped, out = (_reached(grant, after.get(name, ())) for name in ("stopped", "already_out"))
        yield Entry(what=what, reason=reason, stopped=stopped, already_out=out, **who)
        if after.get("state") == "live" and what in (What.ASKED, What.APPROVED):
            yield Entry(what=What.LIVE, **who)


def _reached(grant: Grant, lines: Iterable[Any]) -> tuple[StepRef, ...]:
    return tuple(StepRef(run=grant.run.name, step=each["step"], epoch=each["epoch"]) for each in lines)


def _uses(grant: Grant) -> Iterable[GrantUse]:
    found = GrantUse.objects.filter(grant=grant).select_related("commit", "commit__intent")
    return found.order_by("used_at", "id")[:MAX_ROWS]


def _used(grant: Grant, uses: list[GrantUse]) -> list[Entry]:
    """Each use with its effect."""
    left = dict(
        Delivery.objects.filter(commit__in=[use.commit_id for use in uses])
        .values_list("commit_id")
        .annotate(first=Min("admitted_at"))
    )
    return [
        Entry(
            at=use.used_at,
            what=What.USED,
            by="fencer",
            role="system",
            step=_step_of(grant, use.commit),
            effect=_effect_of(use.commit, left.get(use.commit_id)),
        )
        for use in uses
    ]


def _step_of(grant: Grant, commit: Commit) -> StepRef:
    return StepRef(run=grant.run.name, step=commit.step_name, epoch=commit.epoch)


def _effect_of(commit: Commit, left_at: datetime | None) -> EffectRef:
    intent = commit.intent
    return EffectRef(
        intent=str(intent.id),
        state=intent.state,
        tool=commit.tool,
        payload_digest=commit.payload_id,
        committed_at=commit.committed_at,
        revoked_reason=commit.closed_reason,
        left_at=left_at,
        settled_at=intent.settled_at,
    )


def _refusals(grant: Grant) -> Iterable[GrantRefusal]:
    return GrantRefusal.objects.filter(grant=grant).select_related("step").order_by("refused_at", "id")[:MAX_ROWS]


def _refused(grant: Grant, row: GrantRefusal) -> Entry:
    is_use = row.what == GrantRefusal.What.USE
    step = None if row.step is None else StepRef(run=grant.run.name, step=row.step.name, epoch=row.step.epoch)
    return Entry(
        at=row.refused_at,
        what=What.REFUSED_USE if is_use else What.REFUSED_ACT,
        by=row.actor,
        role=row.role,
        source=row.source,
        reason=row.reason if is_use else f"{row.what}: {row.reason}",
        step=step,
    )


def _calls(grant: Grant, uses: list[GrantUse]) -> Iterator[Entry]:
    """Calls that the gateway refused on steps that it let through."""
    places = Q(pk__in=[])
    for use in uses:
        places |= Q(step=use.commit.step_name, epoch=use.commit.epoch)
    rows = SideLogRow.objects.filter(
        places, kind="admission", run=grant.run.name, recorded_at__gte=grant.issued_at
    ).select_related("by")
    for row in rows.order_by("recorded_at", "id")[:MAX_ROWS] if uses else ():
        yield Entry(
            at=row.recorded_at,
            what=What.REFUSED_CALL,
            by="" if row.by is None else row.by.name,
            role="" if row.by is None else row.by.role,
            reason=f"{row.reason}: {row.detail}" if row.detail else row.reason,
            step=StepRef(run=grant.run.name, step=row.step or "", epoch=row.epoch or 0),
        )


def _late_votes(
    grant: Grant, line: GrantLine, uses: list[GrantUse], refused: set[Any], now: datetime
) -> Iterator[Entry]:
    """Votes that came too late: of the granted path after its end, and of the others after what it let through."""
    used = {use.commit.step_id: use.commit for use in uses}
    scope = Q(step__run_id=grant.run_id, step__epoch=grant.epoch, digest__isnull=False)
    end = _end_of(grant, line, uses, now)
    about = Q(step__in=list(used), is_late=True) & ~Q(path=grant.path)
    if end is not None:
        after = Q(path=grant.path, received_at__gte=end)
        after &= Q(step__name=grant.step_name) if grant.step_name else Q()
        after &= Q(tool=grant.tool) if grant.tool else Q()
        about |= after & ~Q(step__in=[*used, *(each for each in refused if each is not None)])
    votes = list(
        Vote.objects.filter(scope, about).select_related("step", "by").order_by("received_at", "id")[:MAX_ROWS]
    )
    sources = _sources(grant, votes)
    for vote in votes:
        place = StepRef(run=grant.run.name, step=vote.step.name, epoch=vote.step.epoch)
        yield Entry(
            at=vote.received_at,
            what=What.LATE_VOTE,
            by=vote.by.name,
            role=vote.by.role,
            source=sources.get((_subject(place), vote.path, vote.digest), ""),
            reason=_lateness(vote, used.get(vote.step_id)),
            step=place,
        )


def _lateness(vote: Vote, commit: Commit | None) -> str:
    if commit is None:
        return f"{vote.path} voted after the grant was over"
    if vote.digest == commit.fence_digest:
        return f"{vote.path} voted the same after it was let through: it bears witness"
    return f"{vote.path} voted something else after it was let through"


def _end_of(grant: Grant, line: GrantLine, uses: list[GrantUse], now: datetime) -> datetime | None:
    """The moment from which it let nothing more through; None while it does."""
    ends = [grant.revoked_at, grant.voided_at, grant.expired_at, grant.expires_at or grant.pending_until]
    if grant.uses >= grant.max_uses and uses:
        ends.append(uses[-1].used_at)
    if line.body["state"] in (State.LIVE, State.PENDING):
        return None
    return min((at for at in ends if at is not None and at <= now), default=None)


def _sources(grant: Grant, votes: list[Vote]) -> dict[tuple[str, str, str | None], str]:
    """Where votes came from: the audit has it, the vote's row is small."""
    names = {_subject(StepRef(run=grant.run.name, step=vote.step.name, epoch=vote.step.epoch)) for vote in votes}
    events = AuditEvent.objects.filter(kind="step", subject__in=names, verb="vote") if names else ()
    told: list[tuple[AuditEvent, Any]] = [(event, event.after) for event in events]
    return {(event.subject, after["path"], after["digest"]): event.source for event, after in told}


def _subject(step: StepRef) -> str:
    return f"{step.run}/{step.step}/{step.epoch}"
