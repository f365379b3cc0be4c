"""Freezes: nothing of a scope is admitted until another person lifts it."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import FreezesQuery, Nothing, listed
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.queries import freezes as freeze_queries
from fencing.services import freezes
from fencing.services.requests import DecideGrant, SetFreeze

router = Router(tags=["freezes"])
ONCALL = frozenset({Role.ONCALL})


def set_freeze(requests: Sequence[SetFreeze], caller: Caller, _names: Names) -> Sequence[Result]:
    """Freeze a tool, a run, or with an empty scope everything; told is what that stopped, and what is out (L10)."""
    return [freezes.freeze(request, caller) for request in requests]


def lift_freeze(requests: Sequence[DecideGrant], caller: Caller, names: Names) -> Sequence[Result]:
    """Lift a freeze that somebody else set, with a reason (L10)."""
    return [freezes.lift_freeze(names["freeze"], request, caller) for request in requests]


def list_freezes(asked: FreezesQuery, _caller: Caller, _names: Names) -> Result:
    """List freezes, newest first."""
    return listed(asked, freeze_queries.list_freezes)


def get_freeze(_asked: Nothing, _caller: Caller, names: Names) -> Result:
    """Read one freeze."""
    return freeze_queries.get_freeze(names["freeze"])


write(
    router,
    "/freezes",
    Write(roles=ONCALL, form=Form(SetFreeze), service=set_freeze),
    answer=ref("freeze"),
    is_creation=True,
)
read(
    router,
    "/freezes",
    Read(roles=ANY_BUT_PATH, form=Form(FreezesQuery, is_query=True), query=list_freezes),
    answer=list_of("freeze"),
)
read(
    router,
    "/freezes/{freeze}",
    Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_freeze),
    answer=ref("freeze"),
)
write(
    router,
    "/freezes/{freeze}/lift",
    Write(roles=ONCALL, form=Form(DecideGrant), service=lift_freeze),
    answer=ref("freeze"),
)
