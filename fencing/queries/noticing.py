"""What people have to be told of now, from the facts: each source is one bounded read. The sweep raises and closes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User

from fencing.models import Compensation, Grant, Incident, Intent, Step, Target, ToolChange
from fencing.models.facts import read_clock
from fencing.models.steps import DIVERGED
from fencing.protocol.groups import Group
from fencing.protocol.notices import PLANS, Facts, Kind
from fencing.queries.sealing import last_finished, sealing_state
from fencing.queries.silence import silent_paths

MOST: Final = 200
ASKED: Final = frozenset(group for plan in PLANS.values() for groups in plan.asks for group in groups)
# A divergence is told once: each look goes back so far, and finds again what was told.
LOOKS_BACK: Final = timedelta(minutes=15)
ENDS_WITHIN: Final = timedelta(minutes=2)
LAG_S: Final = 60.0
INCIDENTS: Final = {
    Incident.Kind.LATE_DIVERGENCE: Kind.LATE_DIVERGENCE,
    Incident.Kind.LANDED_ESCAPE: Kind.LANDED_ESCAPE,
    Incident.Kind.LANE_HALTED: Kind.HALTED_LANE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One matter that stands, and that people have to be told of."""

    kind: Kind
    subject: str
    page: str
    facts: Facts
    asked_by: str = "system"


def divergences() -> list[Reason]:
    """Steps that diverged lately (F3)."""
    rows = (
        Step.objects.filter(reason__in=DIVERGED, decided_at__gte=read_clock() - LOOKS_BACK)
        .select_related("run")
        .order_by("-decided_at")[:MOST]
    )
    return [
        Reason(
            kind=Kind.DIVERGENCE,
            subject=f"{row.run.name}/{row.name}/{row.epoch}",
            page=f"step {row.run.name} {row.name} ?epoch={row.epoch}",
            facts={"run": row.run.name, "step": row.name},
        )
        for row in rows
    ]


def standing() -> tuple[list[Reason], frozenset[Kind]]:
    """Everything else that stands now, and the kinds of which that is all: others of them are over."""
    found: list[Reason] = []
    whole: set[Kind] = set()
    for kinds, read in SOURCES:
        reasons = read()
        found += reasons
        if len(reasons) < MOST:
            whole |= kinds
    return found, frozenset(whole)


def _incidents() -> list[Reason]:
    rows = Incident.objects.filter(state="open").select_related("run", "step").order_by("-opened_at", "-id")[:MOST]
    return [
        Reason(
            kind=INCIDENTS.get(Incident.Kind(row.kind), Kind.INCIDENT),
            subject=str(row.pk),
            page=f"incident {row.pk}",
            facts=_named(
                what=row.kind,
                run=row.run.name if row.run else None,
                step=row.step.name if row.step else None,
                lane=row.lane,
            ),
        )
        for row in rows
    ]


def _pending_grants() -> list[Reason]:
    now = read_clock()
    rows = list(
        Grant.objects.filter(
            due_at__isnull=False, live_at__isnull=True, revoked_at__isnull=True, voided_at__isnull=True,
            expired_at__isnull=True, pending_until__gt=now,
        ).select_related("issuer", "run").order_by("due_at")[:MOST]
    )  # fmt: skip
    oncall = _active(Group.ONCALL) if rows else set()
    found = []
    for row in rows:
        reason = Reason(
            kind=Kind.PENDING_APPROVAL,
            subject=f"grant {row.name}",
            page=f"grant {row.name}",
            facts=_named(
                what="grant", name=row.name, by=row.issuer.get_username(), until=_clock(row.pending_until, now)
            ),
            asked_by=row.issuer.get_username(),
        )
        found.append(reason)
        if not oncall - {row.issuer_id}:
            found.append(_nobody(reason))
    return found


def _pending_changes() -> list[Reason]:
    rows = list(
        ToolChange.objects.filter(closed_at__isnull=True, expires_at__gt=read_clock())
        .select_related("proposer")
        .order_by("id")[:MOST]
    )
    admins = _active(Group.ADMINISTRATOR) if rows else set()
    found = []
    for row in rows:
        by = row.proposer.get_username() if row.proposer else "the command line"
        reason = Reason(
            kind=Kind.PENDING_CHANGE,
            subject=f"change {row.pk}",
            page=f"tool_change {row.pk}",
            facts=_named(what="change_of_tool", name=row.tool, by=by),
            asked_by=by,
        )
        found.append(reason)
        if not admins - {row.proposer_id}:
            found.append(_nobody(reason))
    return found


