"""Proving that stored states equal those recomputed from the facts: over one snapshot, in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Max, Q

from fencing.models import Claim, Grant, GrantApproval, GrantUse, Intent, Run, Step
from fencing.models.bodies import grant_as_pure
from fencing.models.facts import Facts, StepFacts, read_facts
from fencing.protocol import fence, intents, recompute

BATCH = 500
COUNTS_APART = """
WITH counted AS (
    SELECT name, hour, count FROM fence_counts(timestamptz 'epoch' + interval '1 hour')
    UNION ALL SELECT name, NULL, count FROM fence_counts(NULL)),
facts AS MATERIALIZED (SELECT name, hour, count FROM fence_plain_counts()),
plain AS (
    SELECT name, hour, count FROM facts WHERE hour IS NOT NULL
    UNION ALL SELECT name, NULL, sum(count)::bigint FROM facts GROUP BY name)
SELECT name, nullif(hour, '-infinity'), sum(counted), sum(plain) FROM (
    SELECT name, coalesce(hour, '-infinity') AS hour, count AS counted, 0 AS plain FROM counted
    UNION ALL SELECT name, coalesce(hour, '-infinity'), 0, count FROM plain) AS both_counts
GROUP BY 1, 2 HAVING sum(counted) <> sum(plain) ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A stored state that the facts contradict."""

    kind: str
    subject: str
    says: str


@dataclass(slots=True)
class Tallied:
    """How many of each kind were looked at."""

    runs: int = 0
    steps: int = 0
    intents: int = 0
    grants: int = 0


def find_faults(
    tallied: Tallied, progress: Callable[[Tallied], None] = lambda _tallied: None, *, sample: int | None = None
) -> Iterator[Fault]:
    """Compare every stored state with the facts; yields what does not agree. Counts into `tallied` as it goes.

    With `sample` only so many runs, drawn by chance, with all that is theirs: for a history of many years. The running
    counts are about the whole, and are compared without one alone.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        drawn = None if sample is None else list(Run.objects.order_by("?").values_list("id", flat=True)[:sample])
        theirs = Q() if drawn is None else Q(run_id__in=drawn)
        yield from _runs(tallied, Q() if drawn is None else Q(id__in=drawn))
        yield from _grants(tallied, theirs)
        yield from _steps(tallied, progress, theirs)
        yield from _intents(tallied, progress, theirs)
        if sample is None:
            yield from _counts()


def _runs(tallied: Tallied, drawn: Q) -> Iterator[Fault]:
    starts = Q(openings__kind__in=["start", "restart"])
    runs = (
        Run.objects.filter(drawn)
        .annotate(highest=Max("openings__number"), opened=Max("openings__number", filter=starts))
        .values_list("name", "epoch", "counter", "opened", "highest")
    )
    for name, epoch, counter, opened, highest in runs.iterator(BATCH):
        tallied.runs += 1
        if (epoch, counter) != (opened, highest):
            yield Fault(
                kind="run", subject=name, says=f"stored epoch {epoch}, counter {counter}; opened {opened}, {highest}"
            )


def _grants(tallied: Tallied, drawn: Q) -> Iterator[Fault]:
    found = Grant.objects.filter(drawn).annotate(used=Count("used_by"), reviews=Count("review", distinct=True))
    columns = ("name", "uses", "used", "reviewed_at", "reviews")
    for name, uses, used, reviewed_at, reviews in found.values_list(*columns).iterator(BATCH):
        tallied.grants += 1
        if uses != used:
            yield Fault(kind="grant", subject=name, says=f"stored {uses} uses, {used} are on record")
        if (reviewed_at is not None) != bool(reviews):
            yield Fault(kind="grant", subject=name, says=f"stored as reviewed at {reviewed_at}, {reviews} on record")


def _steps(tallied: Tallied, progress: Callable[[Tallied], None], drawn: Q) -> Iterator[Fault]:
    for ids in _batches(Step.objects.filter(drawn).order_by("id").values_list("id", "run_id")):
        facts = read_facts({str(run_id) for _, run_id in ids}, [str(step_id) for step_id, _ in ids])
        past = _past_grants([run_id for _, run_id in ids])
        taken = _contested_keys(facts)
        for step in facts.steps.values():
            tallied.steps += 1
            says = recompute.fault_of_step(_record(step, taken), past[step.run.id]) or _fault_of_authority(step)
            if says is not None:
                yield Fault(kind="step", subject=f"{step.run.name}/{step.name}/{step.epoch}", says=says)
        progress(tallied)


