"""The page that a person meets first: does anything wait for me, and do the rules hold?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, Group, Person, groups_of, open_to, reader_of
from dashboard.freezing import freeze_act, scopes
from dashboard.pages import Page, answer
from dashboard.presenters import grants
from dashboard.presenters import overview as presenter
from dashboard.presenters.side_log import apart
from fencing.models.facts import read_clock
from fencing.queries import overview as query
from fencing.queries.counters import read_counters
from fencing.queries.fenced_tools import side_effecting_tools
from fencing.queries.grants import debts, live_grants, pending_grants
from fencing.queries.notices import unseen
from fencing.queries.tools import changes_waiting_for

MOST_GRANTS = 5
MOST_WAITING = 50
WINDOWS = {"1": timedelta(hours=1), "24": timedelta(hours=24), "168": timedelta(days=7)}
DEFAULT_WINDOW = "24"
PARTS = {
    "waiting": "dashboard/overview/waiting.html",
    "grants": "dashboard/overview/grants.html",
    "rules": "dashboard/overview/rules.html",
    "undecided": "dashboard/overview/undecided.html",
}


@open_to(ANY_GROUP)
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Say whether anything waits, and whether the rules hold."""
    reader_of(request)
    window = request.GET.get("window", DEFAULT_WINDOW)
    context = _context(request, window if window in WINDOWS else DEFAULT_WINDOW)
    return answer(request, "dashboard/overview.html", Page(title="Overview", place="overview", parts=PARTS), context)


def _context(request: HttpRequest, window: str) -> dict[str, Any]:
    """Functions, each read at most once: a live part pays only for what it shows."""
    since, now = WINDOWS[window], read_clock()
    counters = cache(read_counters)
    unseen_of = cache(lambda: unseen(request.user.pk or 0))
    live = cache(lambda: live_grants(limit=MOST_GRANTS))

    @cache
    def lines() -> list[presenter.Line]:
        waiting = {
            "doubts": (query.doubts(), _url("doubt")),
            "incidents": (query.incidents(), _url("incidents")),
            "notices": (query.Waiting(count=unseen_of()[0], oldest=unseen_of()[1]), _url("notices")),
            **_of_grants(request.user),
            **_of_tools(request.user),
            "divergences": (query.unjudged_divergences(since), _url("divergences")),
        }
        return presenter.lines_of(waiting)

    @cache
    def undecided() -> tuple[int, list[query.Undecided]]:
        return query.undecided()

    @cache
    def sentence() -> tuple[str, str]:
        count, oldest = undecided()
        return presenter.sentence_of(lines(), count, oldest, now)

    return {
        "now": now,
        "freeze": lambda: freeze_act(request.user, scopes(others=side_effecting_tools())),
        "live": live,
        "live_rows": lambda: grants.rows_of(live().lines),
        "window": window,
        "windows": [(key, f"{key} h" if key != "168" else "7 days", key == window) for key in WINDOWS],
        "lines": lines,
        "sentence": sentence,
        "undecided": undecided,
        "rules": lambda: presenter.rules_of(counters()),
        "unacknowledged": lambda: counters()["unacknowledged"],
        "apart": lambda: apart(counters()),
        "figures": lambda: _figures(since),
        "delays": lambda: _delays(since),
    }


def _of_tools(person: Person) -> dict[str, tuple[query.Waiting, str]]:
    """The changes of tools that wait for this administrator; nothing for anybody else."""
    if Group.ADMINISTRATOR not in groups_of(person):
        return {}
    return {"tools": (changes_waiting_for(person.pk or 0), f"{reverse('dashboard:tool_changes')}?state=pending")}


def _of_grants(person: Person) -> dict[str, tuple[query.Waiting, str]]:
    """What waits for this very person: grants that another one asked for, and reviews of what another one issued."""
    found: dict[str, tuple[query.Waiting, str]] = {}
    groups = groups_of(person)
    if Group.ONCALL in groups:
        ends = [line.facts.pending_until for line in pending_grants(MOST_WAITING).lines if line.issuer_id != person.pk]
        found["approvals"] = (_waiting(ends), _url("grants"))
    if groups & {Group.ONCALL, Group.REVIEWER}:
        due = [line.review.due_at for line in debts(MOST_WAITING).lines if line.issuer_id != person.pk]
        found["reviews"] = (_waiting(due), _url("reviews"))
    return found


def _waiting(moments: Iterable[datetime | None]) -> query.Waiting:
    known = [moment for moment in moments if moment is not None]
    return query.Waiting(count=len(known), oldest=min(known, default=None))


def _figures(since: timedelta) -> list[Any]:
    window = max(since, timedelta(hours=1))
    now = read_clock()
    return [
        presenter.decisions(query.decisions_by_hour(window), now, window),
        presenter.refusals(query.refusals_by_hour(window)),
    ]


def _delays(since: timedelta) -> list[presenter.Quantiles]:
    return [
        presenter.quantiles("between the first and the second path's vote", query.vote_gap(since)),
        presenter.quantiles("from the last vote to the commit", query.decision_latency(since)),
    ]


def _url(name: str) -> str:
    try:
        return reverse(f"dashboard:{name}")
    except NoReverseMatch:
        return ""