def _compensations() -> list[Reason]:
    """What waits for reviewers (P3). A person who asked for one does not decide it."""
    rows = list(Compensation.objects.filter(state="proposed").select_related("run").order_by("proposed_at")[:MOST])
    reviewers = _active(Group.REVIEWER) if rows else set()
    found = []
    for row in rows:
        reason = Reason(
            kind=Kind.PENDING_COMPENSATION,
            subject=f"compensation {row.pk}",
            page=f"compensation {row.pk}",
            facts=_named(what="compensation", tool=row.tool, run=row.run.name if row.run else None),
        )
        found.append(reason)
        if len(reviewers) < row.needed:
            found.append(_nobody(reason))
    return found


def _nobody(reason: Reason) -> Reason:
    return Reason(
        kind=Kind.NO_APPROVER,
        subject=reason.subject,
        page=reason.page,
        facts={name: value for name, value in reason.facts.items() if name != "until"},
        asked_by=reason.asked_by,
    )


def _ending_grants() -> list[Reason]:
    now = read_clock()
    rows = Grant.objects.filter(
        due_at__gt=now, due_at__lte=now + ENDS_WITHIN, live_at__isnull=False, revoked_at__isnull=True,
        voided_at__isnull=True, expired_at__isnull=True,
    ).order_by("due_at")[:MOST]  # fmt: skip
    return [
        Reason(
            kind=Kind.EXPIRING_GRANT,
            subject=row.name,
            page=f"grant {row.name}",
            facts=_named(what="grant", name=row.name, until=_clock(row.expires_at, now)),
        )
        for row in rows
        if row.uses < row.max_uses and row.ttl_s > ENDS_WITHIN.total_seconds()
    ]


def _overdue_reviews() -> list[Reason]:
    rows = (
        Grant.objects.filter(review_due_at__lte=read_clock(), reviewed_at__isnull=True)
        .select_related("issuer")
        .order_by("review_due_at")[:MOST]
    )
    return [
        Reason(
            kind=Kind.OVERDUE_REVIEW,
            subject=row.name,
            page=f"grant {row.name}",
            facts=_named(what="grant", name=row.name, by=row.issuer.get_username()),
            asked_by=row.issuer.get_username(),
        )
        for row in rows
    ]


def _doubts() -> list[Reason]:
    rows = Intent.objects.filter(state="in_doubt").select_related("run").order_by("opened_at")[:MOST]
    return [
        Reason(
            kind=Kind.DOUBT,
            subject=str(row.pk),
            page=f"run {row.run.name}",
            facts=_named(tool=row.tool, run=row.run.name),
        )
        for row in rows
    ]


def _silent() -> list[Reason]:
    return [
        Reason(
            kind=Kind.SILENT_PATH,
            subject=silence.path,
            page=f"outage {silence.path}",
            facts={"path": silence.path, "steps": str(silence.steps)},
        )
        for silence in silent_paths()
    ]


def _sealing() -> list[Reason]:
    state, last = sealing_state(), last_finished()
    found = []
    if state.unsealed and state.lag_s > LAG_S:
        minutes = int(state.lag_s // 60)
        found.append(Reason(kind=Kind.SEALING_LAG, subject="audit", page="health", facts={"lag": f"{minutes} min"}))
    if last is not None and last.state == "failed":
        facts = {"fault": str(last.fault_kind or "fault"), "row": str(last.fault_row or "unknown")}
        found.append(Reason(kind=Kind.AUDIT_FAULT, subject=f"verification {last.pk}", page="health", facts=facts))
    return found


SOURCES: Final[tuple[tuple[frozenset[Kind], Callable[[], list[Reason]]], ...]] = (
    (frozenset({*INCIDENTS.values(), Kind.INCIDENT}), _incidents),
    (frozenset({Kind.EXPIRING_GRANT}), _ending_grants),
    (frozenset({Kind.OVERDUE_REVIEW}), _overdue_reviews),
    (frozenset({Kind.DOUBT}), _doubts),
    (frozenset({Kind.SILENT_PATH}), _silent),
    (frozenset({Kind.SEALING_LAG, Kind.AUDIT_FAULT}), _sealing),
    (
        frozenset({Kind.PENDING_APPROVAL, Kind.PENDING_CHANGE, Kind.PENDING_COMPENSATION, Kind.NO_APPROVER}),
        lambda: [*_pending_grants(), *_pending_changes(), *_compensations()],
    ),
)


def unreachable() -> tuple[Group, ...]:
    """The groups of which nobody who is active has a place outside these pages where they are told."""
    places = Target.objects.filter(ended_at__isnull=True, person__is_active=True)
    reached = set(places.values_list("person__groups__name", flat=True).distinct())
    return tuple(group for group in Group if group in ASKED and group.value not in reached)


def _active(group: Group) -> set[int]:
    return set(User.objects.filter(is_active=True, groups__name=group.value).values_list("pk", flat=True))


def _named(**facts: str | None) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value is not None}


def _clock(at: datetime | None, now: datetime) -> str:
    day = "" if at is None or at.date() == now.date() else f"{at:%Y-%m-%d} "
    return "" if at is None else f"{day}{at:%H:%M} UTC"
