"""What belongs to one thing of which evidence is taken (U4): rows, actions, prose, and what the audit tells of it.

A kind of evidence is a function from an id to a dossier, registered by `@evidence("kind")`. Packing, sealing, checking,
the API, the page and the command follow by themselves (`fencing/queries/evidence.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Q

from fencing.models import (
    AttemptEpoch,
    Commit,
    Compensation,
    CompensationApproval,
    CompensationDelivery,
    CompensationOutcome,
    CompensationRelease,
    Delivery,
    EpochOpening,
    Fragment,
    Grade,
    GradeFinding,
    Grant,
    GrantApproval,
    GrantRefusal,
    GrantReview,
    GrantUse,
    Incident,
    Intent,
    Outcome,
    SideLogRow,
    Spend,
    Step,
    Verdict,
    Vote,
)
from fencing.models.facts import read_clock
from fencing.protocol.explain import explain_grant, explain_step
from fencing.protocol.explain.grades import explain_attempt
from fencing.queries.grants import lines_of
from fencing.queries.trace import Trace, read_trace, story_of
from fencing.queries.trails import read_trail, trail_body

MAX_ROWS: Final = 500

Rows = Iterable[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Everything about one thing.

    `facts` become JSON files: rows of models (written column by column), or plain values. `subjects` are what the
    audit's rows about it are found by: kind and subject. `actions` are payload digests, `prose` references into cold
    storage with what they are of. `tools` name the tools whose definitions belong to it.
    """

    sentence: str
    facts: Mapping[str, Any]
    subjects: tuple[tuple[str, str], ...]
    actions: frozenset[str] = frozenset()
    prose: Mapping[str, str] = field(default_factory=dict)
    tools: frozenset[str] = frozenset()


Gather = Callable[[str], Dossier | None]
KINDS: Final[dict[str, Gather]] = {}


def evidence(kind: str) -> Callable[[Gather], Gather]:
    """Register how a kind of evidence is gathered; the function gives None where there is no such thing."""

    def register(gather: Gather) -> Gather:
        KINDS[kind] = gather
        return gather

    return register


@evidence("step")
def of_step(name: str) -> Dossier | None:
    """Gather a step at one epoch: `run/step/epoch`, as the audit names it."""
    run, _, rest = name.partition("/")
    step, _, epoch = rest.rpartition("/")
    if not (run and step and epoch.isascii() and epoch.isdecimal() and len(epoch) < 16):  # noqa: PLR2004 - of a number
        return None
    trace = read_trace(run, step, int(epoch))
    if trace is None or trace.step.row["epoch"] != int(epoch):
        return None
    row = Step.objects.select_related("run").get(pk=trace.step.id)
    commits = list(Commit.objects.filter(step_id=row.id))
    parts = _of_commits(commits)
    grants = [tried.body["name"] for tried in trace.grants]
    votes = list(Vote.objects.filter(step_id=row.id).order_by("received_at", "id")[:MAX_ROWS])
    prose = {vote.rationale_ref: f"rationale of {vote.path}" for vote in votes if vote.rationale_ref}
    if row.context_ref:
        prose[row.context_ref] = "context of the proposal"
    payloads = {vote.payload_id for vote in votes} | {row.pinned_payload_id} | {commit.payload_id for commit in commits}
    return Dossier(
        sentence=explain_step(story_of(trace)).text,
        facts={
            "step": [row],
            "run": [row.run],
            "votes": votes,
            "token": _claims(trace),
            "grants": [tried.body for tried in trace.grants],
            "refused": list(SideLogRow.objects.filter(run=run, step=step).order_by("-recorded_at", "-id")[:MAX_ROWS]),
            "incidents": list(Incident.objects.filter(step_id=row.id)[:MAX_ROWS]),
            "verdicts": list(Verdict.objects.filter(step_id=row.id)[:MAX_ROWS]),
            "epochs": list(EpochOpening.objects.filter(run=row.run, step_name=step)[:MAX_ROWS]),
            **parts.facts,
        },
        subjects=(
            ("step", name),
            *(("grant", grant) for grant in grants),
            *(("incident", str(incident.id)) for incident in trace.incidents),
            *parts.subjects,
        ),
        actions=frozenset(str(digest) for digest in payloads if digest),
        prose=prose,
        tools=frozenset({vote.tool for vote in votes if vote.tool} | {commit.tool for commit in commits}),
    )


@evidence("grant")
def of_grant(name: str) -> Dossier | None:
    """Gather a grant: its trail, who decided it, and every effect that it let through."""
    trail = read_trail(name)
    if trail is None:
        return None
    row = Grant.objects.select_related("run").get(name=name)
    uses = list(GrantUse.objects.filter(grant=row).select_related("commit").order_by("used_at", "id")[:MAX_ROWS])
    commits = [use.commit for use in uses]
    parts = _of_commits(commits)
    steps = [f"{row.run.name}/{commit.step_name}/{commit.epoch}" for commit in commits]
    return Dossier(
        sentence=_of_grant(row),
        facts={
            "grant": [row],
            "run": [row.run],
            "trail": trail_body(trail),
            "approvals": list(GrantApproval.objects.filter(grant=row)[:MAX_ROWS]),
            "reviews": list(GrantReview.objects.filter(grant=row)[:MAX_ROWS]),
            "uses": uses,
            "refusals": list(GrantRefusal.objects.filter(grant=row)[:MAX_ROWS]),
            **parts.facts,
        },
        subjects=(("grant", name), *(("step", step) for step in steps), *parts.subjects),
        actions=frozenset(commit.payload_id for commit in commits),
        tools=frozenset({commit.tool for commit in commits} | ({row.tool} if row.tool else set())),
    )


