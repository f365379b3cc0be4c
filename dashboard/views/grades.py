"""Grades: lanes and their gates, an attempt cell by cell, one fragment, and letting a halted lane run again (A4)."""

from __future__ import annotations

from functools import cache
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.grant_forms import ReasonForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import grades as presenter
from dashboard.presenters.acts import Act
from dashboard.presenters.lists import pager
from dashboard.views.evidence import evidence_url
from fencing.api.problems import status_of
from fencing.protocol import strict_json
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.protocol.explain import Sentence
from fencing.protocol.grades import LaneState
from fencing.queries import grade_pages as query
from fencing.services import lanes as service
from fencing.services.requests import ResumeLane

LANES: Final = 25
ATTEMPTS: Final = 50
MAX_FIRST: Final = 10_000
MAX_SEEN: Final = 9


@open_to(ANY_GROUP)
@require_safe
def grades(request: HttpRequest) -> HttpResponse:
    """List lanes, each with what its gate says and why."""
    reader_of(request)
    read = cache(lambda: read_page(request, query.list_lane_lines, LANES))
    shown = cache(lambda: [presenter.shown_lane(line) for line in read()[0]])
    context = {
        "rows": shown,
        "sentence": lambda: presenter.list_sentence(shown()),
        "pager": lambda: pager(
            shown=len(shown()),
            what="lane" if len(shown()) == 1 else "lanes",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=read()[1],
        ),
    }
    parts = {"rows": "dashboard/grades/rows.html"}
    return answer(request, "dashboard/grades.html", Page(title="Grades", place="grades", parts=parts), context)


@open_to(ANY_GROUP)
@require_safe
def lane(request: HttpRequest, lane: str) -> HttpResponse:
    """Show one lane: its gate, its attempts, what was refused, spent and found, and how it runs again."""
    reader_of(request)
    return _answer_lane(request, lane, ReasonForm(act="resume"))


def _resume_again(request: HttpRequest, typed: QueryDict, lane: str) -> HttpResponse:
    """Show the lane with the reason as it was typed before the person confirmed; it never acts."""
    form = ReasonForm(initial={"reason": typed.get("reason", "")}, act="resume")
    return _answer_lane(request, lane, form, is_open=True)


@open_to(Group.REVIEWER)
@confirmed_recently("let the lane run again", show=_resume_again)
@require_POST
def resume_lane(request: HttpRequest, lane: str) -> HttpResponse:
    """Let a halted lane run again, as a reviewer, with a reason."""
    caller = caller_of(request, Role.REVIEWER)
    form = ReasonForm(request.POST, act="resume")
    if not form.is_valid():
        return _answer_lane(request, lane, form, is_open=True, status=422)
    seen = request.POST.get("halt", "")
    number = int(seen) if seen.isdecimal() and len(seen) <= MAX_SEEN else 0
    result = service.resume_lane(lane, ResumeLane(reason=form.cleaned_data["reason"]), caller, seen=number)
    if isinstance(result, Refusal):
        messages.error(request, f"Nothing was done. {result.detail}")
        return _answer_lane(request, lane, form, is_open=True, status=status_of(result))
    messages.success(request, "The lane runs again. What was found stays on record, and in the count of mixed grades.")
    return redirect(f"{reverse('dashboard:lane', args=[lane])}#main")


@open_to(ANY_GROUP)
@require_safe
def attempt(request: HttpRequest, attempt: str) -> HttpResponse:
    """Show one attempt: a grid of epoch by seq, its line of time, its spend, and what was refused."""
    reader_of(request)
    asked = request.GET.get("first", "0")
    first = min(int(asked), MAX_FIRST) if asked.isdecimal() and len(asked) <= MAX_SEEN else 0
    read = query.read_attempt_page(attempt, first)
    if read is None:
        raise Http404(f"There is no attempt {attempt}.")
    context = {
        "now": read.now,
        "read": read,
        "sentence": presenter.attempt_sentence(read),
        "gate": lambda: _gate_of(read.attempt.lane.name),
        "grid": lambda: presenter.grid_of(read),
        "legend": presenter.STATES,
        "figure": lambda: presenter.figure_of(read),
        "money": lambda: presenter.money_of(read.spend),
        "evidence_url": evidence_url(request, "grade", attempt) if read.grade else "",
    }
    parts = {"grid": "dashboard/attempt/grid.html"}
    return answer(request, "dashboard/attempt.html", Page(title=attempt, place="grades", parts=parts), context)


@open_to(ANY_GROUP)
@require_safe
def fragment(request: HttpRequest, attempt: str, epoch: int, seq: int) -> HttpResponse:
    """Show one cell: its fragment, the permits and spend for it, and what was refused."""
    reader_of(request)
    read = query.read_fragment_page(attempt, epoch, seq) if max(epoch, seq) < 2**53 else None
    if read is None:
        raise Http404("There is no such fragment.")
    body = None if read.fragment is None else strict_json.parse(bytes(read.fragment.body))
    page = Page(title=f"{attempt}, epoch {epoch}, seq {seq}", place="grades")
    return answer(request, "dashboard/fragment.html", page, {"now": read.now, "read": read, "body": body})


def _gate_of(name: str) -> Sentence | None:
    line = query.read_lane_line(name)
    return None if line is None else presenter.lane_sentence(line)


def _answer_lane(
    request: HttpRequest, name: str, form: ReasonForm, *, is_open: bool = False, status: int = 200
) -> HttpResponse:
    read = query.read_lane_page(name)
    if read is None:
        raise Http404(f"There is no lane {name}.")
    lane = read.line.lane
    attempts = cache(lambda: read_page(request, lambda page: query.list_attempt_lines(lane.id, page), ATTEMPTS))
    act = Act(
        id="resume",
        opens="Resume…",
        says=f"Resume: {name} publishes again",
        url=reverse("dashboard:resume_lane", args=[name]),
        seen={"halt": str(read.events[0].number if read.events else 0)},
        form=form,
        explains="The flaw stays on record, and the gate halts for it until a regrade of that attempt is published.",
        why_not=why_not(request.user, Role.REVIEWER),
        is_open=is_open,
        must_confirm=True,
    )
    context = {
        "now": read.now,
        "read": read,
        "shown": presenter.shown_lane(read.line),
        "sentence": presenter.lane_sentence(read.line),
        "money": presenter.money_of(read.spend),
        "attempts": lambda: attempts()[0],
        "act": act if lane.state == LaneState.HALTED else None,
        "pager": lambda: pager(
            shown=len(attempts()[0]),
            what="attempt" if len(attempts()[0]) == 1 else "attempts",
            path=reverse("dashboard:lane", args=[name]),
            query=request.GET.dict(),
            next_cursor=attempts()[1],
        ),
    }
    parts = {"gate": "dashboard/lane/gate.html", "attempts": "dashboard/lane/attempts.html"}
    return answer(request, "dashboard/lane.html", Page(title=name, place="grades", parts=parts), context, status=status)
