"""Incidents: what a person must look at."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import IncidentsQuery, Nothing, listed
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.queries import incidents as incident_queries
from fencing.services import incidents
from fencing.services.requests import ResolveIncident

router = Router(tags=["incidents"])
REVIEWERS = frozenset({Role.REVIEWER})


def list_incidents(asked: IncidentsQuery, caller: Caller, _names: Names) -> Result:
    """List incidents, newest first."""
    return listed(asked, lambda filters, page: incident_queries.list_incidents(filters, page, caller))


def get_incident(_asked: Nothing, caller: Caller, names: Names) -> Result:
    """Read one incident."""
    found = incident_queries.get_incident(names["incident"], caller)
    return found if isinstance(found, Refusal) else Answer(status=OK, body=found)


def resolve_incident(requests: Sequence[ResolveIncident], caller: Caller, names: Names) -> Sequence[Result]:
    """Close an incident, with a reason."""
    return [incidents.resolve_incident(names["incident"], request, caller) for request in requests]


read(
    router,
    "/incidents",
    Read(roles=ANY_BUT_PATH, form=Form(IncidentsQuery, is_query=True), query=list_incidents),
    answer=list_of("incident"),
)
read(
    router,
    "/incidents/{incident}",
    Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_incident),
    answer=ref("incident"),
)
write(
    router,
    "/incidents/{incident}/resolve",
    Write(roles=REVIEWERS, form=Form(ResolveIncident), service=resolve_incident),
    answer=ref("incident"),
)
