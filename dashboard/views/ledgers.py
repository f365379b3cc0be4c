"""Reconciliation: a tool's own ledger, uploaded or fetched, against what was committed and left (L8)."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, open_to, reader_of, why_not
from dashboard.effect_forms import PullForm, UploadForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters.ledgers import ledger_figures, ledger_sentence, ledger_share, totals_of
from dashboard.presenters.lists import pager
from dashboard.uploads import LedgerFile, LedgerHandler
from fencing.gateway import ledger_intake
from fencing.gateway.ledger_intake import MAX_FILE, TOO_LARGE
from fencing.models import Ledger
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import Result
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.queries import ledgers as query

LIMIT: Final = 25
# The other fields of the form, and what stands around the file.
FORM: Final = 64 * 1024
PARTS: Final = {"rows": "dashboard/ledgers/rows.html", "totals": "dashboard/ledgers/totals.html"}
PAGE: Final = Page(title="Reconciliation", place="reconciliation", parts=PARTS)


@open_to(ANY_GROUP)
@require_safe
def reconciliation(request: HttpRequest) -> HttpResponse:
    """List the ledgers that were read, and let a reviewer read another."""
    reader_of(request)
    return _list(request)


@open_to(ANY_GROUP)
@require_safe
def ledger(request: HttpRequest, ledger: uuid.UUID) -> HttpResponse:
    """Show one reading of a ledger: how far it is, and what it found."""
    reader_of(request)
    row = Ledger.objects.select_related("person").filter(id=ledger).first()
    if row is None:
        raise Http404("There is no such ledger.")
    now = read_clock()
    share = ledger_share(row)
    context = {
        "now": now,
        "row": row,
        "sentence": ledger_sentence(row, now),
        "percent": None if share is None or row.finished_at else round(100 * share),
        "figures": ledger_figures(row),
    }
    page = Page(title="Ledger", place="reconciliation", parts={"progress": "dashboard/ledgers/progress.html"})
    return answer(request, "dashboard/ledger.html", page, context)


@open_to(Group.REVIEWER)
@csrf_exempt  # asked for below, by `_upload_ledger`: the token stands in the body, and nobody's is read unasked
@require_POST
def upload_ledger(request: HttpRequest) -> HttpResponse:
    """Take a file, and have it matched. Who may not is refused before any of it is read; then it goes to the disk."""
    caller_of(request, Role.REVIEWER)
    if int(request.headers.get("Content-Length") or 0) > MAX_FILE + FORM:
        return _refused(request, TOO_LARGE, status=413)
    handler = LedgerHandler()
    request.upload_handlers = [handler]
    try:
        return _upload_ledger(request)
    except OSError as fault:
        return _refused(
            request, f"The file could not be kept here ({fault.strerror or fault}). Nothing was read.", status=503
        )
    finally:
        handler.end()


@csrf_protect
def _upload_ledger(request: HttpRequest) -> HttpResponse:
    caller = caller_of(request, Role.REVIEWER)
    form = UploadForm(_tools(), request.POST, request.FILES)
    if not form.is_valid():
        return _list(request, upload=form, status=422)
    file: LedgerFile = form.cleaned_data["file"]
    result = ledger_intake.upload(form.cleaned_data["tool"], file.name or "", file.place, form.span, caller)
    return _begun(request, result, upload=form)


def _refused(request: HttpRequest, reason: str, *, status: int) -> HttpResponse:
    """Show the page with an empty form and the reason: what was sent was not read, so nothing of it is kept."""
    form = UploadForm(_tools(), {})
    form.errors.clear()
    form.add_error(None, reason)
    return _list(request, upload=form, status=status)


@open_to(Group.REVIEWER)
@require_POST
def pull_ledger(request: HttpRequest) -> HttpResponse:
    """Have the list of a push tool fetched and matched."""
    caller = caller_of(request, Role.REVIEWER)
    form = PullForm(_listing(), request.POST)
    if not form.is_valid():
        return _list(request, pull=form, status=422)
    return _begun(request, ledger_intake.pull(form.cleaned_data["tool"], form.span, caller), pull=form)


def _begun(
    request: HttpRequest, result: Result, *, upload: UploadForm | None = None, pull: PullForm | None = None
) -> HttpResponse:
    if isinstance(result, Refusal):
        form = upload or pull
        if form is not None:
            form.add_error(None, result.detail)
        return _list(request, upload=upload, pull=pull, status=422)
    messages.success(request, "It is being matched. What it shows stands here as it is read.")
    return redirect(f"{reverse('dashboard:ledger', args=[result.body['id']])}#main")


def _list(
    request: HttpRequest, *, upload: UploadForm | None = None, pull: PullForm | None = None, status: int = 200
) -> HttpResponse:
    page = cache(lambda: read_page(request, query.list_ledgers, LIMIT))
    listing = _listing()
    now = read_clock()
    context = {
        "now": now,
        "rows": lambda: [(row, ledger_sentence(row, now)) for row in page()[0]],
        "totals": cache(lambda: totals_of(query.totals())),
        "shut": why_not(request.user, Role.REVIEWER),
        "upload": upload or UploadForm(_tools()),
        "pull": pull or PullForm(listing) if listing else None,
        "pager": lambda: pager(
            shown=len(page()[0]),
            what="ledger" if len(page()[0]) == 1 else "ledgers",
            path=reverse("dashboard:reconciliation"),
            query=request.GET.dict(),
            next_cursor=page()[1],
        ),
    }
    return answer(request, "dashboard/reconciliation.html", PAGE, context, status=status)


def _tools() -> list[str]:
    registry = registry_at(current_registry())
    return sorted(name for name, definition in registry.items() if not definition.is_read_only)


def _listing() -> list[str]:
    registry = registry_at(current_registry())
    return sorted(name for name, definition in registry.items() if definition.ledger is not None)
