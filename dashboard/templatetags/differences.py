"""Tags of the two actions beside each other: of hundreds of small texts, so they write their HTML themselves."""

from __future__ import annotations

from collections.abc import Iterable

from django.template import Library
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from dashboard.presenters.side_by_side import Part
from dashboard.presenters.spelling import Piece

register = Library()


@register.simple_tag
def pieces(value: Iterable[Piece]) -> SafeString:
    """Show a text from outside, its hidden characters spelt: what `components/pieces.html` shows, for many of them."""
    return SafeString(f'<bdi class="spelt">{_written(value)}</bdi>')


@register.simple_tag
def parts(value: Iterable[Part]) -> SafeString:
    """Show a value in parts: what differs is marked, what is long and equal is folded away."""
    return SafeString("".join(_part(part) for part in value))


def _part(part: Part) -> str:
    text = f'<bdi class="spelt">{_written(part.pieces)}</bdi>'
    if part.folded:
        text = format_html(
            '<details class="more-text"><summary>… {} …</summary>{}</details>', part.folded, SafeString(text)
        )
    return f'<mark class="part">{text}</mark>' if part.is_marked else text


def _written(value: Iterable[Piece]) -> str:
    return "".join(
        format_html('<span class="hidden-character" title="{}">{}</span>', piece.name, piece.text)
        if piece.is_spelt
        else escape(piece.text)
        for piece in value
    )
