"""Effects: what was wanted, what left, and what became of it; and what nobody knows, for a person to say (L6, L8)."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, open_to, reader_of, why_not
from dashboard.conflicts import changes_between, conflict_page, facts_seen
from dashboard.effect_forms import AdoptForm, EvidenceForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import effects as presenter
from dashboard.presenters.acts import Act
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from dashboard.views.read_backs import read_back_act
from fencing.api.problems import status_of
from fencing.gateway import adopting, outcomes
from fencing.models import Intent
from fencing.models.facts import read_clock
from fencing.protocol.answers import Result
from fencing.protocol.callers import Role
from fencing.protocol.errors import Code, Refusal
from fencing.queries import effects as query
from fencing.services.requests import AdoptEffect, ResolveIntent

LIMIT: Final = 50
EFFECTS: Final = Page(title="Effects", place="effects", parts={"rows": "dashboard/effects/rows.html"})
DOUBT: Final = Page(title="In doubt", place="doubt", parts={"rows": "dashboard/effects/doubts.html"})


@open_to(ANY_GROUP)
@require_safe
def effects(request: HttpRequest) -> HttpResponse:
    """List effects, newest first, and the push tools that are left alone."""
    reader_of(request)
    wanted = {name: text for name in ("state", "tool", "run") if (text := _text(request, name))}
    if wanted.get("state") not in {None, *Intent.State.values}:
        del wanted["state"]
    page = cache(lambda: read_page(request, lambda part: query.list_effects(wanted, part), LIMIT))
    context = {
        "now": read_clock(),
        "rows": lambda: page()[0],
        "troubled": [(row, presenter.breaker_words(row)) for row in query.troubled_tools()],
        "bar": FilterBar(
            filters=(
                Filter(
                    name="state",
                    label="State",
                    value=wanted.get("state", ""),
                    choices=choices(
                        [(state, state.replace("_", " ")) for state in Intent.State.values], wanted.get("state", "")
                    ),
                ),
                Filter(name="tool", label="Tool", value=_text(request, "tool"), hint="refund"),
                Filter(name="run", label="Run", value=_text(request, "run")),
            ),
            clear_url=request.path,
        ),
        "pager": lambda: pager(
            shown=len(page()[0]),
            what="effect" if len(page()[0]) == 1 else "effects",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=page()[1],
        ),
    }
    return answer(request, "dashboard/effects.html", EFFECTS, context)


@open_to(ANY_GROUP)
@require_safe
def doubt(request: HttpRequest) -> HttpResponse:
    """List what may have happened and nobody knows, the oldest first."""
    reader_of(request)
    found = cache(query.doubts)
    context = {
        "now": read_clock(),
        "rows": found,
        "sentence": lambda: presenter.doubts_sentence(len(found())),
    }
    return answer(request, "dashboard/doubt.html", DOUBT, context)


@open_to(ANY_GROUP)
@require_safe
def effect(request: HttpRequest, intent: uuid.UUID) -> HttpResponse:
    """Show one effect: claims, tries, outcomes, ledger rows, and what a person may say of it."""
    reader_of(request)
    return _answer(request, intent)


@open_to(Group.REVIEWER)
@require_POST
def effect_happened(request: HttpRequest, intent: uuid.UUID) -> HttpResponse:
    """Take a person's word that it happened."""
    return _resolve(request, intent, happened=True)


@open_to(Group.REVIEWER)
@require_POST
def effect_did_not_happen(request: HttpRequest, intent: uuid.UUID) -> HttpResponse:
    """Take a person's word that it did not happen."""
    return _resolve(request, intent, happened=False)


@open_to(Group.REVIEWER)
@require_POST
def adopt_effect(request: HttpRequest, intent: uuid.UUID) -> HttpResponse:
    """Adopt an open escape of this very action: it is not sent again."""
    caller = caller_of(request, Role.REVIEWER)
    form = AdoptForm(_escapes(intent), request.POST)
    if not form.is_valid():
        return _answer(request, intent, adopt=form, status=422)
    asked = AdoptEffect(incident=form.cleaned_data["incident"], reason=form.cleaned_data["reason"])
    result = adopting.adopt_effect(str(intent), asked, caller)
    if isinstance(result, Refusal):
        return _refused(request, intent, result, typed=asked.reason, adopt=form)
    messages.success(request, "Adopted: it is not sent again, and stays counted as an escape.")
    return redirect(f"{_url('effect', intent)}#main")


def _resolve(request: HttpRequest, intent: uuid.UUID, *, happened: bool) -> HttpResponse:
    caller = caller_of(request, Role.REVIEWER)
    form = EvidenceForm(request.POST, act="happened" if happened else "not-happened")
    forms: dict[str, Any] = {"happened": form} if happened else {"not_happened": form}
    if not form.is_valid():
        return _answer(request, intent, status=422, **forms)
    evidence = form.cleaned_data["evidence"]
    result: Result = outcomes.resolve_intent(str(intent), ResolveIntent(happened=happened, evidence=evidence), caller)
    if isinstance(result, Refusal):
        return _refused(request, intent, result, typed=evidence, **forms)
    state = str(result.body["state"]).replace("_", " ")
    told = "it happened" if happened else "it did not happen"
    messages.success(request, f"Recorded that {told}, with your evidence. The effect is {state} now.")
    return redirect(f"{_url('effect', intent)}#main")


