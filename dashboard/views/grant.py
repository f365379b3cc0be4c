"""One grant: what it is, all that it did and did not let through, and the acts of approving, revoking, reviewing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, open_to, reader_of, why_not
from dashboard.conflicts import CONFLICT, changes_between, conflict_page, facts_seen, has_room
from dashboard.grant_forms import ReasonForm
from dashboard.pages import Page, answer
from dashboard.presenters import grants as presenter
from dashboard.presenters import previews
from dashboard.presenters.acts import Act, Change
from dashboard.views.evidence import evidence_url
from dashboard.views.new_grant import preview_shown
from dashboard.views.step import step_url
from fencing.api.problems import status_of
from fencing.protocol import grants as rules
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.queries.preview import Wanted
from fencing.queries.trails import Trail, read_trail
from fencing.services import grants as service
from fencing.services.requests import DecideGrant

PARTS: Final = {
    "state": "dashboard/grant/state.html",
    "facts": "dashboard/grant/facts.html",
    "preview": "dashboard/grant/preview.html",
}
MOST_NAMED: Final = 32


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
def grant(request: HttpRequest, grant: str) -> HttpResponse:
    """Show one grant with its whole trail."""
    reader_of(request)
    return _answer(request, _trail(grant), FRESH)


def _show_again(act: str) -> Any:
    """Make what shows a grant with the form of an act as it was typed before the person confirmed; it never acts."""

    def show(request: HttpRequest, typed: QueryDict, grant: str) -> HttpResponse:
        form = ReasonForm(initial={"reason": typed.get("reason", "")}, act=act)
        return _answer(request, _trail(grant), Shown(act=act, form=form, is_open=True))

    return show


@open_to(Group.ONCALL)
@confirmed_recently("approve the grant", show=_show_again("approve"))
@require_POST
def approve_grant(request: HttpRequest, grant: str) -> HttpResponse:
    """Approve a pending grant, having seen what it is now."""
    caller = caller_of(request, Role.ONCALL)
    form = _form(request, "approve")
    if not form.is_valid():
        return _answer(request, _trail(grant), Shown(act="approve", form=form, status=422))
    asked = DecideGrant(reason=form.cleaned_data["reason"])
    result = service.approve_grant(grant, asked, caller, seen=request.POST.get("seen", ""))
    if isinstance(result, Refusal):
        return _refused(request, grant, result, "approve", form)
    told = "You had approved it already" if result.body.get("duplicate") else "Approved"
    messages.success(request, f"{told}: it is {str(result.body['state']).replace('_', ' ')} now.")
    return _done(grant)


@open_to(Group.ONCALL)
@confirmed_recently("revoke the grant", show=_show_again("revoke"))
@require_POST
def revoke_grant(request: HttpRequest, grant: str) -> HttpResponse:
    """Revoke a grant at once, whatever it is by now: revoking waits for no reload (G5)."""
    caller = caller_of(request, Role.ONCALL)
    form = _form(request, "revoke")
    if not form.is_valid():
        return _answer(request, _trail(grant), Shown(act="revoke", form=form, status=422))
    result = service.revoke_grant(grant, DecideGrant(reason=form.cleaned_data["reason"]), caller)
    if isinstance(result, Refusal):
        return _refused(request, grant, result, "revoke", form)
    messages.success(request, _revoked(result))
    return _done(grant)


@open_to(Group.ONCALL, Group.REVIEWER)
@require_POST
def review_grant(request: HttpRequest, grant: str) -> HttpResponse:
    """Write down that another person looked at what a grant did."""
    form = _form(request, "review")
    if not form.is_valid():
        return _answer(request, _trail(grant), Shown(act="review", form=form, status=422))
    asked = DecideGrant(reason=form.cleaned_data["reason"])
    result = service.review_grant(grant, asked, _reviewer(request), seen=request.POST.get("seen", ""))
    if isinstance(result, Refusal):
        return _refused(request, grant, result, "review", form)
    messages.success(request, "Your review is stored.")
    return _done(grant)


def _reviewer(request: HttpRequest) -> Caller:
    """Act as a reviewer where the person is one, else as on-call: either may review (section 15)."""
    return caller_of(request, Role.ONCALL if why_not(request.user, Role.REVIEWER) else Role.REVIEWER)


def _revoked(result: Answer) -> str:
    body: Mapping[str, Any] = result.body
    stopped, out = len(body["stopped"]), len(body["already_out"])
    told = "It had been revoked already" if result.body.get("duplicate") else "Revoked"
    return f"{told}. Stopped: {stopped}. Already out: {out}. Both are listed below, as stored."


def _form(request: HttpRequest, act: str) -> ReasonForm:
    return ReasonForm(request.POST, act=act)


def _done(name: str) -> HttpResponse:
    """Go back to the page: what stands there was read back from the database."""
    return redirect(f"{reverse('dashboard:grant', args=[name])}#main")


def _trail(name: str) -> Trail:
    trail = None if "\x00" in name else read_trail(name)
    if trail is None:
        raise Http404(f"There is no grant {name}.")
    return trail


def _refused(request: HttpRequest, name: str, refusal: Refusal, act: str, form: forms.Form) -> HttpResponse:
    if refusal.code is Code.REASON_REQUIRED:
        form.add_error("reason", refusal.detail)
        return _answer(request, _trail(name), Shown(act=act, form=form, status=422))
    trail, seen = _trail(name), facts_seen(request)
    changes = changes_between(seen, presenter.facts_of(trail.line)) if seen else ()
    if changes and status_of(refusal) == CONFLICT and not has_room(_acts(request, trail, FRESH), act):
        page, typed, url = _page(trail), request.POST.get("reason", ""), reverse("dashboard:grant", args=[name])
        return conflict_page(request, page, told=refusal.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was done. {refusal.detail}")
    return _answer(request, trail, Shown(act=act, form=form, changes=changes, status=status_of(refusal)))


def _answer(request: HttpRequest, trail: Trail, shown: Shown) -> HttpResponse:
    line, body = trail.line, trail.line.body
    is_pending = body["state"] == rules.State.PENDING
    context = {
        "now": trail.now,
        "trail": trail,
        "line": line,
        "grant": body,
        "row": presenter.row_of(line),
        "sentence": cache(lambda: presenter.explained(trail)),
        "uses": cache(lambda: presenter.uses_of(trail)),
        "refused": cache(lambda: presenter.refused_of(trail)),
        "reached": cache(lambda: presenter.reached_of(trail)),
        "told": cache(lambda: presenter.told_of(trail, step_url)),
        "preview": cache(lambda: _preview(request, trail)) if is_pending else None,
        "evidence_url": evidence_url(request, "grant", str(body["name"])),
        "acts": cache(lambda: _acts(request, trail, shown)),
        # A page that answers a form has no address of its own that its live parts could be read from.
        "is_live": request.method != "POST" and "kept" not in request.GET and not is_settled(trail),
    }
    return answer(request, "dashboard/grant.html", _page(trail), context, status=shown.status)


def _page(trail: Trail) -> Page:
    return Page(title=str(trail.line.body["name"]), place="grants", parts=PARTS)


def is_settled(trail: Trail) -> bool:
    """Tell whether nothing about a grant moves by itself any more."""
    return trail.line.body["state"] not in (rules.State.PENDING, rules.State.LIVE, rules.State.USED_UP)


def _preview(request: HttpRequest, trail: Trail) -> previews.Shown:
    """Show who approves what the issuer saw, as it is now."""
    facts, body = trail.line.facts, trail.line.body
    wanted = Wanted(
        run=body["run"], epoch=facts.epoch, step=facts.step, tool=facts.tool, path=facts.path, digest=facts.digest,
        max_uses=facts.max_uses, ttl_s=facts.ttl_s,
    )  # fmt: skip
    # What issuing would meet is the issuer's: their debts, and everybody but them as a second person.
    issuer = replace(reader_of(request), person_id=trail.line.issuer_id)
    return preview_shown(wanted, issuer, of=facts.name)


def _acts(request: HttpRequest, trail: Trail, shown: Shown) -> list[Act]:
    """Give the acts that a grant's state has room for; opposites stand apart on the page."""
    facts = trail.line.facts
    state = rules.state_of(facts, trail.now)
    found = []
    if rules.check_revocation(facts, trail.now) is None and facts.revoked_at is None:
        found.append(_revoke(request, trail))
    if state is rules.State.PENDING or (state is rules.State.LIVE and facts.approvals_needed is None):
        found.append(_approve(request, trail))
    if trail.line.review.is_owed:
        found.append(_review(request, trail))
    return [_as_shown(each, shown) for each in found]


