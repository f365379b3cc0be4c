"""Compensations for the pages: one with everything that it is decided by, the queue, and the branches of a run."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Value, When

from fencing.models import (
    Action,
    Branch,
    Claim,
    Commit,
    Compensation,
    CompensationApproval,
    CompensationRelease,
    Delivery,
    Fork,
    Grant,
    GrantApproval,
    Outcome,
    Step,
)
from fencing.models.registry import registry_at
from fencing.protocol import compensations, deciding
from fencing.protocol.compensations import State
from fencing.protocol.objects import rfc3339
from fencing.protocol.tools import ToolDefinition
from fencing.queries.pages import Page
from fencing.queries.tries import Try, tries_of_undoings

OPEN: Final = tuple(state.value for state in compensations.OPEN)
MOST_OTHERS: Final = 50
MOST_BRANCHES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A compensation as a list shows it."""

    row: Compensation
    action: Any
    approvals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """How the effect left, or may have: which commit let it through, under which authority, and what the tool said."""

    delivery: Delivery
    commit: Commit
    step: Step
    outcome: Outcome | None
    response: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One compensation with everything that a person decides by. `pure` is what the core judges.

    `called` is the tool that would be called, as it was when this was proposed; None where a person does it by hand.
    """

    row: Compensation
    action: Any
    effect_action: Any
    left: tuple[Left, ...]
    claims: tuple[Claim, ...]
    approvals: tuple[CompensationApproval, ...]
    releases: tuple[CompensationRelease, ...]
    tries: tuple[Try, ...]
    others: tuple[Line, ...]
    pure: deciding.Undoing
    called: ToolDefinition | None
    sensitive: tuple[str, ...]
    effect_sensitive: tuple[str, ...]


def open_lines(limit: int = 200) -> list[Line]:
    """What waits for a person or for a tool: in each run what was done last first (P7), the oldest run first."""
    rows = _rows().filter(state__in=OPEN)
    waiting = Case(
        When(state__in=("proposed", "in_doubt"), then=Value(0)), default=Value(1), output_field=IntegerField()
    )
    found = list(rows.order_by(waiting, "run_id", F("effect_at").desc(nulls_last=True), "id")[:limit])
    return _lines(found)


def list_lines(state: str, page: Page) -> tuple[list[Line], str | None]:
    """One page of all compensations, newest first; in one state where one is named."""
    rows = _rows().filter(state=state) if state else _rows()
    found, following = page.of(rows, at="proposed_at")
    return _lines(list(found)), following


def read_lines(ids: Sequence[uuid.UUID]) -> list[Line]:
    """These compensations, in the order in which they are to be undone."""
    return _lines(list(_rows().filter(pk__in=ids).order_by("run_id", F("effect_at").desc(nulls_last=True), "id")))


def count_waiting() -> tuple[int, datetime | None]:
    """How many wait for a person, and since when the oldest of them does."""
    rows = Compensation.objects.filter(state__in=("proposed", "in_doubt"))
    return rows.count(), rows.order_by("proposed_at").values_list("proposed_at", flat=True).first()


def read(compensation_id: uuid.UUID) -> Read | None:
    """One compensation; None where there is none."""
    row = _rows().select_related("incident", "effect", "requester").filter(pk=compensation_id).first()
    if row is None:
        return None
    approvals = CompensationApproval.objects.filter(compensation=row).select_related("person").order_by("approved_at")
    left = _left(row)
    claims = Claim.objects.filter(intent=row.intent).select_related("step__run").order_by("claimed_at")
    others = _rows().filter(run=row.run).exclude(pk=row.pk).order_by(F("effect_at").desc(nulls_last=True), "id")
    registry = registry_at(row.registry)
    called = None if row.payload is None else registry.get(row.payload.tool)
    effect_tool = registry.get(row.tool)
    return Read(
        row=row,
        action=_json(row.payload),
        effect_action=_effect_action(row, left),
        left=left,
        claims=tuple(claims) if row.intent else (),
        approvals=tuple(approvals),
        releases=tuple(row.releases.order_by("round")),
        tries=tries_of_undoings([row.pk]).get(row.pk, ()),
        others=tuple(_lines(list(others[:MOST_OTHERS]))) if row.run else (),
        pure=_pure(row, approvals),
        called=called,
        sensitive=called.sensitive if called else (),
        effect_sensitive=effect_tool.sensitive if effect_tool else (),
    )


def pure_of(rows: Sequence[Compensation]) -> dict[Any, deciding.Undoing]:
    """What the core judges each of these by."""
    return {
        row.pk: _pure(row, CompensationApproval.objects.filter(compensation=row).select_related("person"))
        for row in rows
    }


def _rows() -> QuerySet[Compensation]:
    return Compensation.objects.select_related("run", "payload", "intent", "decider")


def _lines(found: list[Compensation]) -> list[Line]:
    counted = (
        CompensationApproval.objects.filter(compensation__in=found, round=F("compensation__round"))
        .values_list("compensation_id")
        .annotate(count=Count("id"))
    )
    approvals = dict(counted)
    return [Line(row=row, action=_json(row.payload), approvals=approvals.get(row.pk, 0)) for row in found]


def _json(action: Action | None) -> Any:
    return None if action is None else json.loads(bytes(action.canonical))


def _left(row: Compensation) -> tuple[Left, ...]:
    if row.intent_id is None:
        return ()
    deliveries = (
        Delivery.objects.filter(intent_id=row.intent_id)
        .select_related("commit__step__run", "commit__grant__issuer", "payload", "by")
        .order_by("number")
    )
    found = []
    for each in deliveries:
        outcome = (
            Outcome.objects.filter(delivery=each, is_effective=True)
            .select_related("by", "person")
            .order_by("-recorded_at", "-id")
            .first()
        )
        response = None if outcome is None or outcome.response is None else json.loads(bytes(outcome.response))
        found.append(Left(delivery=each, commit=each.commit, step=each.commit.step, outcome=outcome, response=response))
    return tuple(found)


def _effect_action(row: Compensation, left: tuple[Left, ...]) -> Any:
    if left:
        return _json(left[-1].delivery.payload)
    digest = None if row.effect is None else row.effect.digest
    return _json(None if digest is None else Action.objects.filter(payload_digest=digest).first())


def _pure(row: Compensation, approvals: QuerySet[CompensationApproval]) -> deciding.Undoing:
    of_round = [each for each in approvals if each.round == row.round]
    is_known = row.effect_id is not None or row.intent is None or row.intent.state == "succeeded"
    return deciding.Undoing(
        state=State(row.state),
        digest=row.payload_id,
        needed=row.needed,
        approvals=tuple(deciding.Approval(person=each.person_id, digest=each.digest) for each in of_round),
        is_known=is_known,
        requester=row.requester_id,
        barred=_barred(row),
        decided=deciding.Decided(by=row.decider.get_username() if row.decider else None, at=rfc3339(row.decided_at)),
    )


def _barred(row: Compensation) -> frozenset[int]:
    if row.intent_id is None:
        return frozenset()
    grants = Grant.objects.filter(commits__deliveries__intent_id=row.intent_id)
    people = set(grants.values_list("issuer_id", flat=True))
    people |= set(GrantApproval.objects.filter(grant__in=grants).values_list("person_id", flat=True))
    return frozenset(people)


def people_who_may(undoing: deciding.Undoing, limit: int = 12) -> tuple[str, ...]:
    """Names of reviewers who may approve."""
    reviewers = User.objects.filter(groups__name="reviewer", is_active=True).order_by("username")
    return tuple(person.get_username() for person in reviewers[:100] if deciding.why_not(undoing, person.pk) is None)[
        :limit
    ]


# ---- the branches of a run ----


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLine:
    """A branch of a run: what became of it, how many steps lie in it, and what of it is out and not undone."""

    name: str
    state: str
    steps: int
    outstanding: int
    forks: tuple[ForkLine, ...]

    @property
    def is_rolled_back_with_effects(self) -> bool:
        """Whether it lost and something that it sent still stands (B4): never a clean success."""
        return self.state == "lost" and self.outstanding > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkLine:
    """A fork with its branches, each with the forks that lie in it."""

    fork: Fork
    branches: tuple[BranchLine, ...]


def read_forks(run_id: uuid.UUID) -> tuple[ForkLine, ...]:
    """The forks of a run as a tree."""
    forks = list(Fork.objects.filter(run_id=run_id).select_related("parent", "reconciled_by").order_by("opened_at"))
    if not forks:
        return ()
    branches = list(Branch.objects.filter(run_id=run_id).order_by("fork_id", "place")[:MOST_BRANCHES])
    steps: dict[Any, int] = dict(
        Step.objects.filter(run_id=run_id, branch__isnull=False).values_list("branch").annotate(count=Count("id"))
    )
    outstanding = _outstanding(run_id)

    def below(parent: object) -> tuple[ForkLine, ...]:
        return tuple(
            ForkLine(
                fork=fork,
                branches=tuple(
                    BranchLine(
                        name=branch.name,
                        state=branch.state,
                        steps=steps.get(branch.name, 0),
                        outstanding=outstanding.get(branch.name, 0),
                        forks=below(branch.pk),
                    )
                    for branch in branches
                    if branch.fork_id == fork.pk
                ),
            )
            for fork in forks
            if fork.parent_id == parent
        )

    return below(None)


def _outstanding(run_id: uuid.UUID) -> dict[str, int]:
    """How many effects of each branch are to be undone and are not: waived ones stand by a person's word."""
    owed = Claim.objects.filter(
        Q(intent__compensations__state__in=OPEN, intent__compensations__effect=None),
        run_id=run_id,
        state="lost",
        step__branch__isnull=False,
    )
    return dict(owed.values_list("step__branch").annotate(count=Count("intent", distinct=True)))
