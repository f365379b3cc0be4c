"""Runs and one run: what happened, in order, epoch by epoch."""

from __future__ import annotations

from functools import cache

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to, reader_of
from dashboard.freezing import freeze_act, scopes
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import runs as presenter
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from fencing.protocol.fence import Phase
from fencing.queries import runs as query
from fencing.queries.undoings import read_forks

LIMIT = 50
STEPS = 100


@open_to(ANY_GROUP)
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """List runs, newest first."""
    reader_of(request)
    prefix = request.GET.get("run", "").strip()
    lines, following = read_page(request, lambda page: query.list_run_lines(prefix, page), LIMIT)
    bar = FilterBar(filters=(Filter(name="run", label="Run begins with", value=prefix),), clear_url=request.path)
    foot = pager(
        shown=len(lines),
        what="run" if len(lines) == 1 else "runs",
        path=request.path,
        query=request.GET.dict(),
        next_cursor=following,
    )
    rows = [(line, presenter.phase_counts(line.phases)) for line in lines]
    context = {"rows": rows, "bar": bar, "pager": foot, "prefix": prefix}
    parts = {"rows": "dashboard/runs/rows.html"}
    return answer(request, "dashboard/runs.html", Page(title="Runs", place="runs", parts=parts), context)


@open_to(ANY_GROUP)
@require_safe
def run(request: HttpRequest, run: str) -> HttpResponse:
    """Show one run: its sentence, how its epochs were opened, its steps by epoch, its grants."""
    reader_of(request)
    read = query.read_run(run)
    if read is None:
        raise Http404(f"There is no run {run}.")
    row, phases, openings, grants = read
    phase = request.GET.get("phase", "")
    lines, following = read_page(request, lambda page: query.list_step_lines(run, phase, page), STEPS)
    chosen = choices([(each.value, each.value) for each in Phase], phase, everything="every phase")
    bar = FilterBar(filters=(Filter(name="phase", label="Phase", value=phase, choices=chosen),), clear_url=request.path)
    context = {
        "run": row,
        "sentence": presenter.sentence_of(phases, row.epoch, row.counter),
        "phases": presenter.phase_counts(phases),
        "epochs": presenter.by_epoch(lines, row.epoch),
        "openings": lambda: presenter.openings_of(openings, timezone.now()),
        "count_openings": len(openings),
        "forks": cache(lambda: read_forks(row.pk)),
        "grants": grants,
        "freeze": lambda: freeze_act(request.user, scopes(run=run)),
        "bar": bar,
        "pager": pager(
            shown=len(lines),
            what="step" if len(lines) == 1 else "steps",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }
    parts = {"steps": "dashboard/run/steps.html"}
    return answer(request, "dashboard/run.html", Page(title=run, place="runs", parts=parts), context)
