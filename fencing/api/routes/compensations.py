"""Compensations: what would undo an effect that should not have stayed."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import CompensationsQuery, Nothing, listed
from fencing.gateway import compensating
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.queries import compensations as compensation_queries
from fencing.services.requests import (
    ApproveCompensation,
    AskCompensation,
    RecordCompensation,
    ResolveCompensation,
    WaiveCompensation,
)

router = Router(tags=["compensations"])
REVIEWERS = frozenset({Role.REVIEWER})


def list_compensations(asked: CompensationsQuery, caller: Caller, _names: Names) -> Result:
    """List compensations, newest first."""
    return listed(asked, lambda filters, page: compensation_queries.list_compensations(filters, page, caller))


def get_compensation(_asked: Nothing, caller: Caller, names: Names) -> Result:
    """Read one compensation, with the exact action that would be sent."""
    found = compensation_queries.get_compensation(names["compensation"], caller)
    return found if isinstance(found, Refusal) else Answer(status=OK, body=found)


def ask_compensation(requests: Sequence[AskCompensation], caller: Caller, _names: Names) -> Sequence[Result]:
    """Ask that the effect of an intent, or what an incident is about, be undone (P1)."""
    return [compensating.ask(request, caller) for request in requests]


def approve_compensation(requests: Sequence[ApproveCompensation], caller: Caller, names: Names) -> Sequence[Result]:
    """Approve exactly what was shown, by its digest (P2, P3). One approval is one delivery."""
    return [compensating.approve(names["compensation"], request, caller) for request in requests]


def waive_compensation(requests: Sequence[WaiveCompensation], caller: Caller, names: Names) -> Sequence[Result]:
    """Let the effect stand, with a reason (P6)."""
    return [compensating.waive(names["compensation"], request, caller) for request in requests]


def record_compensation(requests: Sequence[RecordCompensation], caller: Caller, names: Names) -> Sequence[Result]:
    """Record what was done by hand, with evidence: for what has no compensator (P6)."""
    return [compensating.record(names["compensation"], request, caller) for request in requests]


def resolve_compensation(requests: Sequence[ResolveCompensation], caller: Caller, names: Names) -> Sequence[Result]:
    """Say, with evidence, whether an undoing in doubt happened (P5)."""
    return [compensating.resolve(names["compensation"], request, caller) for request in requests]


read(
    router,
    "/compensations",
    Read(roles=ANY_BUT_PATH, form=Form(CompensationsQuery, is_query=True), query=list_compensations),
    answer=list_of("compensation"),
)
read(
    router,
    "/compensations/{compensation}",
    Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_compensation),
    answer=ref("compensation"),
)
write(
    router,
    "/compensations",
    Write(roles=REVIEWERS, form=Form(AskCompensation), service=ask_compensation),
    answer=ref("compensation"),
    is_creation=True,
)
write(
    router,
    "/compensations/{compensation}/approve",
    Write(roles=REVIEWERS, form=Form(ApproveCompensation), service=approve_compensation),
    answer=ref("compensation"),
)
write(
    router,
    "/compensations/{compensation}/waive",
    Write(roles=REVIEWERS, form=Form(WaiveCompensation), service=waive_compensation),
    answer=ref("compensation"),
)
write(
    router,
    "/compensations/{compensation}/record",
    Write(roles=REVIEWERS, form=Form(RecordCompensation), service=record_compensation),
    answer=ref("compensation"),
)
write(
    router,
    "/compensations/{compensation}/resolve",
    Write(roles=REVIEWERS, form=Form(ResolveCompensation), service=resolve_compensation),
    answer=ref("compensation"),
)
