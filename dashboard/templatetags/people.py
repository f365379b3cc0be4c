"""Tags about the person who looks: whether they are asked to confirm, and the facts that a form of theirs carries."""

from __future__ import annotations

from collections.abc import Mapping

from django.template import Context, Library
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard import conflicts
from dashboard.confirming import is_confirmed

register = Library()


@register.simple_tag(takes_context=True)
def confirm_hint(context: Context) -> SafeString:
    """Say beside a button that it will ask who one is; nothing within five minutes of a confirmation."""
    if is_confirmed(context["request"]):
        return SafeString("")
    return format_html('<p class="help">{}</p>', "You are asked to confirm that it is you; what you typed is kept.")


@register.simple_tag
def seen_facts(facts: Mapping[str, str]) -> SafeString:
    """Write the hidden field that carries what a form showed (`dashboard.conflicts`)."""
    return format_html('<input type="hidden" name="{}" value="{}">', conflicts.FIELD, conflicts.sealed_facts(facts))
