"""The reviewer's inbox: steps on which the paths visibly disagreed, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, Subquery

from fencing.models import Step, Verdict, Vote
from fencing.models.steps import DIVERGED
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Filters, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One line of the inbox. `tools` and `models` name what the paths asked for and who they were, by path."""

    run: str
    step: str
    epoch: int
    phase: str
    reason: str
    difference: str | None
    decided_at: datetime
    tools: tuple[tuple[str, str], ...]
    models: tuple[tuple[str, str], ...]
    verdict: str | None
    is_replayed: bool


def list_divergences(filters: Filters, page: Page) -> tuple[list[Divergence], str | None] | Refusal:
    """One page. Filters: `run, reason, difference, tool, model, verdict` (`none` for those without), `since`."""
    if (refusal := page.fits(at="decided_at")) is not None:
        return refusal
    newest = Verdict.objects.filter(step=OuterRef("pk")).order_by("-given_at", "-id").values("verdict")[:1]
    later = Step.objects.filter(run=OuterRef("run"), name=OuterRef("name"), epoch__gt=OuterRef("epoch")).values("pk")[
        :1
    ]
    rows = (
        Step.objects.filter(_wanted(filters), reason__in=DIVERGED)
        .annotate(newest_verdict=Subquery(newest), later=Subquery(later))
        .select_related("run")
    )
    rows = _with_verdict(rows, filters.get("verdict"))
    found, following = page.of(rows, at="decided_at")
    return _lines(found), following


def _wanted(filters: Filters) -> Q:
    columns = {"run": "run__name", "reason": "reason", "difference": "difference", "since": "decided_at__gte"}
    wanted = Q(**{columns[name]: value for name, value in filters.items() if name in columns})
    for name in ("tool", "model"):
        if name in filters:
            # By step, as the index of votes goes: a list of every vote for a tool would grow with history.
            wanted &= Q(Exists(Vote.objects.filter(step=OuterRef("pk"), **{name: filters[name]})))
    return wanted


def _with_verdict(rows: Any, verdict: object) -> Any:
    if verdict is None:
        return rows
    return rows.filter(newest_verdict__isnull=True) if verdict == "none" else rows.filter(newest_verdict=verdict)


def _lines(found: Sequence[Any]) -> list[Divergence]:
    said: dict[Any, list[Vote]] = {}
    for vote in Vote.objects.filter(step__in=found, digest__isnull=False).order_by("path", "received_at", "id"):
        said.setdefault(vote.step_id, []).append(vote)
    return [
        Divergence(
            run=step.run.name,
            step=step.name,
            epoch=step.epoch,
            phase=step.phase,
            reason=step.reason,
            difference=step.difference,
            decided_at=step.decided_at,
            tools=tuple(dict.fromkeys((vote.path, vote.tool) for vote in said.get(step.pk, ()) if vote.tool)),
            models=tuple(dict.fromkeys((vote.path, vote.model) for vote in said.get(step.pk, ()) if vote.model)),
            verdict=step.newest_verdict,
            is_replayed=step.later is not None,
        )
        for step in found
    ]
