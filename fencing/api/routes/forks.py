"""Forks: speculative siblings, reconciled once."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.calls import Names, Write
from fencing.api.document import ref
from fencing.api.endpoints import write
from fencing.api.forms import Form
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.services import forks
from fencing.services.requests import OpenFork, ReconcileFork

router = Router(tags=["forks"])
PLANNERS = frozenset({Role.PLANNER})


def open_fork(requests: Sequence[OpenFork], caller: Caller, _names: Names) -> Sequence[Result]:
    """Open a fork of two branches or more, on the trunk or in a branch of another fork (B1)."""
    return [forks.open_fork(request, caller) for request in requests]


def reconcile_fork(requests: Sequence[ReconcileFork], caller: Caller, _names: Names) -> Sequence[Result]:
    """Let one branch win, or none; the rest lose in the same moment (B2, B4). Told is what that cancels and undoes."""
    return [forks.reconcile_fork(request, caller) for request in requests]


write(
    router,
    "/forks",
    Write(roles=PLANNERS, form=Form(OpenFork), service=open_fork),
    answer=ref("fork"),
    is_creation=True,
)
write(
    router,
    "/forks/reconcile",
    Write(roles=PLANNERS, form=Form(ReconcileFork), service=reconcile_fork),
    answer=ref("reconciliation"),
)
