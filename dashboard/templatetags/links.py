"""Names that lead to the pages of what they name; plain names where such a page does not exist."""

from __future__ import annotations

from typing import Any

from django.template import Library
from django.urls import NoReverseMatch, reverse

from dashboard.templatetags.components import name

register = Library()


@register.inclusion_tag("components/name.html")
def run_name(run: str) -> dict[str, Any]:
    """Show a run's name, leading to its page."""
    return name(run, href=run_url(run))


@register.inclusion_tag("components/name.html")
def step_name(run: str, step: str, epoch: int | None = None) -> dict[str, Any]:
    """Show a step's name, leading to its page at an epoch."""
    return name(step, href=step_url(run, step, epoch))


@register.simple_tag
def run_url(run: str) -> str:
    """Give the address of a run's page."""
    return _url("run", run)


@register.simple_tag
def step_url(run: str, step: str, epoch: int | None = None) -> str:
    """Give the address of a step's page, at an epoch where one is named."""
    url = _url("step", run, step)
    return f"{url}?epoch={epoch}" if url and epoch is not None else url


def _url(view: str, *names: str) -> str:
    try:
        return reverse(f"dashboard:{view}", args=names)
    except NoReverseMatch:
        return ""
