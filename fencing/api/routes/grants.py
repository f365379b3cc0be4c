"""Break-glass grants."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.access import ANY_BUT_PATH, PEOPLE, WATCHERS
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import GrantsQuery, Nothing, listed
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.queries import grants as grant_queries
from fencing.queries.trails import read_trail, trail_body
from fencing.services import grants
from fencing.services.requests import DecideGrant, IssueGrant

router = Router(tags=["grants"])
ONCALL = frozenset({Role.ONCALL})


def issue_grant(requests: Sequence[IssueGrant], caller: Caller, _names: Names) -> Sequence[Result]:
    """Let one path act alone, named, expiring and scoped to an epoch (G1, G4)."""
    return [grants.issue_grant(request, caller) for request in requests]


def approve_grant(requests: Sequence[DecideGrant], caller: Caller, names: Names) -> Sequence[Result]:
    """Approve a pending grant of somebody else (G6)."""
    return [grants.approve_grant(names["name"], request, caller) for request in requests]


def revoke_grant(requests: Sequence[DecideGrant], caller: Caller, names: Names) -> Sequence[Result]:
    """End a grant at once, and tell truthfully what that stopped and what is already out (G5)."""
    return [grants.revoke_grant(names["name"], request, caller) for request in requests]


def review_grant(requests: Sequence[DecideGrant], caller: Caller, names: Names) -> Sequence[Result]:
    """Review what somebody else's grant let through, within 24 hours (G6)."""
    return [grants.review_grant(names["name"], request, caller) for request in requests]


def list_grants(asked: GrantsQuery, caller: Caller, _names: Names) -> Result:
    """List grants, newest first."""
    return listed(asked, lambda filters, page: grant_queries.list_grants(filters, page, caller))


def get_trail(_asked: Nothing, _caller: Caller, names: Names) -> Result:
    """Read the trail of a grant: who did what with it, each use with its effect, and what was refused to it (G8)."""
    trail = read_trail(names["name"])
    if trail is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no grant {names['name']}.")
    return Answer(status=OK, body=trail_body(trail))


def get_grant(_asked: Nothing, caller: Caller, names: Names) -> Result:
    """Read one grant."""
    return grant_queries.get_grant(names["name"], caller)


write(
    router,
    "/grants",
    Write(roles=ONCALL, form=Form(IssueGrant), service=issue_grant),
    answer=ref("grant"),
    is_creation=True,
)
read(
    router,
    "/grants",
    Read(roles=ANY_BUT_PATH, form=Form(GrantsQuery, is_query=True), query=list_grants),
    answer=list_of("grant"),
)
read(
    router,
    "/grants/{name}",
    Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_grant),
    answer=ref("grant"),
)
write(
    router,
    "/grants/{name}/approve",
    Write(roles=ONCALL, form=Form(DecideGrant), service=approve_grant),
    answer=ref("grant"),
)
write(
    router,
    "/grants/{name}/revoke",
    Write(roles=ONCALL, form=Form(DecideGrant), service=revoke_grant),
    answer=ref("grant"),
)
write(
    router,
    "/grants/{name}/review",
    Write(roles=PEOPLE, form=Form(DecideGrant), service=review_grant),
    answer=ref("grant"),
)
read(
    router,
    "/grants/{name}/trail",
    Read(roles=WATCHERS, form=Form(Nothing, is_query=True), query=get_trail),
    answer=ref("trail"),
)
