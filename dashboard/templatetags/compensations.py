"""Words about compensations inside templates."""

from __future__ import annotations

from django.template import Library

from dashboard.presenters.compensations import cause_of

register = Library()


@register.filter
def why_due(cause: str) -> str:
    """Say why a compensation is there."""
    return cause_of(cause)