def _record(step: StepFacts, taken: set[tuple[str, str]]) -> recompute.StepRecord:
    row, commit = step.row, step.commit
    pure = step.pure()
    seen = {vote["digest"] for vote in step.votes if vote["digest"] and not vote["is_late"]} | {
        row["pinned_digest"]
    } - {None}
    keys = {row["key"] or intents.default_key(digest or "", row["occurrence"]) for digest in seen}
    return recompute.StepRecord(
        step=pure,
        rules=step.rules(),
        reason=row["reason"],
        is_proposed=row["proposed_at"] is not None,
        late=tuple(vote["is_late"] for vote in step.votes),
        decided_at=None if row["decided_at"] is None else datetime.fromisoformat(row["decided_at"]),
        closed_reason=None if commit is None else commit.closed_reason,
        authority=None if commit is None else commit.authority,
        run_epoch=step.run.epoch,
        is_key_taken=row["reason"] == fence.Reason.KEY_CONFLICT and any((step.run.id, key) in taken for key in keys),
    )


def _contested_keys(facts: Facts) -> set[tuple[str, str]]:
    """The (run, key) that served some digest: a conflict can only be about one of these."""
    return {
        (str(run_id), key)
        for run_id, key in Intent.objects.filter(run_id__in=[run.id for run in facts.runs.values()]).values_list(
            "run_id", "key"
        )
    }


def _fault_of_authority(step: StepFacts) -> str | None:
    commit = step.commit
    if commit is None or commit.authority == "grant":
        return None
    return (
        None
        if fence.paths_for(step.pure(), commit.fence_digest) >= set(step.rules().required_paths)
        else "committed by agreement without every vote"
    )


def _past_grants(run_ids: list[Any]) -> dict[str, list[recompute.PastGrant]]:
    """All grants of these runs, with the moments of their uses and approvals."""
    found: dict[str, list[recompute.PastGrant]] = defaultdict(list)
    grants = Grant.objects.filter(run_id__in=run_ids)
    uses, approvals = defaultdict(list), defaultdict(list)
    for grant_id, at in GrantUse.objects.filter(grant__in=grants).values_list("grant_id", "used_at"):
        uses[grant_id].append(at)
    for grant_id, at in GrantApproval.objects.filter(grant__in=grants).values_list("grant_id", "approved_at"):
        approvals[grant_id].append(at)
    for grant in grants:
        past = recompute.PastGrant(
            grant=grant_as_pure(grant, approvals=0),
            issued_at=grant.issued_at,
            live_at=grant.live_at,
            used_at=tuple(uses[grant.id]),
            approved_at=tuple(approvals[grant.id]),
        )
        found[str(grant.run_id)].append(past)
    return found


def _intents(tallied: Tallied, progress: Callable[[Tallied], None], drawn: Q) -> Iterator[Fault]:
    for ids in _batches(Intent.objects.filter(drawn).order_by("id").values_list("id", "run_id")):
        wanted = [intent_id for intent_id, _ in ids]
        facts = Facts.of_intents([str(intent_id) for intent_id in wanted])
        for intent in facts.intents.values():
            tallied.intents += 1
            settled = intent.row["settled"]
            allowed = recompute.allowed_states(intent.pure(), settled=None if settled is None else settled["outcome"])
            if intents.State(intent.row["state"]) not in allowed:
                names = " or ".join(sorted(state.value for state in allowed))
                yield Fault(
                    kind="intent", subject=intent.id, says=f"stored {intent.row['state']}, the facts say {names}"
                )
        yield from _claims(wanted)
        progress(tallied)


def _claims(intent_ids: list[Any]) -> Iterator[Fault]:
    rows = (
        Claim.objects.filter(intent_id__in=intent_ids)
        .exclude(state="lost")
        .annotate(
            phase=F("step__phase"),
            branch=F("step__branch"),
            committed=F("step__commit__id"),
            closed_at=F("step__commit__closed_at"),
        )
    )
    trees = read_facts({str(claim.run_id) for claim in rows if claim.branch is not None}, ())
    runs = {run.id: run for run in trees.runs.values()}
    for claim in rows:
        stands = None if claim.committed is None else claim.closed_at is None
        gate = fence.TRUNK if claim.branch is None else runs[str(claim.run_id)].tree.gate(claim.branch)
        expected = recompute.claim_state(phase=fence.Phase(claim.phase), stands=stands, gate=gate)
        if claim.state != expected:
            yield Fault(
                kind="claim", subject=str(claim.id), says=f"stored {claim.state}, the facts say {expected.value}"
            )


def _counts() -> Iterator[Fault]:
    """Compare the running counts, hour by hour and in all, with the facts."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTS_APART)
        for name, hour, counted, plain in cursor.fetchall():
            when = "in all" if hour is None else f"in the hour from {hour.isoformat()}"
            yield Fault(kind="count", subject=name, says=f"counted {counted} {when}, the facts say {plain}")


def _batches(rows: Any) -> Iterator[list[tuple[Any, Any]]]:
    batch: list[tuple[Any, Any]] = []
    for row in rows.iterator(BATCH):
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