def _as_shown(act: Act, shown: Shown) -> Act:
    if act.id != shown.act:
        return act
    return replace(act, form=shown.form, changes=shown.changes, is_open=True)


def _approve(request: HttpRequest, trail: Trail) -> Act:
    facts = trail.line.facts
    by_issuer = trail.line.issuer_id == request.user.pk
    why = previews.why_refused(rules.check_approval(facts, by_issuer=by_issuer, now=trail.now))
    return Act(
        id="approve",
        opens="Approve…",
        says=f"Approve: {previews.lets(facts)}",
        url=_url("approve_grant", trail),
        seen={"seen": rules.version_of(trail.line.body)},
        facts=presenter.facts_of(trail.line),
        form=ReasonForm(act="approve"),
        explains="It is live from this moment, for the time that was asked for. You answer for it beside the issuer.",
        why_not=why_not(request.user, Role.ONCALL) or why,
        must_confirm=True,
    )


def _revoke(request: HttpRequest, trail: Trail) -> Act:
    return Act(
        id="revoke",
        opens="Revoke…",
        says=f"Revoke {_short(trail.line.facts.name)} now",
        url=_url("revoke_grant", trail),
        form=ReasonForm(act="revoke"),
        explains=(
            "It ends at once. Commits that rest on it alone are taken back unless their effect was admitted already; "
            "the answer lists both."
        ),
        why_not=why_not(request.user, Role.ONCALL),
        must_confirm=True,
    )


def _review(request: HttpRequest, trail: Trail) -> Act:
    line = trail.line
    by_issuer = line.issuer_id == request.user.pk
    refusal = rules.check_review(line.facts, by_issuer=by_issuer, went_live=line.live_at is not None)
    roles = presenter.why_not_review(why_not(request.user, Role.REVIEWER), why_not(request.user, Role.ONCALL))
    return Act(
        id="review",
        opens="Review…",
        says=f"Store my review of {_short(line.facts.name)}",
        url=_url("review_grant", trail),
        seen={"seen": rules.version_of(line.body)},
        facts=presenter.facts_of(line),
        form=ReasonForm(act="review"),
        explains="What do you make of what it let through? Your words stay with it, and its issuer is out of debt.",
        why_not=roles or previews.why_refused(refusal),
    )


def _url(view: str, trail: Trail) -> str:
    return reverse(f"dashboard:{view}", args=[trail.line.facts.name])


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAMED else f"{name[:20]}…{name[-8:]}"
