"""Freezes: on-call stops a tool, a run or everything in two taps; another person lifts it with a reason (L10)."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import freezing
from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.conflicts import changes_between, conflict_page, facts_seen
from dashboard.grant_forms import FreezeForm, ReasonForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import freezes as presenter
from dashboard.presenters.acts import Act
from dashboard.presenters.lists import pager
from fencing.api.problems import status_of
from fencing.models.facts import read_clock
from fencing.protocol.callers import Role
from fencing.protocol.errors import Code, Refusal
from fencing.queries import freezes as query
from fencing.queries.fenced_tools import side_effecting_tools
from fencing.services import freezes as service
from fencing.services.requests import DecideGrant, SetFreeze

LIMIT: Final = 50
PAGE: Final = Page(
    title="Freezes",
    place="freezes",
    parts={"standing": "dashboard/freezes/standing.html", "rows": "dashboard/freezes/rows.html"},
)
OWN: Final = "You set this freeze: another person lifts it."


@open_to(ANY_GROUP)
@require_safe
def freezes(request: HttpRequest) -> HttpResponse:
    """List what stands still, and every freeze that there was."""
    reader_of(request)
    now = read_clock()
    standing = cache(query.live_freezes)
    page = cache(lambda: read_page(request, lambda part: query.list_freeze_lines({}, part), LIMIT))
    context = {
        "now": now,
        "standing": cache(lambda: presenter.lines_of(standing(), now)),
        "sentence": lambda: presenter.list_sentence(len(standing())),
        "rows": cache(lambda: presenter.lines_of(page()[0], now)),
        "act": lambda: freezing.freeze_act(request.user, freezing.scopes(others=side_effecting_tools())),
        "pager": lambda: pager(
            shown=len(page()[0]),
            what="freeze" if len(page()[0]) == 1 else "freezes",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=page()[1],
        ),
    }
    return answer(request, "dashboard/freezes.html", PAGE, context)


@open_to(ANY_GROUP)
@require_safe
def freeze(request: HttpRequest, freeze: uuid.UUID) -> HttpResponse:
    """Show one freeze: what it stopped, what was out already, and how it is lifted."""
    reader_of(request)
    return _answer(request, freeze, ReasonForm(act="lift"))


def _freeze_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    """Show the freeze as it was typed before the person confirmed; it never acts."""
    given = {"scope": typed.get("scope", ""), "reason": typed.get("reason", "")}
    return _asked(request, FreezeForm(_choices(given["scope"]), initial=given))


@open_to(Group.ONCALL)
@confirmed_recently("freeze it", show=_freeze_again)
@require_POST
def set_freeze(request: HttpRequest) -> HttpResponse:
    """Freeze at once; a second tap finds what the first one made."""
    caller = caller_of(request, Role.ONCALL)
    form = FreezeForm(_choices(request.POST.get("scope", "")), request.POST)
    if not form.is_valid():
        return _asked(request, form, status=422)
    scope = freezing.scope_of(form.cleaned_data["scope"]) or {}
    result = service.freeze(SetFreeze(scope=scope, reason=form.cleaned_data["reason"]), caller)
    if isinstance(result, Refusal):
        form.add_error("reason" if result.code is Code.REASON_REQUIRED else None, result.detail)
        return _asked(request, form, status=status_of(result))
    told = "It was frozen already" if result.body.get("duplicate") else "Frozen"
    messages.success(request, f"{told}. What was stopped and what is out already stands below, as stored.")
    return redirect(f"{reverse('dashboard:freeze', args=[result.body['id']])}#main")


def _lift_again(request: HttpRequest, typed: QueryDict, freeze: uuid.UUID) -> HttpResponse:
    """Show the freeze with the reason as it was typed before the person confirmed; it never acts."""
    form = ReasonForm(initial={"reason": typed.get("reason", "")}, act="lift")
    return _answer(request, freeze, form, is_open=True)


@open_to(Group.ONCALL)
@confirmed_recently("lift the freeze", show=_lift_again)
@require_POST
def lift_freeze(request: HttpRequest, freeze: uuid.UUID) -> HttpResponse:
    """Lift a freeze that another person set."""
    caller = caller_of(request, Role.ONCALL)
    form = ReasonForm(request.POST, act="lift")
    if not form.is_valid():
        return _answer(request, freeze, form, is_open=True, status=422)
    result = service.lift_freeze(str(freeze), DecideGrant(reason=form.cleaned_data["reason"]), caller)
    if isinstance(result, Refusal):
        found, seen = _freeze(freeze), facts_seen(request)
        if found.lifted_at is not None and seen:
            page, url = Page(title=presenter.title_of(found), place="freezes"), _url("freeze", freeze)
            changes = changes_between(seen, presenter.facts_of(found))
            typed = request.POST.get("reason", "")
            return conflict_page(request, page, told=result.detail, changes=changes, url=url, typed=typed)
        if result.code is Code.REASON_REQUIRED:
            form.add_error("reason", result.detail)
        else:
            messages.error(request, f"Nothing was done. {result.detail}")
        return _answer(request, freeze, form, is_open=True, status=status_of(result))
    messages.success(request, "Lifted. What is committed is admitted again; the grants that it ended stay ended.")
    return redirect(f"{_url('freeze', freeze)}#main")


def _freeze(freeze_id: uuid.UUID) -> query.Freeze:
    found = query.read_freeze(str(freeze_id))
    if found is None:
        raise Http404("There is no such freeze.")
    return found


def _url(view: str, freeze_id: uuid.UUID) -> str:
    return reverse(f"dashboard:{view}", args=[freeze_id])


def _choices(chosen: str) -> list[tuple[str, str]]:
    """Give what can be chosen where a freeze is asked for again: the thing that was chosen, and everything."""
    scope = freezing.scope_of(chosen.replace("\x00", "")) or {}
    others = [] if scope else side_effecting_tools()
    return freezing.scopes(tool=scope.get("tool") or "", run=scope.get("run") or "", others=others)


def _asked(request: HttpRequest, form: FreezeForm, status: int = 200) -> HttpResponse:
    field = form.fields["scope"]
    act = freezing.freeze_act(request.user, list(field.choices), form)  # type: ignore[attr-defined]  # a ChoiceField
    page = Page(title="Freeze", place="freezes")
    return answer(request, "dashboard/freezes/asked.html", page, {"now": read_clock(), "act": act}, status=status)


def _answer(
    request: HttpRequest, freeze_id: uuid.UUID, form: ReasonForm, *, is_open: bool = False, status: int = 200
) -> HttpResponse:
    found, now = _freeze(freeze_id), read_clock()
    lift = Act(
        id="lift",
        opens="Lift…",
        says="Lift the freeze: what is committed is admitted again",
        url=_url("lift_freeze", freeze_id),
        facts=presenter.facts_of(found),
        form=form,
        explains="Grants that it ended stay ended, and what it revoked stays revoked.",
        why_not=why_not(request.user, Role.ONCALL) or (OWN if found.by_id == request.user.pk else ""),
        is_open=is_open,
        must_confirm=True,
    )
    context = {"now": now, "line": presenter.line_of(found, now), "act": lift if found.lifted_at is None else None}
    page = Page(title=presenter.title_of(found), place="freezes")
    return answer(request, "dashboard/freeze.html", page, context, status=status)