@evidence("compensation")
def of_compensation(name: str) -> Dossier | None:
    """Gather a compensation, by its id: what it undoes, under which authority that left, who decided, what was sent."""
    try:
        uuid.UUID(name)
    except ValueError:
        return None
    row = Compensation.objects.select_related("run", "intent", "effect", "incident", "payload").filter(pk=name).first()
    if row is None:
        return None
    commits = (
        [] if row.intent is None else list(Commit.objects.filter(intent=row.intent).order_by("committed_at")[:MAX_ROWS])
    )
    parts = _of_commits(commits)
    sent = list(CompensationDelivery.objects.filter(compensation=row).order_by("admitted_at", "id")[:MAX_ROWS])
    about = {each for each in (row.incident, row.effect) if each is not None}
    named = [("compensation", name), *(("delivery", str(each.id)) for each in sent)]
    if row.incident is not None:
        named.append(("incident", str(row.incident.id)))
    payloads = {row.payload_id, *(commit.payload_id for commit in commits)} | {each.payload_id for each in sent}
    return Dossier(
        sentence=f"The undoing of an effect of {row.tool}, for {row.cause}: {row.state}.",
        facts={
            "compensation": [row],
            "run": [row.run] if row.run else [],
            "about": sorted(about, key=lambda each: type(each).__name__),
            "approvals": list(CompensationApproval.objects.filter(compensation=row)[:MAX_ROWS]),
            "releases": list(CompensationRelease.objects.filter(compensation=row)[:MAX_ROWS]),
            "undoing": sent,
            "undone": list(CompensationOutcome.objects.filter(delivery__in=sent).order_by("recorded_at")[:MAX_ROWS]),
            **parts.facts,
        },
        subjects=(*named, *parts.subjects),
        actions=frozenset(str(digest) for digest in payloads if digest),
        tools=frozenset({row.tool} | ({row.payload.tool} if row.payload else set())),
    )


@evidence("grade")
def of_grade(attempt: str) -> Dossier | None:
    """Gather the published grade of an attempt, by the attempt's name: its fragments, epochs, spend and findings."""
    row = Grade.objects.select_related("attempt__lane").filter(attempt__name=attempt).first()
    if row is None:
        return None
    job = row.attempt
    fragments = list(Fragment.objects.filter(id__in=row.fragments).order_by("seq"))
    incidents = list(Incident.objects.filter(kind="lane_halted", lane=job.lane.name)[:MAX_ROWS])
    grade = row.published_at, row.mean
    dropped = Fragment.objects.filter(attempt=job).exclude(epoch=row.epoch).count()
    told = explain_attempt(
        epoch=row.epoch, expected=job.expected, missing=(), grade=grade, dropped=dropped, now=read_clock()
    )
    return Dossier(
        sentence=told.text,
        facts={
            "grade": [row],
            "attempt": [job],
            "lane": [job.lane],
            "fragments": fragments,
            "epochs": list(AttemptEpoch.objects.filter(attempt=job).order_by("number")[:MAX_ROWS]),
            "findings": list(GradeFinding.objects.filter(attempt=job)[:MAX_ROWS]),
            "spend": list(Spend.objects.filter(attempt=job).order_by("id")[:MAX_ROWS]),
            "refused": list(SideLogRow.objects.filter(attempt=attempt).order_by("-recorded_at", "-id")[:MAX_ROWS]),
            "incidents": incidents,
        },
        subjects=(("attempt", attempt), *(("incident", str(incident.id)) for incident in incidents)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What hangs on commits: intents, deliveries, outcomes; and their names in the audit."""

    facts: Mapping[str, Any]
    subjects: tuple[tuple[str, str], ...]


def _of_commits(commits: list[Commit]) -> _Parts:
    intents = list(Intent.objects.filter(id__in=[commit.intent_id for commit in commits]))
    deliveries = list(Delivery.objects.filter(Q(intent__in=intents) | Q(commit__in=commits)).order_by("id")[:MAX_ROWS])
    outcomes = list(Outcome.objects.filter(delivery__in=deliveries).order_by("recorded_at", "id")[:MAX_ROWS])
    named: list[tuple[str, list[uuid.UUID]]] = [
        ("commit", [commit.id for commit in commits]),
        ("intent", [intent.id for intent in intents]),
        ("delivery", [delivery.id for delivery in deliveries]),
    ]
    return _Parts(
        facts={"commits": commits, "intents": intents, "deliveries": deliveries, "outcomes": outcomes},
        subjects=tuple((kind, str(each)) for kind, ids in named for each in ids),
    )


def _claims(trace: Trace) -> Any:
    """What the commit's token says. The token itself opens a delivery, and goes into no pack."""
    claims = trace.token
    return claims.as_payload() if claims is not None and hasattr(claims, "as_payload") else None


def _of_grant(row: Grant) -> str:
    now = read_clock()
    (line,) = lines_of([row], now)
    return explain_grant(line.facts, now=now).text
