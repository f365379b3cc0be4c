"""Runs and their epochs."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import Nothing, RunsQuery, listed
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.queries import runs as run_queries
from fencing.services import runs
from fencing.services.requests import OpenRun, RestartRun

router = Router(tags=["runs"])
PLANNERS = frozenset({Role.PLANNER})


def open_runs(requests: Sequence[OpenRun], caller: Caller, _names: Names) -> Sequence[Result]:
    """Open a run: one request of the outside world and all the agent work that serves it (R1)."""
    return runs.open_runs(requests, caller)


def restart_run(requests: Sequence[RestartRun], caller: Caller, _names: Names) -> Sequence[Result]:
    """Open a fresh epoch and close every older one: a planner restarted or took over (R2, R3)."""
    return [runs.restart_run(request, caller) for request in requests]


def list_runs(asked: RunsQuery, caller: Caller, _names: Names) -> Result:
    """List runs, newest first."""
    return listed(asked, lambda filters, page: run_queries.list_runs(filters, page, caller))


def get_run(_asked: Nothing, caller: Caller, names: Names) -> Result:
    """Read one run."""
    return run_queries.get_run(names["run"], caller)


write(
    router,
    "/runs",
    Write(roles=PLANNERS, form=Form(OpenRun), service=open_runs, has_bulk=True),
    answer=ref("run"),
    is_creation=True,
)
write(
    router,
    "/epochs",
    Write(roles=PLANNERS, form=Form(RestartRun), service=restart_run),
    answer=ref("opening"),
    is_creation=True,
)
read(
    router,
    "/runs",
    Read(roles=ANY_BUT_PATH, form=Form(RunsQuery, is_query=True), query=list_runs),
    answer=list_of("run"),
)
read(
    router, "/runs/{run}", Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_run), answer=ref("run")
)
