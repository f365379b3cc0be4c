"""The simulator: every order of events, against a leaky gateway and this one. Nothing here asks the database."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to, reader_of
from dashboard.pages import Page, answer
from dashboard.presenters import failing_traces, simulated_traces
from dashboard.presenters import simulator as presenter
from dashboard.stored_traces import stored, text_of
from fencing.protocol.simulate.traces import Gateway

UNREADABLE = 422


@open_to(ANY_GROUP)
@require_safe
def simulator(request: HttpRequest) -> HttpResponse:
    """Show the figures, the thirty-two traces by their flags, and the failing traces that were written."""
    reader_of(request)
    traces, figures = presenter.played(), presenter.counted()
    asked = presenter.chosen(request.GET.dict())
    context = {
        "sentence": presenter.sentence(figures),
        "leaky": presenter.figures_in_words(figures.leaky, "leaky", request.path),
        "enforcing": presenter.figures_in_words(figures.enforcing, "here", request.path),
        "leaky_map": list(presenter.map_of(traces, Gateway.LEAKY)),
        "enforcing_map": list(presenter.map_of(traces, Gateway.ENFORCING)),
        "moved": presenter.moved_in_words(figures),
        "filters": presenter.filters(asked),
        "is_filtered": asked.is_active,
        "flags": presenter.FLAGS.values(),
        "rows": presenter.rows(traces, asked),
        "total": len(traces),
        "stored": stored(),
    }
    return answer(request, "dashboard/simulator.html", Page(title="Simulator", place="simulator"), context)


@open_to(ANY_GROUP)
@require_safe
def simulated_trace(request: HttpRequest, number: int) -> HttpResponse:
    """Show one of the thirty-two, by its number from 1."""
    reader_of(request)
    traces = presenter.played()
    if not 1 <= number <= len(traces):
        raise Http404(f"There are {len(traces)} traces, numbered from 1.")
    context = {
        "trace": simulated_traces.tell(traces, number),
        "total": len(traces),
        "previous": number - 1,
        "next": number + 1 if number < len(traces) else 0,
    }
    page = Page(title=f"Trace {number}", place="simulator")
    return answer(request, "dashboard/simulated_trace.html", page, context)


@open_to(ANY_GROUP)
@require_safe
def failing_trace(request: HttpRequest, name: str) -> HttpResponse:
    """Show a failing trace that the command line wrote, played again by this version."""
    reader_of(request)
    text = text_of(name)
    if text is None:
        raise Http404("There is no failing trace of that name in the data folder.")
    page = Page(title=name, place="simulator")
    try:
        context = {"name": name, "trace": failing_traces.read(text)}
    except failing_traces.Unreadable as fault:
        return answer(request, "dashboard/failing_trace.html", page, {"name": name, "fault": fault}, status=UNREADABLE)
    return answer(request, "dashboard/failing_trace.html", page, context)
