"""The objects of answers that are read from rows: what services answer with after a write, and what reads give."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fencing.models.facts import Facts, outcome_body, pure_grant
from fencing.models.forks import Fork
from fencing.models.freezes import Freeze
from fencing.models.grants import Grant, GrantApproval, GrantReview
from fencing.models.incidents import Incident
from fencing.models.intents import Intent
from fencing.models.runs import Run
from fencing.models.steps import Step
from fencing.protocol import grants, objects

GRANT_TIMES = (
    "pending_until",
    "expires_at",
    "expired_at",
    "revoked_at",
    "voided_at",
    "review_due_at",
    "reviewed_at",
)
MAX_STEPS = 1000  # of a run, in its object: the newest; all of them are on its page


def run_bodies(runs: Sequence[Run]) -> list[objects.Object]:
    """The objects of runs, each with its newest steps and its forks, in two queries."""
    steps: dict[Any, list[objects.Object]] = defaultdict(list)
    ids = [run.id for run in runs if not run._state.adding]  # noqa: SLF001 - a run that was just noted has no steps yet
    rows = (
        Step.objects.filter(run_id__in=ids)
        .order_by("-opened_at", "-id")
        .values("run_id", "name", "epoch", "phase", "reason")
        if ids
        else []
    )
    for row in rows:
        if len(steps[row["run_id"]]) < MAX_STEPS:
            steps[row["run_id"]].append(
                {"step": row["name"], "epoch": row["epoch"], "phase": row["phase"], "reason": row["reason"]}
            )
    forks: dict[Any, list[str]] = defaultdict(list)
    for run_id, name in (
        Fork.objects.filter(run_id__in=ids).order_by("opened_at", "id").values_list("run_id", "name") if ids else ()
    ):
        forks[run_id].append(name)
    return [
        objects.run_object(
            run=run.name,
            epoch=run.epoch,
            counter=run.counter,
            labels=run.labels,
            steps=steps[run.id],
            forks=forks[run.id],
        )
        for run in runs
    ]


def grant_bodies(found: Sequence[Grant], now: datetime) -> list[objects.Object]:
    """The objects of grants, with their state at a moment of the database's clock."""
    approvals: dict[Any, list[objects.Object]] = defaultdict(list)
    for each in GrantApproval.objects.filter(grant__in=found).select_related("person").order_by("approved_at"):
        approvals[each.grant_id].append(
            {"by": each.person.get_username(), "at": objects.rfc3339(each.approved_at), "reason": each.reason}
        )
    reviews = {
        each.grant_id: {"by": each.person.get_username(), "at": objects.rfc3339(each.given_at), "reason": each.reason}
        for each in GrantReview.objects.filter(
            grant__in=[grant for grant in found if grant.reviewed_at is not None]
        ).select_related("person")
    }
    return [_grant_body(grant, approvals[grant.id], reviews.get(grant.id), now) for grant in found]


def grant_as_pure(grant: Grant, *, approvals: int) -> grants.Grant:
    """A grant's row as the pure core knows it, with the number of its approvals."""
    row: dict[str, Any] = {field.attname: getattr(grant, field.attname) for field in Grant._meta.concrete_fields}
    times = GRANT_TIMES
    plain = {name: None if row[name] is None else row[name].isoformat() for name in times}
    return pure_grant({**row, **plain, "approvals": approvals})


def _grant_body(
    grant: Grant, approvals: list[objects.Object], review: objects.Object | None, now: datetime
) -> objects.Object:
    row = {field.attname: getattr(grant, field.attname) for field in Grant._meta.concrete_fields}
    state = grants.state_of(grant_as_pure(grant, approvals=len(approvals)), now)
    return objects.grant_object(
        row=row,
        run=grant.run.name,
        state=state.value,
        issuer=grant.issuer.get_username(),
        approvals=approvals,
        review=review,
    )


def freeze_body(row: Freeze) -> objects.Object:
    """The object of a freeze. Its row must carry the run and the people (`select_related`)."""
    lifted = None
    if row.lifted_at is not None:
        by = row.lifted_by.get_username()
        lifted = {"by": by, "at": objects.rfc3339(row.lifted_at), "reason": row.lift_reason}
    return objects.freeze_object(
        freeze=str(row.id),
        tool=row.tool,
        run=row.run.name if row.run else None,
        reason=row.reason,
        by=row.set_by.get_username(),
        at=row.set_at,
        answer=row.answer,
        lifted=lifted,
    )


def intent_bodies(found: Sequence[Intent], facts: Facts) -> list[objects.Object]:
    """The objects of intents. `facts` must hold their rows (`facts.intents`) by id."""
    steps = {str(step.id): step for step in Step.objects.filter(claims__intent__in=found)}
    actions = {intent.id: _action_of(intent) for intent in found}
    return [_intent_body(intent, facts.intents[str(intent.id)].row, actions[intent.id], steps) for intent in found]


def _action_of(intent: Intent) -> Any:
    bound = intent.payload or next((commit.payload for commit in intent.commits.all()), None)
    return None if bound is None else json.loads(bytes(bound.canonical))


def _intent_body(intent: Intent, row: dict[str, Any], action: Any, steps: dict[str, Step]) -> objects.Object:
    claims = [
        {
            "step": steps[each["step_id"]].name,
            "epoch": steps[each["step_id"]].epoch,
            "branch": steps[each["step_id"]].branch,
            "state": each["state"],
        }
        for each in row["claims"]
    ]
    deliveries = [
        {
            "id": each["id"],
            "number": each["number"],
            "lease_until": objects.rfc3339(each["lease_until"]),
            "outcome": each["outcome"],
        }
        for each in row["deliveries"]
    ]
    bound = row["payload"] or next((commit.payload_id for commit in intent.commits.all()), None)
    return objects.intent_object(
        row={**row, "payload": bound},
        run=intent.run.name,
        action=action,
        claims=claims,
        deliveries=deliveries,
        outcome=outcome_body(row["settled"]),
        compensation=None if row["compensation"] is None else row["compensation"]["id"],
    )


def incident_bodies(found: Iterable[Incident]) -> list[objects.Object]:
    """The objects of incidents."""
    return [
        {
            "id": str(each.id),
            "kind": each.kind,
            "state": each.state,
            "run": each.run.name if each.run else None,
            "step": each.step.name if each.step else None,
            "intent": str(each.intent_id) if each.intent_id else None,
            "effect": str(each.effect_id) if each.effect_id else None,
            "lane": each.lane,
            "owner": each.owner.get_username() if each.owner else None,
            "note": each.note,
            "resources": each.resources,
        }
        for each in found
    ]
