"""The audit: who did what, whether it is proven, and the search (U1 to U3)."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import Group, open_to, reader_of
from dashboard.audit_forms import bar_of, fault_of, wanted
from dashboard.pages import Page, answer
from dashboard.presenters import audit as presenter
from dashboard.presenters.acts import Act
from dashboard.presenters.lists import pager
from fencing.models import AuditEvent, Verification
from fencing.models.facts import read_clock
from fencing.queries import sealing
from fencing.queries.audit import Found, search_audit
from fencing.queries.pages import Cursor
from fencing.queries.pages import Page as Part
from fencing.services import verifications

LIMIT: Final = 50
WATCHERS: Final = (Group.AUDITOR, Group.ONCALL, Group.REVIEWER, Group.ADMINISTRATOR)
PAGE: Final = Page(title="Audit", place="audit", parts={"proof": "dashboard/audit/proof.html"})


@open_to(*WATCHERS)
@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """Say whether the audit is proven, and list it, newest first."""
    reader_of(request)
    now = read_clock()
    part = cache(lambda: _part(request))
    state = cache(sealing.sealing_state)
    newest = cache(lambda: sealing.last_verifications(6))
    context = {
        "now": now,
        "verify": _verify_act(),
        "proof": lambda: presenter.proof_sentence(_first(newest(), is_open=False), _first(newest(), is_open=True)),
        "running": lambda: _first(newest(), is_open=True),
        "found": lambda: _first(newest(), is_open=False),
        "verifications": newest,
        "sealed": lambda: presenter.sealing_sentence(state()),
        "state": state,
        "witnesses": sealing.witnesses,
        "lines": lambda: presenter.lines_of(part().rows, _last_sealed(state())),
        "reached": lambda: part().reached,
        "bar": bar_of(request.GET, request.path),
        "fault": fault_of(request.GET),
        "pager": lambda: pager(
            shown=len(part().rows),
            what="row" if len(part().rows) == 1 else "rows",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=part().following,
        ),
    }
    return answer(request, "dashboard/audit.html", PAGE, context)


@open_to(*WATCHERS)
@require_safe
def audit_row(request: HttpRequest, row: int) -> HttpResponse:
    """Show one row whole, with the seal that holds it."""
    reader_of(request)
    event = AuditEvent.objects.filter(pk=row).first()
    if event is None:
        raise Http404("There is no such row in the audit.")
    seal = sealing.seal_of_row(row)
    (line,) = presenter.lines_of([event], 0 if seal is None else seal.last)
    context: dict[str, Any] = {"now": read_clock(), "line": line, "event": event, "seal": seal}
    return answer(request, "dashboard/audit_row.html", Page(title="Row of the audit", place="audit"), context)


@open_to(*WATCHERS)
@require_POST
def verify_audit(request: HttpRequest) -> HttpResponse:
    """Ask for a verification; where one is under way, show that one."""
    asked = verifications.ask(reader_of(request))
    if not asked.is_new:
        messages.info(request, "A verification is under way already.")
    return redirect(reverse("dashboard:audit"))


def _verify_act() -> Act:
    return Act(
        id="verify",
        opens="Verify now…",
        says="Verify every row now",
        url=reverse("dashboard:verify_audit"),
        explains=(
            "A worker reads every row and every seal, and compares them with the heads outside the database. "
            "It changes nothing; a million rows take about a minute."
        ),
    )


def _part(request: HttpRequest) -> Found:
    text = request.GET.get("cursor", "")
    cursor = Cursor.decode(text) if text else None
    is_ours = isinstance(cursor, Cursor) and cursor.at is None and isinstance(cursor.id, int)
    page = Part(limit=LIMIT, cursor=cursor if is_ours and isinstance(cursor, Cursor) else None)
    return search_audit(wanted(request.GET, read_clock()), page)


def _first(found: list[Verification], *, is_open: bool) -> Verification | None:
    return next((each for each in found if (each.finished_at is None) is is_open), None)


def _last_sealed(state: sealing.SealingState) -> int:
    return 0 if state.last is None else state.last.last
