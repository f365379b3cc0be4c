"""The reviewer's inbox: steps on which the paths disagreed."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to, reader_of
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from dashboard.presenters.sides import DIFFERENCES, difference_words
from dashboard.views.step import step_url
from fencing.models import Verdict
from fencing.models.steps import DIVERGED
from fencing.queries.divergences import Divergence, list_divergences
from fencing.queries.pages import Filters

LIMIT: Final = 50
AGES: Final = MappingProxyType(
    {
        "1h": ("the last hour", timedelta(hours=1)),
        "24h": ("the last 24 hours", timedelta(hours=24)),
        "7d": ("the last 7 days", timedelta(days=7)),
        "30d": ("the last 30 days", timedelta(days=30)),
    }
)
PAGE: Final = Page(title="Divergences", place="divergences", parts={"rows": "dashboard/divergences/rows.html"})


@open_to(ANY_GROUP)
@require_safe
def divergences(request: HttpRequest) -> HttpResponse:
    """List divergences, newest first, by what a reviewer looks for."""
    reader_of(request)
    wanted = _wanted(request)
    lines, following = read_page(request, lambda page: list_divergences(wanted, page), LIMIT)
    context = {
        "rows": [(line, step_url(line.run, line.step, line.epoch), *_told(line)) for line in lines],
        "bar": _bar(request),
        "pager": pager(
            shown=len(lines),
            what="divergence" if len(lines) == 1 else "divergences",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }
    return answer(request, "dashboard/divergences.html", PAGE, context)


def _told(line: Divergence) -> tuple[str, str]:
    """Say the difference class and the verdict in words; empty where there is none."""
    verdict = Verdict.Choice(line.verdict).label if line.verdict else ""
    return difference_words(line.difference), verdict


def _wanted(request: HttpRequest) -> Filters:
    given = {
        name: text
        for name in ("run", "reason", "difference", "tool", "model", "verdict")
        if (text := _text(request, name))
    }
    _, span = AGES.get(_text(request, "age"), ("", None))
    return given if span is None else {**given, "since": timezone.now() - span}


def _text(request: HttpRequest, name: str) -> str:
    # PostgreSQL text holds no U+0000, and nothing that is stored has one.
    return request.GET.get(name, "").strip().replace("\x00", "")


def _bar(request: HttpRequest) -> FilterBar:
    value = {name: _text(request, name) for name in ("reason", "difference", "tool", "model", "verdict", "age", "run")}
    reasons = choices([(each, each.replace("_", " ")) for each in DIVERGED], value["reason"])
    kinds = choices([(each.value, words) for each, words in DIFFERENCES.items()], value["difference"])
    verdicts = choices([("none", "not judged yet"), *Verdict.Choice.choices], value["verdict"])
    ages = choices([(name, words) for name, (words, _) in AGES.items()], value["age"], everything="all of time")
    return FilterBar(
        filters=(
            Filter(name="verdict", label="Verdict", value=value["verdict"], choices=verdicts),
            Filter(name="reason", label="Reason", value=value["reason"], choices=reasons),
            Filter(name="difference", label="Difference", value=value["difference"], choices=kinds),
            Filter(name="age", label="Decided in", value=value["age"], choices=ages),
            Filter(name="tool", label="Tool", value=value["tool"], hint="refund"),
            Filter(name="model", label="Model", value=value["model"]),
            Filter(name="run", label="Run", value=value["run"]),
        ),
        clear_url=request.path,
    )
