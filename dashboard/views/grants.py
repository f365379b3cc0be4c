"""Grants: which are live, which wait for a second person, all of them by how they ended; reviews and debts."""

from __future__ import annotations

from functools import cache
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to, reader_of, why_not
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import grants as presenter
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from fencing.models.facts import read_clock
from fencing.protocol.callers import Role
from fencing.queries import grants as query

LIMIT: Final = 50
FILTERS: Final = ("state", "tool", "run", "issuer", "path")
PAGE: Final = Page(
    title="Grants",
    place="grants",
    parts={
        "live": "dashboard/grants/live.html",
        "pending": "dashboard/grants/pending.html",
        "rows": "dashboard/grants/rows.html",
    },
)
REVIEWS: Final = Page(
    title="Reviews and debts",
    place="grants",
    parts={"owed": "dashboard/grants/owed.html", "blocked": "dashboard/grants/blocked.html"},
)


@open_to(ANY_GROUP)
@require_safe
def grants(request: HttpRequest) -> HttpResponse:
    """List grants: the live ones, those that wait, and every one by its state."""
    reader_of(request)
    live, pending, debts = cache(query.live_grants), cache(query.pending_grants), cache(query.debts)
    wanted = {name: text for name in FILTERS if (text := _text(request, name))}
    page = cache(lambda: read_page(request, lambda part: query.list_grant_lines(wanted, part), LIMIT))
    context = {
        "now": read_clock(),
        "live": live,
        "pending": pending,
        "live_rows": lambda: presenter.rows_of(live().lines),
        "pending_rows": lambda: presenter.rows_of(pending().lines),
        "sentence": lambda: presenter.sentence_of(
            live().count, pending().count, debts(limit=1).overdue, debts(limit=1).count
        ),
        "rows": lambda: presenter.rows_of(page()[0]),
        "bar": _bar(request),
        "pager": lambda: pager(
            shown=len(page()[0]),
            what="grant" if len(page()[0]) == 1 else "grants",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=page()[1],
        ),
        "why_not_issue": why_not(request.user, Role.ONCALL),
    }
    return answer(request, "dashboard/grants.html", PAGE, context)


@open_to(ANY_GROUP)
@require_safe
def reviews(request: HttpRequest) -> HttpResponse:
    """List the reviews that are owed, the overdue ones first, and who gets no further grant until they are given."""
    reader_of(request)
    debts = cache(query.debts)
    context = {
        "now": read_clock(),
        "debts": debts,
        "owed": lambda: [(presenter.row_of(line), line.issuer_id == request.user.pk) for line in debts().lines],
        "blocked_people": cache(query.blocked_people),
        "sentence": lambda: presenter.debts_sentence(debts().count, debts().overdue, query.debts_of(_own_id(request))),
        "why_not_review": presenter.why_not_review(
            why_not(request.user, Role.REVIEWER), why_not(request.user, Role.ONCALL)
        ),
    }
    return answer(request, "dashboard/reviews.html", REVIEWS, context)


def _own_id(request: HttpRequest) -> int:
    return int(request.user.pk or 0)


def _text(request: HttpRequest, name: str) -> str:
    # PostgreSQL text holds no U+0000, and nothing that is stored has one.
    return request.GET.get(name, "").strip().replace("\x00", "")


def _bar(request: HttpRequest) -> FilterBar:
    value = {name: _text(request, name) for name in FILTERS}
    return FilterBar(
        filters=(
            Filter(
                name="state", label="State", value=value["state"], choices=choices(presenter.states(), value["state"])
            ),
            Filter(name="tool", label="Tool", value=value["tool"], hint="refund"),
            Filter(name="run", label="Run", value=value["run"]),
            Filter(name="issuer", label="Issued by", value=value["issuer"]),
            Filter(name="path", label="Path", value=value["path"]),
        ),
        clear_url=request.path,
    )
