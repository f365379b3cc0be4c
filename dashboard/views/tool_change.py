"""One change of a tool that waits: what a second administrator reads, and their word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.conflicts import CONFLICT, conflict_page
from dashboard.pages import Page, answer
from dashboard.presenters import tools as presenter
from dashboard.presenters.acts import Act, Change
from dashboard.tool_forms import DecideForm
from fencing.api.problems import status_of
from fencing.protocol import tool_changes as rules
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.explain.tools import Decided, explain_change
from fencing.protocol.tool_changes import State
from fencing.queries.lookback import Lookback, read_lookback
from fencing.queries.tools import ChangePage, read_change
from fencing.services import tool_changes as service
from fencing.services.tool_changes import DecideChange

SAYS: Final = {State.APPROVED: "Approved", State.REFUSED: "Refused", State.WITHDRAWN: "Withdrawn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A form as it is shown again: which act's, what was typed, and what changed meanwhile."""

    act: str = ""
    form: forms.Form | None = None
    changes: tuple[Change, ...] = field(default=())
    is_open: bool = False
    status: int = 200


FRESH: Final = Shown()


@open_to(ANY_GROUP)
@require_safe
def tool_change(request: HttpRequest, change: str) -> HttpResponse:
    """Show a change with everything that its decision rests on."""
    reader_of(request)
    return _answer(request, _change(change), FRESH)


def _show_again(act: str) -> Any:
    """Make what shows a change with the form of an act as it was typed before the person confirmed; it never acts."""

    def show(request: HttpRequest, typed: QueryDict, change: str) -> HttpResponse:
        form = DecideForm(act=act, initial={"reason": typed.get("reason", "")})
        return _answer(request, _change(change), Shown(act=act, form=form, is_open=True))

    return show


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("approve the change", show=_show_again("approve"))
@require_POST
def approve_tool_change(request: HttpRequest, change: str) -> HttpResponse:
    """Approve the definition that was shown."""
    return _decide(request, change, "approve", service.approve_change)


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("refuse the change", show=_show_again("refuse"))
@require_POST
def refuse_tool_change(request: HttpRequest, change: str) -> HttpResponse:
    """Refuse another administrator's change."""
    return _decide(request, change, "refuse", service.refuse_change)


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("withdraw the change", show=_show_again("withdraw"))
@require_POST
def withdraw_tool_change(request: HttpRequest, change: str) -> HttpResponse:
    """Take back one's own change."""
    return _decide(request, change, "withdraw", service.withdraw_change)


def _decide(
    request: HttpRequest, change: str, act: str, decide: Callable[[str, DecideChange, Caller], Result]
) -> HttpResponse:
    caller = caller_of(request, Role.ADMINISTRATOR)
    form = DecideForm(request.POST, act=act)
    if not form.is_valid():
        return _answer(request, _change(change), Shown(act=act, form=form, status=422))
    asked = DecideChange(digest=request.POST.get("digest", ""), reason=form.cleaned_data["reason"])
    result = decide(change, asked, caller)
    if isinstance(result, Refusal):
        return _refused(request, _change(change), result, act, form)
    messages.success(request, _told(result.body))
    return redirect(f"{reverse('dashboard:tool_change', args=[change])}#main")


