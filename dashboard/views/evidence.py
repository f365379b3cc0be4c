"""Evidence packs: what a pack of one thing holds, and the pack itself (U4, U5)."""

from __future__ import annotations

from typing import Final

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import Group, caller_of, groups_of, open_to, reader_of, why_not
from dashboard.confirming import confirmed_recently
from dashboard.grant_forms import reason_field
from dashboard.pages import Page, answer
from dashboard.presenters.acts import Act
from dashboard.presenters.audit import url_of
from fencing.api.routes.evidence import may_be_subject, pack_response
from fencing.models.facts import read_clock
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.queries.dossiers import KINDS, Dossier
from fencing.queries.evidence import make_pack
from fencing.queries.sensitive import sensitive_members
from fencing.services.revealing import reveal
from fencing.services.signing import pack_key

WATCHERS: Final = (Group.AUDITOR, Group.ONCALL, Group.REVIEWER, Group.ADMINISTRATOR)
UNPROCESSABLE: Final = 422


class RevealForm(forms.Form):
    """Why somebody has to see what is masked."""

    reason = reason_field("Why you have to see it; it stands in the audit with your name.")


def evidence_url(request: HttpRequest, kind: str, subject: str) -> str:
    """Give the address of a thing's evidence; empty for who may not take it."""
    return reverse("dashboard:evidence", args=[kind, subject]) if groups_of(request.user) & set(WATCHERS) else ""


@open_to(*WATCHERS)
@require_safe
def evidence(request: HttpRequest, kind: str, subject: str) -> HttpResponse:
    """Say what a pack of one thing holds, and how it is checked."""
    reader_of(request)
    return _answer(request, kind, subject, RevealForm())


@open_to(*WATCHERS)
@require_safe
def evidence_pack(request: HttpRequest, kind: str, subject: str) -> HttpResponse:
    """Give the pack, with what is sensitive masked."""
    reader_of(request)
    pack = make_pack(kind, subject, key=pack_key()) if may_be_subject(subject) else None
    if pack is None:
        raise Http404(f"There is no {kind} {subject}.")
    return pack_response(pack)


def _show_again(request: HttpRequest, typed: QueryDict, kind: str, subject: str) -> HttpResponse:
    return _answer(request, kind, subject, RevealForm(initial={"reason": typed.get("reason", "")}), is_open=True)


@open_to(Group.REVIEWER)
@confirmed_recently("take the pack with sensitive members", show=_show_again)
@require_POST
def reveal_evidence(request: HttpRequest, kind: str, subject: str) -> HttpResponse:
    """Give the pack with sensitive members in it, once that stands in the audit."""
    caller = caller_of(request, Role.REVIEWER)
    dossier, form = _dossier(kind, subject), RevealForm(request.POST)
    if not form.is_valid():
        return _answer(request, kind, subject, form, status=UNPROCESSABLE, dossier=dossier)
    refusal = reveal(kind, subject, form.cleaned_data["reason"], caller, as_evidence=True)
    if isinstance(refusal, Refusal):
        form.add_error("reason", refusal.detail)
        return _answer(request, kind, subject, form, status=UNPROCESSABLE, dossier=dossier)
    pack = make_pack(kind, subject, reveals=True, key=pack_key())
    if pack is None:
        raise Http404(f"There is no {kind} {subject}.")
    return pack_response(pack)


def _dossier(kind: str, subject: str) -> Dossier:
    found = KINDS[kind](subject) if kind in KINDS and may_be_subject(subject) else None
    if found is None:
        raise Http404(f"There is no {kind} {subject}.")
    return found


def _answer(
    request: HttpRequest,
    kind: str,
    subject: str,
    form: forms.Form,
    *,
    is_open: bool = False,
    status: int = 200,
    dossier: Dossier | None = None,
) -> HttpResponse:
    found = dossier or _dossier(kind, subject)
    context = {
        "now": read_clock(),
        "kind": kind,
        "subject": subject,
        "subject_url": url_of(kind, subject),
        "sentence": found.sentence,
        "counts": [
            (name.replace("_", " "), len(rows))
            for name, rows in sorted(found.facts.items())
            if isinstance(rows, list) and rows
        ],
        "actions": len(found.actions),
        "prose": len(found.prose),
        "tools": sorted(found.tools),
        "has_sensitive": bool(sensitive_members(found.tools)),
        "reveal": Act(
            id="reveal",
            opens="With sensitive members…",
            says="Take the pack with sensitive members",
            url=reverse("dashboard:reveal_evidence", args=[kind, subject]),
            form=form,
            explains="What a tool calls sensitive is masked in a pack. Your name and reason go into the audit.",
            why_not=why_not(request.user, Role.REVIEWER),
            is_open=is_open,
            must_confirm=True,
        ),
    }
    page = Page(title=f"Evidence: {kind} {subject}", place="audit")
    return answer(request, "dashboard/evidence.html", page, context, status=status)
