"""Outage help: which path is silent, which steps wait for it, and one confirmation for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import grant_forms
from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.grant_forms import BatchForm, ReasonForm
from dashboard.pages import Page, answer
from dashboard.presenters import outages as presenter
from fencing.models.facts import read_clock
from fencing.protocol.answers import Result
from fencing.protocol.callers import Role
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.outages import GrantFor, StepPlace
from fencing.queries import silence as query
from fencing.services import outage as service
from fencing.services.requests import IssueFor, ReplaySteps

MOST: Final = 500
MINUTES: Final = "15"
PAGE: Final = Page(title="Silent paths", place="outages", parts={"rows": "dashboard/outages/rows.html"})
NONE_CHOSEN: Final = "No step is chosen: choose at least one."


@open_to(ANY_GROUP)
@require_safe
def outages(request: HttpRequest) -> HttpResponse:
    """List the paths that are silent while steps wait for them."""
    reader_of(request)
    now, silences = read_clock(), cache(query.silent_paths)
    context = {
        "now": now,
        "silences": cache(lambda: [(one, presenter.silence_sentence(one, now)) for one in silences()]),
        "sentence": lambda: presenter.list_sentence(silences()),
    }
    return answer(request, "dashboard/outages.html", PAGE, context)


@open_to(ANY_GROUP)
@require_safe
def outage(request: HttpRequest, path: str) -> HttpResponse:
    """List the steps that wait for a path, and those that timed out without it."""
    reader_of(request)
    return _answer(request, path, _fresh(path), ReasonForm(act="replay"))


def _issue_again(request: HttpRequest, typed: QueryDict, path: str) -> HttpResponse:
    """Show the list with the form as it was typed before the person confirmed; it never acts."""
    given = {name: typed.get(name, "") for name in BatchForm.base_fields}
    chosen = frozenset(typed.getlist("step"))
    return _answer(request, path, BatchForm(initial=given), ReasonForm(act="replay"), chosen)


@open_to(Group.ONCALL)
@confirmed_recently("issue a grant for each chosen step", show=_issue_again)
@require_POST
def issue_grants(request: HttpRequest, path: str) -> HttpResponse:
    """Issue one grant for each chosen step; sent twice by one batch, each is issued once."""
    caller = caller_of(request, Role.ONCALL)
    form, chosen = BatchForm(request.POST), request.POST.getlist("step")
    wanted = presenter.grants_chosen(chosen)[:MOST]
    ttl_s = grant_forms.seconds_of(form.data.get("minutes"))
    if not wanted:
        form.add_error(None, NONE_CHOSEN)
    if not isinstance(ttl_s, int) or ttl_s < 1:
        form.add_error("minutes", "How many minutes? A number, such as 15.")
    if not form.is_valid() or not is_identifier(form.cleaned_data["batch"]) or not isinstance(ttl_s, int):
        replay = ReasonForm(act="replay")
        return _answer(request, path, form, replay, frozenset(chosen), status=422)
    asked = IssueFor(batch=form.cleaned_data["batch"], steps=wanted, ttl_s=ttl_s, reason=form.cleaned_data["reason"])
    return _told(request, path, "grants", wanted, lambda: service.issue_grants_for(asked, caller))


@open_to(Group.REVIEWER)
@require_POST
def replay_steps(request: HttpRequest, path: str) -> HttpResponse:
    """Replay each chosen step that nobody decided in time."""
    caller = caller_of(request, Role.REVIEWER)
    form = ReasonForm(request.POST, act="replay")
    wanted = presenter.places_chosen(request.POST.getlist("step"))[:MOST]
    if not wanted:
        form.add_error(None, NONE_CHOSEN)
    if not form.is_valid():
        chosen = frozenset(request.POST.getlist("step"))
        return _answer(request, path, _fresh(path), form, chosen, status=422)
    asked = ReplaySteps(steps=wanted, reason=form.cleaned_data["reason"])
    return _told(request, path, "replays", wanted, lambda: service.replay_timed_out(asked, caller))


def _told(
    request: HttpRequest,
    path: str,
    what: str,
    wanted: Sequence[GrantFor | StepPlace],
    act: Callable[[], Sequence[Result]],
) -> HttpResponse:
    """Answer with what came of each step. Sent again it comes to the same: the batch and the epochs see to that."""
    done, again = presenter.DONE[what]
    lines = presenter.results_of(wanted, act(), done, again)
    context = {
        "now": read_clock(),
        "path": path,
        "batch": request.POST.get("batch", "") if what == "grants" else "",
        "what": what,
        "lines": lines,
        "tally": presenter.tally(lines),
    }
    return answer(request, "dashboard/outages/told.html", Page(title="What came of it", place="outages"), context)


@open_to(ANY_GROUP)
@require_safe
def batch(request: HttpRequest, path: str, batch: str) -> HttpResponse:
    """Show how far the steps of one confirmation are, as the grants and steps stand now."""
    reader_of(request)
    lines = cache(lambda: presenter.progress_of(query.batch_progress(batch) if is_identifier(batch) else ()))
    context = {
        "now": read_clock(),
        "path": path,
        "batch": batch,
        "lines": lines,
        "sentence": lambda: presenter.progress_sentence(lines()),
    }
    page = Page(title=batch, place="outages", parts={"progress": "dashboard/outages/progress.html"})
    return answer(request, "dashboard/outages/batch.html", page, context)


def _fresh(path: str) -> BatchForm:
    name = grant_forms.fresh_name(f"{path}-silent", read_clock())
    return BatchForm(initial={"minutes": MINUTES, "batch": name})


def _answer(
    request: HttpRequest,
    path: str,
    form: BatchForm,
    replay: ReasonForm,
    chosen: frozenset[str] | None = None,
    status: int = 200,
) -> HttpResponse:
    if not is_identifier(path):
        raise Http404(f"There is no path {path}.")
    affected = query.affected_steps(path, limit=MOST)
    silence = next((one for one in query.silent_paths() if one.path == path), None)
    context = {
        "now": affected.now,
        "path": path,
        "sentence": None if silence is None else presenter.silence_sentence(silence, affected.now),
        "waiting": presenter.waiting_of(affected),
        "timed_out": presenter.timed_out_of(affected),
        "is_cut": affected.is_cut,
        "form": form,
        "replay": replay,
        "chosen": chosen,
        "issue_url": reverse("dashboard:issue_grants", args=[path]),
        "replay_url": reverse("dashboard:replay_steps", args=[path]),
        "why_not_issue": why_not(request.user, Role.ONCALL),
        "why_not_replay": why_not(request.user, Role.REVIEWER),
    }
    page = Page(title=f"{path} is silent" if silence else f"Steps without {path}", place="outages")
    return answer(request, "dashboard/outage.html", page, context, status=status)
