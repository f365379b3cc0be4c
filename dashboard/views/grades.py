"""Grades: lanes and their gates, an attempt cell by cell, one fragment.

What a reviewer does here: asks something else of a lane (A5), and lets a halted one run again (A4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.conflicts import changes_between, facts_seen
from dashboard.grant_forms import ReasonForm
from dashboard.lane_forms import ThresholdsForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import grades as presenter
from dashboard.presenters.acts import Act
from dashboard.presenters.lists import pager
from dashboard.views.evidence import evidence_url
from fencing.api.problems import status_of
from fencing.protocol import strict_json
from fencing.protocol.callers import Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.explain import Sentence
from fencing.protocol.grades import LaneState
from fencing.queries import grade_pages as query
from fencing.services import lanes as service
from fencing.services.requests import ResumeLane

LANES: Final = 25
ATTEMPTS: Final = 50
MAX_FIRST: Final = 10_000
MAX_SEEN: Final = 9
WRONG: Final = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The form of an act as it was sent, where the lane is shown again with it.

    `seen` are the facts that it was sent with, where they are no longer so.
    """

    act: str = ""
    resume: ReasonForm | None = None
    ask: ThresholdsForm | None = None
    seen: Mapping[str, str] | None = None
    status: int = 200


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
    return _answer_lane(request, lane, Shown())


def _resume_again(request: HttpRequest, typed: QueryDict, lane: str) -> HttpResponse:
    """Show the lane with the reason as it was typed before the person confirmed; it never acts."""
    form = ReasonForm(initial={"reason": typed.get("reason", "")}, act="resume")
    return _answer_lane(request, lane, Shown(act="resume", resume=form))


@open_to(Group.REVIEWER)
@confirmed_recently("let the lane run again", show=_resume_again)
@require_POST
def resume_lane(request: HttpRequest, lane: str) -> HttpResponse:
    """Let a halted lane run again, as a reviewer, with a reason."""
    caller = caller_of(request, Role.REVIEWER)
    form = ReasonForm(request.POST, act="resume")
    if not form.is_valid():
        return _answer_lane(request, lane, Shown(act="resume", resume=form, status=WRONG))
    asked = ResumeLane(reason=form.cleaned_data["reason"])
    result = service.resume_lane(lane, asked, caller, seen=_seen(request, "halt"))
    if isinstance(result, Refusal):
        messages.error(request, f"Nothing was done. {result.detail}")
        return _answer_lane(request, lane, Shown(act="resume", resume=form, status=status_of(result)))
    messages.success(request, "The lane runs again. What was found stays on record, and in the count of mixed grades.")
    return redirect(f"{reverse('dashboard:lane', args=[lane])}#main")


def _ask_again(request: HttpRequest, typed: QueryDict, lane: str) -> HttpResponse:
    """Show the lane with the thresholds as they were typed before the person confirmed; it never acts."""
    return _answer_lane(request, lane, Shown(act="ask", ask=ThresholdsForm(initial=typed.dict())))


@open_to(Group.REVIEWER)
@confirmed_recently("ask something else of the lane", show=_ask_again)
@require_POST
def set_thresholds(request: HttpRequest, lane: str) -> HttpResponse:
    """Ask something else of a lane from now on, as a reviewer, with a reason; it is the next version."""
    caller = caller_of(request, Role.REVIEWER)
    form = ThresholdsForm(request.POST)
    if not form.is_valid() or form.request is None:
        return _answer_lane(request, lane, Shown(act="ask", ask=form, status=WRONG))
    result = service.set_thresholds(lane, form.request, caller, seen=_seen(request, "version"))
    if isinstance(result, Refusal):
        messages.error(request, f"Nothing was done. {result.detail}")
        seen = facts_seen(request) if result.code is Code.CHANGED else None
        return _answer_lane(request, lane, Shown(act="ask", ask=form, seen=seen, status=status_of(result)))
    is_new = not result.body.get("duplicate")
    told = f"Stored: the gate goes by version {result.body['thresholds_version']} from now on."
    messages.success(request, told if is_new else "You had asked this already: nothing is new.")
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


def _seen(request: HttpRequest, name: str) -> int:
    """Read the number of what the person looked at; one that is none was never there."""
    told = request.POST.get(name, "")
    return int(told) if told.isdecimal() and len(told) <= MAX_SEEN else 0


def _answer_lane(request: HttpRequest, name: str, shown: Shown) -> HttpResponse:
    read = query.read_lane_page(name)
    if read is None:
        raise Http404(f"There is no lane {name}.")
    lane = read.line.lane
    attempts = cache(lambda: read_page(request, lambda page: query.list_attempt_lines(lane.id, page), ATTEMPTS))
    context = {
        "now": read.now,
        "read": read,
        "shown": presenter.shown_lane(read.line),
        "sentence": presenter.lane_sentence(read.line),
        "money": presenter.money_of(read.spend),
        "attempts": lambda: attempts()[0],
        "asked": read.versions[0],
        "ask": _ask_act(request, read, shown),
        "resume": _resume_act(request, read, shown) if lane.state == LaneState.HALTED else None,
        "pager": lambda: pager(
            shown=len(attempts()[0]),
            what="attempt" if len(attempts()[0]) == 1 else "attempts",
            path=reverse("dashboard:lane", args=[name]),
            query=request.GET.dict(),
            next_cursor=attempts()[1],
        ),
    }
    parts = {"gate": "dashboard/lane/gate.html", "attempts": "dashboard/lane/attempts.html"}
    page = Page(title=name, place="grades", parts=parts)
    return answer(request, "dashboard/lane.html", page, context, status=shown.status)


def _resume_act(request: HttpRequest, read: query.LanePage, shown: Shown) -> Act:
    name = read.line.lane.name
    return Act(
        id="resume",
        opens="Resume…",
        says=f"Resume: {name} publishes again",
        url=reverse("dashboard:resume_lane", args=[name]),
        seen={"halt": str(read.events[0].number if read.events else 0)},
        form=shown.resume or ReasonForm(act="resume"),
        explains="The flaw stays on record, and the gate halts for it until a regrade of that attempt is published.",
        why_not=why_not(request.user, Role.REVIEWER),
        is_open=shown.act == "resume",
        must_confirm=True,
    )


def _ask_act(request: HttpRequest, read: query.LanePage, shown: Shown) -> Act:
    now = read.versions[0]
    facts = presenter.asked_of(now)
    return Act(
        id="ask",
        opens="Ask something else…",
        says=f"Ask this from now on, as version {now.version + 1}",
        url=reverse("dashboard:set_thresholds", args=[read.line.lane.name]),
        seen={"version": str(now.version)},
        form=shown.ask or ThresholdsForm(initial=dict(now.thresholds)),
        explains="The gate goes by it from its next answer on; what it said before names the version that it went by.",
        why_not=why_not(request.user, Role.REVIEWER),
        changes=() if shown.seen is None else changes_between(shown.seen, facts),
        is_open=shown.act == "ask",
        facts=facts,
        must_confirm=True,
    )