def _refused(request: HttpRequest, found: ChangePage, refusal: Refusal, act: str, form: forms.Form) -> HttpResponse:
    changes, status = _meanwhile(found), status_of(refusal)
    if found.line.state is not State.PENDING and status == CONFLICT:
        url = reverse("dashboard:tool_change", args=[found.line.id])
        typed = request.POST.get("reason", "")
        return conflict_page(request, _page(found), told=refusal.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was done. {refusal.detail}")
    return _answer(request, found, Shown(act=act, form=form, changes=changes, status=status))


def _page(found: ChangePage) -> Page:
    return Page(title=f"Change of {found.line.tool}", place="tools")


def _told(body: Any) -> str:
    state = State(body["state"])
    if body.get("duplicate"):
        return "You had said so already: nothing is new."
    if state is State.PENDING:
        return f"Your approval is stored. {body['missing']} more has to come from another administrator."
    version = f" It is version {body['version']} now." if "version" in body else ""
    return f"{SAYS[state]}.{version}"


def _meanwhile(found: ChangePage) -> tuple[Change, ...]:
    """Tell what is new since the person looked: how the change ended, or what another version changed."""
    line = found.line
    if line.state is not State.PENDING:
        return (Change(what="the change", seen="waits", now=presenter.change_mark(line).word),)
    if not line.pending.is_stale:
        return ()
    version = Change(what="version", seen=str(line.pending.base), now=str(line.pending.current))
    return (version, *(Change(what=each.pointer, seen=each.was, now=each.now) for each in found.since))


def _change(change: str) -> ChangePage:
    found = read_change(change)
    if found is None:
        raise Http404("There is no such change.")
    return found


def _answer(request: HttpRequest, found: ChangePage, shown: Shown) -> HttpResponse:
    line = found.line
    lookback, is_fresh = _lookback(request, found)
    decided = None if line.closed_at is None else Decided(by=line.closed_by, at=line.closed_at)
    context = {
        "change": line,
        "tool": line.tool,
        "mark": presenter.change_mark(line),
        "sentence": explain_change(
            line.pending, weakenings=len(line.weakens), proposer=line.proposer, now=found.now, decided=decided
        ),
        "differences": presenter.differences(found.changes),
        "since": presenter.differences(found.since),
        "lookback": presenter.lookback_view(lookback, line.tool),
        "is_fresh": is_fresh,
        "whole": found.wanted.as_json(),
        "base": found.base.as_json(),
        "acts": _acts(request, found, shown),
        "missing": line.pending.missing,
    }
    return answer(request, "dashboard/tool_change.html", _page(found), context, status=shown.status)


def _lookback(request: HttpRequest, found: ChangePage) -> tuple[Lookback, bool]:
    """The figures that the proposer saw; as of now where that is asked for, or where nobody saw any."""
    if found.lookback is not None and "again" not in request.GET:
        return found.lookback, False
    return read_lookback(found.base, found.wanted), True


def _acts(request: HttpRequest, found: ChangePage, shown: Shown) -> list[Act]:
    """Approving stands first and refusing last: opposites are never beside each other."""
    line = found.line
    if line.state is not State.PENDING:
        return []
    person = request.user.pk or 0
    if person == line.pending.proposer:
        own = "You proposed it: another administrator approves it."
        return [_act("approve", found, shown, why=own), _act("withdraw", found, shown, why=_why(request))]
    refusal = rules.check_approval(line.pending, person=person, digest=line.digest, now=found.now)
    said = "You approved it already; another administrator has to." if person in line.pending.approvers else ""
    why = _why(request) or said or (refusal.detail if refusal else "")
    return [_act("approve", found, shown, why=why), _act("refuse", found, shown, why=_why(request))]


def _why(request: HttpRequest) -> str:
    return why_not(request.user, Role.ADMINISTRATOR)


def _act(name: str, found: ChangePage, shown: Shown, *, why: str) -> Act:
    tool = found.line.tool
    short = tool if len(tool) <= 32 else f"{tool[:20]}…{tool[-8:]}"  # noqa: PLR2004 - the width of a button
    says = {
        "approve": f"Approve: {short} fences less from now on",
        "refuse": f"Refuse the change of {short}",
        "withdraw": f"Withdraw the change of {short}",
    }
    is_its = shown.act == name
    return Act(
        id=name,
        opens=f"{name.capitalize()}…",
        says=says[name],
        url=reverse(f"dashboard:{name}_tool_change", args=[str(found.line.id)]) + f"#{name}",
        seen={"digest": found.line.digest},
        form=shown.form if is_its and shown.form is not None else DecideForm(act=name),
        why_not=why if not (is_its and shown.changes) else "",
        changes=shown.changes if is_its else (),
        is_open=is_its and shown.is_open,
        must_confirm=True,
    )
