"""Runs, as the API and the pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from fencing.models import EpochOpening, Grant, Run, Step, Vote
from fencing.models.bodies import grant_bodies, run_bodies
from fencing.models.facts import read_clock
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import Object
from fencing.queries.pages import Filters, Page, keep

COLUMNS = {"run": "name", "epoch": "epoch"}
MAX_OPENINGS = 100


def list_runs(filters: Filters, page: Page, caller: Caller) -> tuple[list[Object], str | None] | Refusal:
    """One page of runs, newest first; a planner sees those of its group (H1)."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    rows = Run.objects.filter(**keep(filters, COLUMNS))
    if caller.role is Role.PLANNER:
        rows = rows.filter(owner_group=caller.group)
    found, following = page.of(rows)
    return run_bodies(found), following


def get_run(name: str, caller: Caller) -> Result:
    """One run with its newest steps."""
    run = Run.objects.filter(name=name).first()
    if run is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no run {name}.")
    if caller.role is Role.PLANNER and run.owner_group != caller.group:
        return Refusal(code=Code.NOT_YOUR_RUN, detail=f"Run {name} belongs to another planner's key.")
    return Answer(status=OK, body=run_bodies([run])[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run in a list: how many of its steps are in each phase, and how many epochs were opened."""

    name: str
    epoch: int
    counter: int
    opened_at: datetime
    labels: dict[str, str]
    phases: dict[str, int]
    openings: int

    @property
    def steps(self) -> int:
        """How many steps it has, each epoch of a step counted."""
        return sum(self.phases.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """A step in its run's list."""

    name: str
    epoch: int
    phase: str
    reason: str | None
    tool: str | None
    difference: str | None
    proposed_at: datetime | None
    decided_at: datetime | None
    opened_at: datetime


def list_run_lines(prefix: str, page: Page) -> tuple[list[RunLine], str | None] | Refusal:
    """One page of runs whose names begin with `prefix`, newest first, in three queries."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    rows = Run.objects.filter(name__startswith=prefix) if prefix else Run.objects.all()
    found, following = page.of(rows)
    phases: dict[Any, dict[str, int]] = {run.id: {} for run in found}
    for run_id, phase, count in (
        Step.objects.filter(run__in=found).values_list("run_id", "phase").annotate(n=Count("pk"))
    ):
        phases[run_id][phase] = count
    openings = dict(EpochOpening.objects.filter(run__in=found).values_list("run_id").annotate(n=Count("pk")))
    lines = [
        RunLine(
            name=run.name,
            epoch=run.epoch,
            counter=run.counter,
            opened_at=run.opened_at,
            labels=run.labels,
            phases=phases[run.id],
            openings=openings.get(run.id, 0),
        )
        for run in found
    ]
    return lines, following


def list_step_lines(run_name: str, phase: str, page: Page) -> tuple[list[StepLine], str | None] | Refusal:
    """One page of a run's steps, the newest first, of one phase where one is named."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    rows = Step.objects.filter(run__name=run_name)
    found, following = page.of(rows.filter(phase=phase) if phase else rows)
    tools = dict(Vote.objects.filter(step__in=found, tool__isnull=False).values_list("step_id", "tool"))
    lines = [
        StepLine(
            name=step.name,
            epoch=step.epoch,
            phase=step.phase,
            reason=step.reason,
            tool=step.pinned_tool or tools.get(step.id),
            difference=step.difference,
            proposed_at=step.proposed_at,
            decided_at=step.decided_at,
            opened_at=step.opened_at,
        )
        for step in found
    ]
    return lines, following


def read_run(name: str) -> tuple[Run, dict[str, int], list[EpochOpening], list[Object]] | None:
    """One run: itself, its steps by phase, its newest openings, its newest grants as objects."""
    run = Run.objects.filter(name=name).select_related("owner").first()
    if run is None:
        return None
    phases = dict(Step.objects.filter(run=run).values_list("phase").annotate(n=Count("pk")))
    openings = EpochOpening.objects.filter(run=run).select_related("by", "person").order_by("-number")[:MAX_OPENINGS]
    grants = Grant.objects.filter(run=run).select_related("run", "issuer").order_by("-issued_at", "-id")[:MAX_OPENINGS]
    return run, phases, list(openings), grant_bodies(list(grants), read_clock())