def _refused(request: HttpRequest, intent: uuid.UUID, refusal: Refusal, *, typed: str, **forms: Any) -> HttpResponse:
    if refusal.code is Code.NOT_FOUND and "incident" not in (refusal.pointer or ""):
        raise Http404(refusal.detail)
    seen = facts_seen(request)
    trace = _trace(intent)
    if refusal.code in (Code.ALREADY_DECIDED, Code.NOT_IN_DOUBT) and seen:
        changes = changes_between(seen, _facts(trace))
        page, url = Page(title="Effect", place="effects"), _url("effect", intent)
        return conflict_page(request, page, told=refusal.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was done. {refusal.detail}")
    return _answer(request, intent, status=status_of(refusal), **forms)


def _answer(
    request: HttpRequest,
    intent: uuid.UUID,
    *,
    happened: EvidenceForm | None = None,
    not_happened: EvidenceForm | None = None,
    adopt: AdoptForm | None = None,
    status: int = 200,
) -> HttpResponse:
    trace, now = _trace(intent), read_clock()
    shut = why_not(request.user, Role.REVIEWER)
    context = {
        "now": now,
        "trace": trace,
        "line": trace.line,
        "told": presenter.told_of(trace, now),
        "key": presenter.idempotency_key(trace.line.tries),
        "ledger": [(row, presenter.MATCHES[row.match]) for row in trace.ledger],
        "breaker": None if trace.breaker is None or trace.breaker.state == "closed" else trace.breaker,
        "breaker_words": "" if trace.breaker is None else presenter.breaker_words(trace.breaker),
        "answers": _answers(trace, shut, happened, not_happened) if trace.line.state == "in_doubt" else (),
        "read_back": _read_back(request, trace),
        "adopt": _adopt(trace, shut, adopt),
    }
    page = Page(title="Effect", place="doubt" if trace.line.state == "in_doubt" else "effects")
    return answer(request, "dashboard/effect.html", page, context, status=status)


def _answers(
    trace: query.EffectTrace, shut: str, happened: EvidenceForm | None, not_happened: EvidenceForm | None
) -> tuple[Act, Act]:
    """The two answers to a doubt, apart from each other, each with what it will do."""
    what = trace.line.tool or "the effect"
    return (
        Act(
            id="happened",
            opens="It happened…",
            says=f"Record that {what} happened: it is not sent again",
            url=_url("effect_happened", trace.line.id),
            facts=_facts(trace),
            form=happened or EvidenceForm(act="happened"),
            explains="The effect has succeeded then, by your word.",
            why_not=shut,
        ),
        Act(
            id="not-happened",
            opens="It did not happen…",
            says=f"Record that {what} did not happen: it may be sent again",
            url=_url("effect_did_not_happen", trace.line.id),
            facts=_facts(trace),
            form=not_happened or EvidenceForm(act="not-happened"),
            explains="Whoever holds a commit may send it once more, with the same key.",
            why_not=shut,
        ),
    )


def _read_back(request: HttpRequest, trace: query.EffectTrace) -> Act | None:
    if not trace.line.tries:
        return None
    return read_back_act(request, trace.definition, _url("read_back_effect", trace.line.id))


def _adopt(trace: query.EffectTrace, shut: str, form: AdoptForm | None) -> Act | None:
    if not trace.escapes or trace.line.state != "ready":
        return None
    return Act(
        id="adopt",
        opens="Adopt an escape…",
        says="Adopt it: the effect is not sent again",
        url=_url("adopt_effect", trace.line.id),
        facts=_facts(trace),
        form=form or AdoptForm(_escapes(trace.line.id)),
        explains="The very action of this effect happened without authority. Adopted, it is what was wanted here.",
        why_not=shut,
        is_open=form is not None,
    )


def _escapes(intent: uuid.UUID) -> list[tuple[str, str]]:
    trace = _trace(intent)
    return [(str(each.id), str(each.effect.external_id)) for each in trace.escapes]


def _facts(trace: query.EffectTrace) -> dict[str, str]:
    return {"the effect": trace.line.state.replace("_", " "), "tries": str(len(trace.line.tries))}


def _trace(intent: uuid.UUID) -> query.EffectTrace:
    found = query.read_effect(intent)
    if found is None:
        raise Http404("There is no such effect.")
    return found


def _url(view: str, intent: uuid.UUID) -> str:
    return reverse(f"dashboard:{view}", args=[intent])


def _text(request: HttpRequest, name: str) -> str:
    # PostgreSQL text holds no U+0000, and nothing that is stored has one.
    return request.GET.get(name, "").strip().replace("\x00", "")
