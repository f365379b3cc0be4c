"""The side log: what was refused or ignored, and why; a person acknowledges what they have looked at (S1, S3)."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any, Final, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.access import Group, caller_of, groups_of, open_to, reader_of
from dashboard.pages import Page, answer
from dashboard.presenters import side_log as presenter
from dashboard.presenters.lists import pager
from dashboard.side_log_forms import (
    MOST_CHOSEN,
    AcknowledgeForm,
    bar_of,
    chosen_rows,
    fault_of,
    wanted,
)
from fencing.api.exporting import TYPES
from fencing.api.exporting import side_log_file as file_of
from fencing.api.problems import status_of
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.queries import side_log as query
from fencing.queries.counters import read_counters
from fencing.queries.side_log_bodies import head_of
from fencing.services.requests import AcknowledgeRows
from fencing.services.side_log import acknowledge

LIMIT: Final = 50
PAGE: Final = Page(title="Side log", place="side_log", parts={"depth": "dashboard/side_log/depth.html"})
WATCHERS: Final = (Group.AUDITOR, Group.ONCALL, Group.REVIEWER, Group.ADMINISTRATOR)
UNPROCESSABLE: Final = 422
NOT_YOURS: Final = "Rows are acknowledged by people on call and by reviewers; you are in neither group."


@open_to(*WATCHERS)
@require_safe
def side_log(request: HttpRequest) -> HttpResponse:
    """List what was refused or ignored, newest first; without a filter, what nobody acknowledged yet."""
    reader_of(request)
    now = read_clock()
    depth = cache(query.depth)
    part = cache(lambda: _part(request))
    kept = {name: value for name, value in request.GET.dict().items() if name not in ("cursor", "part") and value}
    context = {
        "now": now,
        "depth": lambda: presenter.depth_sentence(*depth()[:2]),
        "lines": cache(lambda: presenter.lines_of(part().rows, part().late)),
        "looked_to": lambda: part().looked_to,
        "bar": cache(lambda: bar_of(request.GET, depth()[2], request.path)),
        "fault": fault_of(request.GET),
        "apart": lambda: presenter.apart(read_counters()),
        "files": [(form, f"{reverse('dashboard:side_log_file')}?{urlencode({**kept, 'format': form})}")
                  for form in TYPES],
        "filters": urlencode(kept),
        "why_not": _why_not(request),
        "pager": lambda: pager(
            shown=len(part().rows),
            what="row" if len(part().rows) == 1 else "rows",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=part().following,
        ),
    }  # fmt: skip
    return answer(request, "dashboard/side_log.html", PAGE, context)


@open_to(*WATCHERS)
@require_safe
def side_log_row(request: HttpRequest, row: uuid.UUID) -> HttpResponse:
    """Show one row: why, what it was about, whose input it was, and what is kept of its body."""
    reader_of(request)
    found = query.read_rows([row])
    if not found:
        raise Http404("There is no such row in the side log.")
    (line,) = presenter.lines_of(found)
    context = {
        "line": line,
        "head": lambda: head_of(row),
        "beside": _beside(found[0]),
        "why_not": _why_not(request),
    }
    return answer(request, "dashboard/side_log_row.html", Page(title="Refused input", place="side_log"), context)


@open_to(*WATCHERS)
@require_safe
def side_log_file(request: HttpRequest) -> HttpResponseBase:
    """Give every row that fits as a file, a batch at a time."""
    reader_of(request)
    form = request.GET.get("format", "")
    if form not in TYPES:
        raise Http404("The side log comes as csv or as ndjson.")
    now = read_clock()
    return file_of(wanted(request.GET, now), form, now)


@open_to(Group.ONCALL, Group.REVIEWER)
@require_http_methods(["GET", "HEAD", "POST"])
def acknowledge_rows(request: HttpRequest) -> HttpResponse:
    """Show the chosen rows and ask why; sent, these very rows are acknowledged, and no others."""
    if request.method != "POST":
        return _asked(request, chosen_rows(request.GET.getlist("row")), AcknowledgeForm())
    caller = _caller(request)
    ids = chosen_rows(request.POST.getlist("row"))
    form = AcknowledgeForm(request.POST)
    if not form.is_valid() or not ids:
        return _asked(request, ids, form, status=UNPROCESSABLE)
    asked = AcknowledgeRows(ids=tuple(str(each) for each in ids[:MOST_CHOSEN]), reason=form.cleaned_data["reason"])
    result = acknowledge(asked, caller)
    if isinstance(result, Refusal):
        form.add_error(None, result.detail)
        return _asked(request, ids, form, status=status_of(result))
    fresh = len(cast("list[str]", result.body["new"]))
    messages.success(request, presenter.told(fresh, len(asked.ids)))
    way = reverse("dashboard:side_log")
    filters = request.POST.get("filters", "")
    return redirect(f"{way}?{filters}" if filters else way)


def _part(request: HttpRequest) -> query.Part:
    """Read the part of the list that the address names; with a cursor that no list gave, the newest part."""
    filters = wanted(request.GET, read_clock())
    found = query.read_part(filters, request.GET.get("cursor") or None, LIMIT)
    if isinstance(found, Refusal):
        found = query.read_part(filters, None, LIMIT)
    assert isinstance(found, query.Part)  # noqa: S101 - without a cursor there is nothing to refuse
    return found


def _asked(request: HttpRequest, ids: list[uuid.UUID], form: AcknowledgeForm, status: int = 200) -> HttpResponse:
    rows = query.read_rows(ids[:MOST_CHOSEN])
    lines = presenter.lines_of(rows)
    context: dict[str, Any] = {
        "fresh": [line for line in lines if line.row.seen_by is None],
        "seen": [line for line in lines if line.row.seen_by is not None],
        "is_cut": len(ids) > MOST_CHOSEN,
        "most": MOST_CHOSEN,
        "form": form,
        "filters": request.POST.get("filters", request.GET.get("filters", "")),
    }
    page = Page(title="Acknowledge", place="side_log")
    return answer(request, "dashboard/acknowledge_rows.html", page, context, status=status)


def _beside(row: query.Row) -> list[tuple[str, str]]:
    """Where to look further: other rows about the same thing."""
    way = reverse("dashboard:side_log")
    near: list[tuple[str, dict[str, object]]] = []
    if row.run and row.step:
        near.append((f"refused on step {row.step}", {"run": row.run, "step": row.step}))
    if row.run:
        near.append((f"refused in run {row.run}", {"run": row.run}))
    if row.by or row.person:
        near.append((f"refused to {row.by or row.person}", {"by": row.by or row.person}))
    near += [(f"refused about {resource}", {"resource": resource}) for resource in row.resources[:3]]
    near.append((f"refused for {row.reason.replace('_', ' ')}", {"reason": row.reason}))
    return [(words, f"{way}?{urlencode({'state': 'all', **asked})}") for words, asked in near]


def _why_not(request: HttpRequest) -> str:
    return "" if groups_of(request.user) & {Group.ONCALL, Group.REVIEWER} else NOT_YOURS


def _caller(request: HttpRequest) -> Caller:
    role = Role.ONCALL if Group.ONCALL in groups_of(request.user) else Role.REVIEWER
    return caller_of(request, role)
