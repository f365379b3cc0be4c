"""The gateway: the only way to a tool."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import GatewayWantedQuery, worked_off
from fencing.api.problems import AT_GATEWAY
from fencing.gateway import admissions, ledgers, outcomes
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.queries import gateway as gateway_queries
from fencing.services.requests import Admit, ObserveEffect, ReportOutcome

router = Router(tags=["gateway"])
GATEWAYS = frozenset({Role.GATEWAY})


def admit_calls(requests: Sequence[Admit], caller: Caller, _names: Names) -> Sequence[Result]:
    """Ask whether a call may leave. What has no standing commit is refused (L3, L4)."""
    return admissions.admit(requests, caller)


def report_outcomes(requests: Sequence[ReportOutcome], caller: Caller, _names: Names) -> Sequence[Result]:
    """Tell what became of a delivery (L5)."""
    return outcomes.report_outcomes(requests, caller)


def observe_effects(requests: Sequence[ObserveEffect], caller: Caller, _names: Names) -> Sequence[Result]:
    """Tell what a tool's own ledger shows: what belongs to nothing is a landed escape (L8)."""
    return ledgers.observe_effects(requests, caller)


def wanted_effects(asked: GatewayWantedQuery, caller: Caller, _names: Names) -> Result:
    """List the effects that are ready to be delivered by this gateway's pull tools."""
    return worked_off(asked, lambda page: gateway_queries.wanted(asked.tool, caller, page, wait=asked.wait > 0))


ADMIT = Write(roles=GATEWAYS, form=Form(Admit), service=admit_calls, has_bulk=True, statuses=AT_GATEWAY)
REPORT = Write(roles=GATEWAYS, form=Form(ReportOutcome), service=report_outcomes, has_bulk=True)

write(
    router,
    "/gateway/admissions",
    ADMIT,
    answer=ref("admission"),
)
write(
    router,
    "/gateway/outcomes",
    REPORT,
    answer={"anyOf": [ref("intent"), ref("compensation")]},
)
write(
    router,
    "/gateway/effects",
    Write(roles=GATEWAYS, form=Form(ObserveEffect), service=observe_effects, has_bulk=True),
    answer=ref("observed_effect"),
    is_creation=True,
)
read(
    router,
    "/gateway/wanted",
    Read(roles=GATEWAYS, form=Form(GatewayWantedQuery, is_query=True), query=wanted_effects),
    answer=list_of("wanted_effect"),
)
