"""Notices: what a person was told of, who else was, and where and when they are told."""

from __future__ import annotations

import uuid
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access import ANY_GROUP, SIGNED_IN, confirmed_recently, open_to, reader_of, themself
from dashboard.notice_forms import QuietForm, TargetForm, zones
from dashboard.notice_pages import address_of
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import notices as presenter
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from fencing.models import Notice
from fencing.models.facts import read_clock
from fencing.protocol.errors import Refusal
from fencing.queries import notices as query
from fencing.queries.pages import Filters
from fencing.queries.pages import Page as Part
from fencing.services.notices import see
from fencing.services.targets import (
    AddTarget,
    add_target,
    end_target,
    known_kinds,
    set_quiet_hours,
    try_target,
)

LIMIT: Final = 50
PAGE: Final = Page(title="Notices", place="notices", parts={"rows": "dashboard/notices/rows.html"})
TOLD_PAGE: Final = Page(title="Where I am told", place="you", parts={"places": "dashboard/notices/places.html"})
UNPROCESSABLE: Final = 422
FIELDS: Final = {"/address": "address", "/name": "name", "/zone": "zone", "/end": "end"}


@open_to(ANY_GROUP)
@require_safe
def notices(request: HttpRequest) -> HttpResponse:
    """List what this person was told of, newest first; or everything that anybody was."""
    reader_of(request)
    value = {name: request.GET.get(name, "").replace("\x00", "") for name in ("state", "whose", "kind")}
    filters: Filters = {"open": value["state"] != "all"} | ({"kind": value["kind"]} if value["kind"] else {})
    person = request.user.pk or 0

    def read(page: Part) -> tuple[list[query.Line], str | None] | Refusal:
        return query.list_all(filters, page) if value["whose"] == "all" else query.list_mine(person, filters, page)

    lines, following = read_page(request, read, LIMIT)
    bar = FilterBar(
        filters=(
            Filter(name="state", label="State", value=value["state"],
                   choices=choices([("all", "all of them")], value["state"], everything="not seen yet")),
            Filter(name="whose", label="Whose", value=value["whose"],
                   choices=choices([("all", "everybody's")], value["whose"], everything="mine")),
            Filter(name="kind", label="Kind", value=value["kind"], choices=choices(presenter.kinds(), value["kind"])),
        ),
        clear_url=request.path,
    )  # fmt: skip
    context = {
        "now": read_clock(),
        "rows": presenter.rows_of(lines),
        "bar": bar,
        "pager": pager(
            shown=len(lines),
            what="notice" if len(lines) == 1 else "notices",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }
    return answer(request, "dashboard/notices.html", PAGE, context)


@open_to(ANY_GROUP)
@require_safe
def notice(request: HttpRequest, notice: uuid.UUID) -> HttpResponse:
    """Show one notice: who asked, who was told and where, what failed, who has seen it."""
    reader_of(request)
    found = query.read_notice(notice)
    if found is None:
        raise Http404("There is no such notice.")
    row = presenter.row_of(found.line)
    context = {
        "now": read_clock(),
        "row": row,
        "told": presenter.told_of(found.line, found.told),
        "seen": found.seen,
        "items": [(subject, address_of(page)) for subject, page in found.items],
        "next_words": presenter.next_words(found.line),
    }
    page = Page(title=row.label.capitalize(), place="notices")
    return answer(request, "dashboard/notice.html", page, context)


@open_to(ANY_GROUP)
@require_http_methods(["GET", "HEAD", "POST"])
def open_notice(request: HttpRequest, notice: uuid.UUID) -> HttpResponse:
    """Lead from a message to its object. A GET only shows the way; the POST that the page sends marks it as seen."""
    reader_of(request)
    row = Notice.objects.filter(pk=notice).first()
    if row is None:
        raise Http404("There is no such notice.")
    url = address_of(row.page) or reverse("dashboard:notice", args=[notice])
    if request.method != "POST":
        context = {"row": presenter.row_of(query.read_notice(notice).line), "url": url}  # type: ignore[union-attr]
        return answer(request, "dashboard/open_notice.html", Page(title="On to it", place="notices"), context)
    see(row, themself(request))
    return redirect(url)


@open_to(SIGNED_IN)
@require_safe
def my_targets(request: HttpRequest) -> HttpResponse:
    """Show where and when this person is told."""
    return _mine(request, TargetForm())


def _add_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    """Show the form as it was typed before the person confirmed, without the address; it never acts."""
    kept = {"name": typed.get("name", ""), "kinds": typed.getlist("kinds")}
    return _mine(request, TargetForm(initial=kept))


@sensitive_post_parameters("address")
@open_to(SIGNED_IN)
@confirmed_recently("add a place where you are told", show=_add_again)
@require_POST
def add_my_target(request: HttpRequest) -> HttpResponse:
    """Add a place where this person is told, and send a test there."""
    form = TargetForm(request.POST)
    if not form.is_valid():
        return _mine(request, form, status=UNPROCESSABLE)
    asked = AddTarget(
        name=form.cleaned_data["name"],
        address=form.cleaned_data["address"],
        kinds=known_kinds(form.cleaned_data["kinds"]),
    )
    result = add_target(asked, themself(request))
    if isinstance(result, Refusal):
        form.add_error(FIELDS.get(result.pointer or "", None), result.detail)
        return _mine(request, form, status=UNPROCESSABLE)
    try_target(result, themself(request))
    messages.success(request, "Added. A test is on its way there; whether it came through stands below in a moment.")
    return redirect("dashboard:my_targets")


@open_to(SIGNED_IN)
@require_POST
def try_my_target(request: HttpRequest, target: uuid.UUID) -> HttpResponse:
    """Send a test to a place of one's own."""
    if not try_target(target, themself(request)):
        raise Http404("You have no such place.")
    messages.success(request, "A test is on its way; whether it came through stands below in a moment.")
    return redirect("dashboard:my_targets")


@open_to(SIGNED_IN)
@require_POST
def end_my_target(request: HttpRequest, target: uuid.UUID) -> HttpResponse:
    """End a place of one's own; its address is forgotten."""
    if not end_target(target, themself(request)):
        raise Http404("You have no such place.")
    messages.success(request, "Ended, and its address is forgotten.")
    return redirect("dashboard:my_targets")


@open_to(SIGNED_IN)
@require_POST
def set_my_quiet_hours(request: HttpRequest) -> HttpResponse:
    """Say when this person is not to be woken."""
    form = QuietForm(request.POST)
    if form.is_valid():
        result = set_quiet_hours(form.cleaned_data["zone"], *form.times(), themself(request))
        if result is None:
            messages.success(request, "Your quiet hours are set.")
            return redirect("dashboard:my_targets")
        form.add_error(FIELDS.get(result.pointer or "", None), result.detail)
    return _mine(request, TargetForm(), quiet=form, status=UNPROCESSABLE)


def _mine(request: HttpRequest, form: TargetForm, *, quiet: QuietForm | None = None, status: int = 200) -> HttpResponse:
    person = request.user.pk or 0
    zone, begin, end = query.quiet_hours(person)
    context = {
        "now": read_clock(),
        "places": lambda: query.places_of(person),
        "form": form,
        "quiet": quiet or QuietForm(initial={"zone": zone, "begin": begin, "end": end}),
        "zones": zones,
    }
    return answer(request, "dashboard/my_targets.html", TOLD_PAGE, context, status=status)
