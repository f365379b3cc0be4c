"""Reconciliation: a tool's own ledger, uploaded or fetched, against what was committed and left (L8)."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, open_to, reader_of, why_not
from dashboard.effect_forms import PullForm, UploadForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters.effects import ledger_figures, ledger_sentence
from dashboard.presenters.lists import pager
from fencing.gateway import ledger_reading
from fencing.models import Ledger
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import Result
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.queries import ledgers as query

LIMIT: Final = 25
PAGE: Final = Page(title="Reconciliation", place="reconciliation", parts={"rows": "dashboard/ledgers/rows.html"})


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
    context = {
        "now": read_clock(),
        "row": row,
        "sentence": ledger_sentence(row),
        "figures": ledger_figures(row),
    }
    page = Page(title="Ledger", place="reconciliation", parts={"progress": "dashboard/ledgers/progress.html"})
    return answer(request, "dashboard/ledger.html", page, context)


@open_to(Group.REVIEWER)
@require_POST
def upload_ledger(request: HttpRequest) -> HttpResponse:
    """Take a file, and have it matched."""
    caller = caller_of(request, Role.REVIEWER)
    form = UploadForm(_tools(), request.POST, request.FILES)
    if not form.is_valid():
        return _list(request, upload=form, status=422)
    file = form.cleaned_data["file"]
    result = ledger_reading.upload(form.cleaned_data["tool"], file.name, file.chunks(), form.span, caller)
    return _begun(request, result, upload=form)


@open_to(Group.REVIEWER)
@require_POST
def pull_ledger(request: HttpRequest) -> HttpResponse:
    """Have the list of a push tool fetched and matched."""
    caller = caller_of(request, Role.REVIEWER)
    form = PullForm(_listing(), request.POST)
    if not form.is_valid():
        return _list(request, pull=form, status=422)
    return _begun(request, ledger_reading.pull(form.cleaned_data["tool"], form.span, caller), pull=form)


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
    context = {
        "now": read_clock(),
        "rows": lambda: [(row, ledger_sentence(row)) for row in page()[0]],
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
