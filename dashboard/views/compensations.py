"""Compensations: what would be undone, exactly, and the decisions of people about it (P1 to P7)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.compensation_forms import RecordForm, WordsForm
from dashboard.conflicts import CONFLICT, changes_between, conflict_page, facts_seen, has_room
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import compensations as presenter
from dashboard.presenters.acts import Act, Change
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from dashboard.side_log_forms import chosen_rows
from dashboard.views.evidence import evidence_url
from dashboard.views.read_backs import read_back_act
from fencing.api.problems import status_of
from fencing.gateway import compensating as service
from fencing.models.facts import read_clock
from fencing.protocol import deciding
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.compensations import State
from fencing.protocol.errors import Refusal
from fencing.queries import undoings as query
from fencing.services.requests import (
    ApproveCompensation,
    RecordCompensation,
    ResolveCompensation,
    WaiveCompensation,
)

LIMIT: Final = 50
MOST_CHOSEN: Final = 50
UNPROCESSABLE: Final = 422
PAGE: Final = Page(
    title="Compensations",
    place="compensations",
    parts={"waiting": "dashboard/compensations/waiting.html", "rows": "dashboard/compensations/rows.html"},
)


@open_to(ANY_GROUP)
@require_safe
def compensations(request: HttpRequest) -> HttpResponse:
    """List what waits, in the order of undoing, and everything that there was."""
    reader_of(request)
    state = request.GET.get("state", "")
    state = state if state in {each.value for each in State} else ""
    page = cache(lambda: read_page(request, lambda part: query.list_lines(state, part), LIMIT))
    chosen = choices([(each.value, each.value.replace("_", " ")) for each in State], state)
    waiting = cache(query.open_lines)
    context = {
        "now": read_clock(),
        "waiting": waiting,
        "sentence": lambda: presenter.list_sentence(
            sum(each.row.state in ("proposed", "in_doubt") for each in waiting()), len(waiting())
        ),
        "why_not": why_not(request.user, Role.REVIEWER),
        "rows": lambda: page()[0],
        "bar": FilterBar(
            filters=(Filter(name="state", label="State", value=state, choices=chosen),), clear_url=request.path
        ),
        "pager": lambda: pager(
            shown=len(page()[0]),
            what="compensation" if len(page()[0]) == 1 else "compensations",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=page()[1],
        ),
    }
    return answer(request, "dashboard/compensations.html", PAGE, context)


@open_to(ANY_GROUP)
@require_safe
def compensation(request: HttpRequest, compensation: uuid.UUID) -> HttpResponse:
    """Show one: exactly what would be sent, what that undoes, and who may decide."""
    reader_of(request)
    return _answer(request, _read(compensation))


def _again(act: str) -> Any:
    """Make what shows a compensation with a form as it was typed before the person confirmed; it never acts."""

    def show(request: HttpRequest, typed: QueryDict, compensation: uuid.UUID) -> HttpResponse:
        form = _form_of(act)(initial=typed.dict(), act=act)
        return _answer(request, _read(compensation), act=act, form=form)

    return show


@open_to(Group.REVIEWER)
@confirmed_recently("approve the undoing", show=_again("approve"))
@require_POST
def approve_compensation(request: HttpRequest, compensation: uuid.UUID) -> HttpResponse:
    """Approve exactly what was shown, by its digest."""

    def decide(form: forms.Form, caller: Caller) -> Result:
        digest = request.POST.get("digest", "")
        asked = ApproveCompensation(digest=digest, reason=form.cleaned_data["reason"])
        return service.approve(str(compensation), asked, caller)

    return _decide(request, compensation, "approve", decide)


@open_to(Group.REVIEWER)
@confirmed_recently("let the effect stand", show=_again("waive"))
@require_POST
def waive_compensation(request: HttpRequest, compensation: uuid.UUID) -> HttpResponse:
    """Let the effect stand, for a reason, having seen what would undo it."""

    def decide(form: forms.Form, caller: Caller) -> Result:
        asked = WaiveCompensation(digest=request.POST.get("digest") or None, reason=form.cleaned_data["reason"])
        return service.waive(str(compensation), asked, caller)

    return _decide(request, compensation, "waive", decide)


@open_to(Group.REVIEWER)
@confirmed_recently("record what was done", show=_again("record"))
@require_POST
def record_compensation(request: HttpRequest, compensation: uuid.UUID) -> HttpResponse:
    """Record what was done by hand, with evidence."""

    def decide(form: forms.Form, caller: Caller) -> Result:
        data = form.cleaned_data
        asked = RecordCompensation(evidence=data["reason"], external_id=data.get("external_id") or None)
        return service.record(str(compensation), asked, caller)

    return _decide(request, compensation, "record", decide)


@open_to(Group.REVIEWER)
@confirmed_recently("say what became of the undoing")
@require_POST
def resolve_compensation(request: HttpRequest, compensation: uuid.UUID) -> HttpResponse:
    """Say, with evidence, whether an undoing in doubt happened."""
    act = "happened" if request.POST.get("happened") == "yes" else "not_happened"

    def decide(form: forms.Form, caller: Caller) -> Result:
        asked = ResolveCompensation(happened=act == "happened", evidence=form.cleaned_data["reason"])
        return service.resolve(str(compensation), asked, caller)

    return _decide(request, compensation, act, decide)


TOLD: Final = {
    "approve": "Your approval is stored",
    "waive": "The effect stands by your word, as stored",
    "record": "What was done by hand is stored",
    "happened": "It is undone, as you said",
    "not_happened": "It is not undone, as you said",
}


def _decide(request: HttpRequest, compensation_id: uuid.UUID, act: str, decide: Any) -> HttpResponse:
    caller = caller_of(request, Role.REVIEWER)
    form = _form_of(act)(request.POST, act=act)
    if not form.is_valid():
        return _answer(request, _read(compensation_id), act=act, form=form, status=UNPROCESSABLE)
    result = decide(form, caller)
    if isinstance(result, Refusal):
        return _refused(request, compensation_id, result, act, form)
    state = str(result.body["state"]).replace("_", " ")
    told = "You had said so already" if result.body.get("duplicate") else TOLD[act]
    messages.success(request, f"{told}: it is {state} now.")
    return redirect(f"{_url('compensation', compensation_id)}#main")


def _form_of(act: str) -> type[WordsForm]:
    return RecordForm if act == "record" else WordsForm


def _read(compensation_id: uuid.UUID) -> query.Read:
    read = query.read(compensation_id)
    if read is None:
        raise Http404("There is no such compensation.")
    return read


def _refused(
    request: HttpRequest, compensation_id: uuid.UUID, refusal: Refusal, act: str, form: forms.Form
) -> HttpResponse:
    read, seen = _read(compensation_id), facts_seen(request)
    changes = changes_between(seen, presenter.facts_of(read)) if seen else ()
    if changes and status_of(refusal) == CONFLICT and not has_room(_acts(request, read), act):
        typed, url = request.POST.get("reason", ""), _url("compensation", compensation_id)
        return conflict_page(request, _page(read), told=refusal.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was decided. {refusal.detail}")
    return _answer(request, read, act=act, form=form, changes=changes, status=status_of(refusal))


def _page(read: query.Read) -> Page:
    return Page(title=f"Undo {read.row.tool}", place="compensations")


def _answer(
    request: HttpRequest,
    read: query.Read,
    *,
    act: str = "",
    form: forms.Form | None = None,
    changes: tuple[Change, ...] = (),
    status: int = 200,
) -> HttpResponse:
    context = {
        "now": read_clock(),
        "read": read,
        "row": read.row,
        "sentence": presenter.sentence_of(read),
        "cause": presenter.cause_of(read.row.cause),
        "action": presenter.masked(read.action, read.sensitive),
        "effect": presenter.masked(read.effect_action, read.effect_sensitive),
        "left": presenter.authority_of(read),
        "may": query.people_who_may(read.pure),
        "acts": _acts(request, read, act=act, form=form, changes=changes),
        "later": [each for each in read.others if _is_later(each, read)],
        "earlier": [each for each in read.others if not _is_later(each, read)],
        "evidence_url": evidence_url(request, "compensation", str(read.row.pk)),
    }
    return answer(request, "dashboard/compensation.html", _page(read), context, status=status)


def _is_later(line: query.Line, read: query.Read) -> bool:
    mine, its = read.row.effect_at, line.row.effect_at
    return mine is not None and its is not None and its > mine


def _acts(
    request: HttpRequest,
    read: query.Read,
    *,
    act: str = "",
    form: forms.Form | None = None,
    changes: tuple[Change, ...] = (),
) -> list[Act]:
    """Give the acts that its state has room for; opposites stand apart on the page."""
    found = [*_open_acts(request, read), *_asking(request, read), *_doubt_acts(request, read)]
    if not act:
        return found
    return [
        Act(
            id=each.id, opens=each.opens, says=each.says, url=each.url, seen=each.seen, facts=each.facts,
            form=form or each.form, explains=each.explains, why_not=each.why_not, changes=changes, is_open=True,
            must_confirm=True,
        )
        if each.id == act
        else each
        for each in found
    ]  # fmt: skip


def _open_acts(request: HttpRequest, read: query.Read) -> list[Act]:
    if read.pure.state not in (State.PROPOSED, State.HELD):
        return []
    facts, digest = presenter.facts_of(read), read.row.payload_id or ""
    person = request.user.pk or 0
    group = why_not(request.user, Role.REVIEWER)
    found = []
    if read.row.payload_id is not None:
        refusal = deciding.may_not_approve(read.pure, person)
        left = read.row.needed - len(read.pure.approvals)
        people = "you alone decide" if left == 1 else f"{left} more people have to approve it, you are one of them"
        found.append(
            Act(
                id="approve",
                opens="Approve…",
                says=f"Approve: call {_tool(read)} exactly as shown",
                url=_url("approve_compensation", read.row.pk),
                seen={"digest": digest},
                facts=facts,
                form=WordsForm(act="approve"),
                explains=f"It is called once, with what is shown and nothing else; {people}.",
                why_not=group or (refusal.detail if refusal else ""),
                must_confirm=True,
            )
        )
    else:
        refusal = deciding.record(read.pure)
        found.append(
            Act(
                id="record",
                opens="Record…",
                says="Store that it was undone by hand",
                url=_url("record_compensation", read.row.pk),
                facts=facts,
                form=RecordForm(act="record"),
                explains="No compensator undoes it. Do it in the tool, then say what you did.",
                why_not=group or (refusal.detail if refusal else ""),
                must_confirm=True,
            )
        )
    found.append(
        Act(
            id="waive",
            opens="Let it stand…",
            says="Let the effect stand: nothing is undone",
            url=_url("waive_compensation", read.row.pk),
            seen={"digest": digest} if digest else {},
            facts=facts,
            form=WordsForm(act="waive"),
            explains="The effect stays as it is, for good, by your word.",
            why_not=group,
            must_confirm=True,
        )
    )
    return found


def _doubt_acts(request: HttpRequest, read: query.Read) -> list[Act]:
    if read.pure.state is not State.IN_DOUBT:
        return []
    group, url = why_not(request.user, Role.REVIEWER), _url("resolve_compensation", read.row.pk)
    return [
        Act(
            id=act,
            opens=opens,
            says=says,
            url=url,
            seen={"happened": seen},
            facts=presenter.facts_of(read),
            form=WordsForm(act=act),
            explains=explains,
            why_not=group,
            must_confirm=True,
        )
        for act, opens, says, seen, explains in (
            ("happened", "It was undone…", "Say that it was undone", "yes", "The tool did it: it is over."),
            ("not_happened", "It was not undone…", "Say that it was not undone", "no",
             "The tool did not do it: it is proposed again, and a person decides anew."),
        )
    ]  # fmt: skip


def _asking(request: HttpRequest, read: query.Read) -> list[Act]:
    url = _url("read_back_compensation", read.row.pk)
    act = read_back_act(request, read.called, url) if read.tries else None
    return [] if act is None else [act]


def _tool(read: query.Read) -> str:
    return str(read.action["tool"]) if read.action else ""


def _url(view: str, compensation_id: object) -> str:
    return reverse(f"dashboard:{view}", args=[compensation_id])


# ---- many at once: only what is listed, each with its own digest ----


def _bulk_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    """Show the confirmation again as it was typed before the person confirmed; it never acts."""
    return _confirmation(request, chosen_rows(typed.getlist("row")), WordsForm(initial=typed.dict(), act="bulk"))


@open_to(Group.REVIEWER)
@require_safe
def choose_compensations(request: HttpRequest) -> HttpResponse:
    """List what was chosen, each with exactly what would be sent, and ask for one decision about all of it."""
    return _confirmation(request, chosen_rows(request.GET.getlist("row")), WordsForm(act="bulk"))


@open_to(Group.REVIEWER)
@confirmed_recently("decide on all of these", show=_bulk_again)
@require_http_methods(["POST"])
def decide_compensations(request: HttpRequest) -> HttpResponse:
    """Approve or waive each that was listed, by the digest that was listed with it; what changed is left out."""
    caller = caller_of(request, Role.REVIEWER)
    form = WordsForm(request.POST, act="bulk")
    ids = chosen_rows(request.POST.getlist("row"))[:MOST_CHOSEN]
    if not form.is_valid() or not ids:
        return _confirmation(request, ids, form, status=UNPROCESSABLE)
    is_waived = request.POST.get("decision") == "waive"
    done, refused = 0, []
    for each in ids:
        result = _decide_one(
            each, request.POST.get(f"digest-{each}", ""), form.cleaned_data["reason"], caller, is_waived
        )
        if isinstance(result, Refusal):
            refused.append(result.detail)
        else:
            done += 1
    word = "stand by your word" if is_waived else "have your approval"
    if done:
        messages.success(request, f"{done} {word}, as stored.")
    for detail in refused[:5]:
        messages.error(request, f"One was left as it is. {detail}")
    return redirect(reverse("dashboard:compensations"))


def _decide_one(compensation_id: uuid.UUID, digest: str, reason: str, caller: Caller, is_waived: bool) -> Result:  # noqa: FBT001
    if is_waived:
        return service.waive(str(compensation_id), WaiveCompensation(digest=digest or None, reason=reason), caller)
    return service.approve(str(compensation_id), ApproveCompensation(digest=digest, reason=reason), caller)


def _confirmation(
    request: HttpRequest, ids: Sequence[uuid.UUID], form: WordsForm, *, status: int = 200
) -> HttpResponse:
    lines = [each for each in query.read_lines(ids[:MOST_CHOSEN]) if each.row.state in ("proposed", "held")]
    pure = query.pure_of([each.row for each in lines])
    person = request.user.pk or 0
    listed = [(each, deciding.may_not_approve(pure[each.row.pk], person)) for each in lines]
    context = {
        "now": read_clock(),
        "lines": [each for each, refusal in listed if refusal is None],
        "refused": [(each, refusal.detail) for each, refusal in listed if refusal is not None],
        "form": form,
        "is_cut": len(ids) > MOST_CHOSEN,
        "most": MOST_CHOSEN,
    }
    page = Page(title="Decide on several", place="compensations")
    return answer(request, "dashboard/choose_compensations.html", page, context, status=status)
