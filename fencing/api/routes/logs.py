"""What was refused, what happened, and how often: side log, audit, counters, tools."""

from __future__ import annotations

from collections.abc import Sequence

from django.http.response import HttpResponseBase
from ninja import Router

from fencing.api.access import ANY, PEOPLE, WATCHERS
from fencing.api.calls import Export, Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.exporting import export, side_log_file
from fencing.api.forms import Form
from fencing.api.params import AuditQuery, Nothing, SideLogExport, SideLogQuery, ToolsQuery, filters_of, listed
from fencing.models.facts import read_clock
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Refusal
from fencing.queries.audit import list_audit
from fencing.queries.counters import read_counters
from fencing.queries.side_log import list_side_log
from fencing.queries.tools import list_tools
from fencing.services import side_log
from fencing.services.requests import AcknowledgeRows
from fencing.services.tallies import PENDING

router = Router(tags=["logs"])


def get_side_log(asked: SideLogQuery, _caller: Caller, _names: Names) -> Result:
    """List what was refused or ignored, and why (S1)."""
    found = list_side_log(filters_of(asked), asked.cursor, asked.limit)
    if isinstance(found, Refusal):
        return found
    return Answer(status=OK, body={"items": found[0], "next": found[1]})


def export_side_log(asked: SideLogExport) -> HttpResponseBase:
    """Read every row of the side log that fits, as CSV or NDJSON, however many there are (S3).

    A cell of CSV that a spreadsheet would run as a formula is led by an apostrophe.
    """
    return side_log_file(filters_of(asked), asked.format, read_clock())


def acknowledge_rows(requests: Sequence[AcknowledgeRows], caller: Caller, _names: Names) -> Sequence[Result]:
    """Say that a person has seen rows of the side log (S1)."""
    return [side_log.acknowledge(request, caller) for request in requests]


def get_audit(asked: AuditQuery, _caller: Caller, _names: Names) -> Result:
    """List every transition and every act of a person (U1)."""
    return listed(asked, list_audit)


def get_counters(_asked: Nothing, _caller: Caller, _names: Names) -> Result:
    """Read the counters: each n/N of the invariants, and the eight numbers beside them."""
    PENDING.flush()
    return Answer(status=OK, body=read_counters())


def get_tools(asked: ToolsQuery, _caller: Caller, _names: Names) -> Result:
    """List the registry of tools as it stands (T1)."""
    return listed(asked, list_tools)


read(
    router,
    "/side-log",
    Read(roles=WATCHERS, form=Form(SideLogQuery, is_query=True), query=get_side_log),
    answer=list_of("side_log_row"),
)
export(
    router,
    "/side-log/export",
    Export(roles=WATCHERS, form=Form(SideLogExport, is_query=True), answer=export_side_log),
)
write(
    router,
    "/side-log/acknowledge",
    Write(roles=PEOPLE, form=Form(AcknowledgeRows), service=acknowledge_rows),
    answer=ref("acknowledged"),
)
read(
    router,
    "/audit",
    Read(roles=WATCHERS, form=Form(AuditQuery, is_query=True), query=get_audit),
    answer=list_of("audit_event"),
)
read(
    router, "/counters", Read(roles=ANY, form=Form(Nothing, is_query=True), query=get_counters), answer=ref("counters")
)
read(router, "/tools", Read(roles=ANY, form=Form(ToolsQuery, is_query=True), query=get_tools), answer=list_of("tool"))
