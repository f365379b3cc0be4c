"""Tags about grants and freezes: names that lead to them, what stands at the top of pages, the freeze in two taps."""

from __future__ import annotations

from typing import Any

from django.template import Context, Library
from django.urls import reverse
from django.utils import timezone

from dashboard.announcing import banners_for
from dashboard.freezing import freeze_act, scopes
from dashboard.presenters.moments import moment
from dashboard.templatetags.components import act, name

register = Library()


@register.inclusion_tag("components/name.html")
def grant_name(grant: str) -> dict[str, Any]:
    """Show a grant's name, leading to its page."""
    return name(grant, href=reverse("dashboard:grant", args=[grant]))


@register.inclusion_tag("components/banners.html", takes_context=True)
def banners(context: Context) -> dict[str, Any]:
    """Show what a person has to know wherever they are; it renews itself."""
    now = context.get("now") or timezone.now()
    path = context["request"].path
    return {"banners": banners_for(context["user"], path), "now": moment(now, now), "path": path}


@register.inclusion_tag("components/act.html", takes_context=True)
def freeze(context: Context, *, tool: str = "", run: str = "") -> dict[str, Any]:
    """Show the act that freezes what a page is about: a tool, a run, or everything."""
    return act(context, freeze_act(context["user"], scopes(tool=tool or "", run=run or "")))
