"""Names of lanes and attempts that lead to their pages, and the mark of a flaw."""

from __future__ import annotations

from typing import Any

from django.template import Library
from django.urls import reverse

from dashboard.presenters.marks import Hue, Mark, Shape
from dashboard.templatetags.components import name

register = Library()


@register.inclusion_tag("components/name.html")
def lane_name(lane: str) -> dict[str, Any]:
    """Show a lane's name, leading to its page."""
    return name(lane, href=reverse("dashboard:lane", args=[lane]))


@register.inclusion_tag("components/name.html")
def attempt_name(attempt: str) -> dict[str, Any]:
    """Show an attempt's name, leading to its page."""
    return name(attempt, href=reverse("dashboard:attempt", args=[attempt]))


@register.inclusion_tag("components/status.html")
def mark_of_flaw(flaw: str) -> dict[str, Any]:
    """Show what is wrong with a grade: I4 is broken, and something was published that should not have been."""
    return {"mark": Mark(word=f"{flaw} grade", hue=Hue.DANGER, shape=Shape.TRIANGLE), "reason": "", "size": ""}
