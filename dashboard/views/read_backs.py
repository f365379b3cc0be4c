"""Asking a tool what became of one key: of an effect, or of what was to undo one (L6, P5). It decides nothing."""

from __future__ import annotations

import uuid
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.access import Group, caller_of, open_to, why_not
from dashboard.presenters.acts import Act
from fencing.gateway.reading import ReadBack, read_back, read_back_undoing
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.tools import ToolDefinition

DECIDES_NOTHING: Final = "It decides nothing: a reviewer does, with this as evidence."


@open_to(Group.REVIEWER, Group.ONCALL)
@require_POST
def read_back_effect(request: HttpRequest, intent: uuid.UUID) -> HttpResponse:
    """Ask the tool what became of an effect; the answer decides nothing."""
    return _shown(request, read_back(str(intent), _caller(request)), reverse("dashboard:effect", args=[intent]))


@open_to(Group.REVIEWER, Group.ONCALL)
@require_POST
def read_back_compensation(request: HttpRequest, compensation: uuid.UUID) -> HttpResponse:
    """Ask the tool what became of the last call of an undoing; the answer decides nothing."""
    told = read_back_undoing(str(compensation), _caller(request))
    return _shown(request, told, reverse("dashboard:compensation", args=[compensation]))


def _caller(request: HttpRequest) -> Caller:
    return caller_of(request, Role.ONCALL if why_not(request.user, Role.REVIEWER) else Role.REVIEWER)


def _shown(request: HttpRequest, told: ReadBack | Refusal, url: str) -> HttpResponse:
    if isinstance(told, ReadBack):
        messages.info(request, f"{told.says} {DECIDES_NOTHING}")
    elif told.code is Code.NOT_FOUND:
        raise Http404(told.detail)
    else:
        messages.error(request, told.detail)
    return redirect(f"{url}#main")


def read_back_act(request: HttpRequest, definition: ToolDefinition | None, url: str) -> Act | None:
    """Offer to ask a tool that tells what became of a key; None for one that tells nobody."""
    if definition is None or definition.read_back is None:
        return None
    return Act(
        id="read-back",
        opens="Ask the tool…",
        says=f"Ask {definition.tool} what became of this key",
        url=url,
        explains="It is asked once, now. What it says is evidence, and decides nothing.",
        why_not=why_not(request.user, Role.REVIEWER) and why_not(request.user, Role.ONCALL),
    )
