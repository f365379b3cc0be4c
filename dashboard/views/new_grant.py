"""Issuing a grant: the form that says in words what it lets through, beside what that would be now."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import grant_forms
from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.grant_forms import GrantForm
from dashboard.pages import Page, answer
from dashboard.presenters import previews
from fencing.api.problems import status_of
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.explain import Sentence, explain_wanted
from fencing.protocol.policies import Policy
from fencing.queries.fenced_tools import current_tools, side_effecting_tools
from fencing.queries.preview import Wanted, read_preview
from fencing.services.grants import issue_grant as issue
from fencing.services.requests import IssueGrant

PAGE: Final = Page(title="New grant", place="grants", parts={"preview": "dashboard/grant/following.html"})
TTL_S: Final = 900


@open_to(ANY_GROUP)
@require_safe
def new_grant(request: HttpRequest) -> HttpResponse:
    """Show the form, its scope filled in from where one came; as a part, what it says and would let through now."""
    reader_of(request)
    asked = {name: request.GET[name].strip() for name in grant_forms.SCOPE if request.GET.get(name, "").strip()}
    if request.GET.get("part") is None:
        asked = _filled(asked)
    return _answer(request, GrantForm(initial=asked, is_filled=_has_scope(asked)), asked)


def _show_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    """Show the form as it was typed before the person confirmed; it never acts."""
    given = {name: typed.get(name, "") for name in GrantForm.base_fields}
    return _answer(request, GrantForm(initial=given, is_filled=_has_scope(given)), given)


@open_to(Group.ONCALL)
@confirmed_recently("issue the grant", show=_show_again)
@require_POST
def issue_grant(request: HttpRequest) -> HttpResponse:
    """Issue the grant; sent twice by one name, it is issued once."""
    caller = caller_of(request, Role.ONCALL)
    form = GrantForm(request.POST)
    if not form.is_valid() or not isinstance(form.request, IssueGrant):
        return _answer(request, form, _typed(form), status=422)
    result = issue(form.request, caller)
    if isinstance(result, Refusal):
        return _refused(request, form, result)
    if result.body.get("duplicate"):
        messages.info(request, "It was issued already, by the same form: this is it.")
    elif result.body["state"] == "pending":
        messages.success(request, "Asked for. It lets nothing through until a second person approves it.")
    else:
        messages.success(request, "Issued. It is live; another person reviews it within 24 hours.")
    return redirect(f"{reverse('dashboard:grant', args=[result.body['name']])}#main")


def preview_shown(wanted: Wanted, caller: Caller, *, sentence: Sentence | None = None, of: str = "") -> previews.Shown:
    """Read what a grant of this scope would let through now, and prepare it; `of` is the grant's own name, if it is."""
    preview = read_preview(wanted, caller, of=of or None)
    if sentence is None and preview.wanted is not None:
        sentence = explain_wanted(preview.wanted, run=wanted.run, now=preview.now)
    return previews.shown(preview, sentence, current_tools())


def _filled(asked: Mapping[str, str]) -> dict[str, str]:
    """Fill in what has a usual value: once, for fifteen minutes or as long as the tool allows, by a fresh name."""
    tools = current_tools()
    policy = tools[asked["tool"]].policy if asked.get("tool") in tools else Policy()
    ttl = grant_forms.minutes_of(min(TTL_S, policy.max_grant_ttl_s))
    usual = {"max_uses": "1", "minutes": ttl, "path": policy.trusted_path}
    word = asked.get("tool") or asked.get("step") or ""
    return {**usual, **asked, "name": grant_forms.fresh_name(word, read_clock())}


def _has_scope(typed: Mapping[str, str]) -> bool:
    return bool(typed.get("run") and (typed.get("step") or typed.get("tool")))


def _typed(form: GrantForm) -> dict[str, str]:
    return {name: str(form.data.get(name, "")) for name in form.fields}


def _refused(request: HttpRequest, form: GrantForm, refusal: Refusal) -> HttpResponse:
    """Show the form as it was typed, with the reason where it belongs, and what is fresh filled in anew."""
    form.refuse(refusal)
    typed = _typed(form)
    if refusal.code is Code.GRANT_CONFLICT:
        typed["name"] = grant_forms.fresh_name(typed["tool"] or typed["step"], read_clock())
    return _answer(request, form, typed, refusal=refusal, status=status_of(refusal))


def _answer(
    request: HttpRequest,
    form: GrantForm,
    typed: Mapping[str, str],
    *,
    refusal: Refusal | None = None,
    status: int = 200,
) -> HttpResponse:
    wanted = grant_forms.wanted_of({**typed, "epoch": typed.get("epoch") or typed.get("shown_epoch", "")})
    caller = reader_of(request)
    context = {
        "now": read_clock(),
        "form": form,
        "preview": cache(lambda: preview_shown(wanted, caller)) if wanted.run else None,
        "is_filled": _has_scope(typed) and not form.has_wrong_scope,
        "tools": cache(side_effecting_tools),
        "why_not": why_not(request.user, Role.ONCALL),
        "refusal": refusal,
        "other": _other(refusal),
    }
    return answer(request, "dashboard/new_grant.html", PAGE, context, status=status)


def _other(refusal: Refusal | None) -> str:
    """Name the grant that stands in the way, where one does."""
    return "" if refusal is None else str(refusal.extras.get("grant", ""))
