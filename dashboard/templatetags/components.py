"""The components as tags: explicit arguments in, one template each out (`templates/components/`).

The gallery shows every one of them in every state; `dashboard/presenters/` prepares what they show.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.forms.widgets import ChoiceWidget, Select
from django.template import Context, Library
from django.template.loader import render_to_string
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard import places
from dashboard.pages import tag_of
from dashboard.presenters import (
    acts,
    digests,
    figures,
    json_lines,
    lists,
    marks,
    moments,
    numbers,
    sentences,
    spelling,
    timelines,
)
from fencing.protocol.explain import Sentence

register = Library()
Values = dict[str, Any]

LONG_NAME = 40
ENDS = 16
MOST_PIPS = 12
PIP = 9


@register.inclusion_tag("components/status.html")
def status(kind: str, state: str | None, *, reason: str = "", size: str = "") -> Values:
    """Show a state as shape, colour and word. `reason` follows it; `size` is "" or "large"."""
    return {"mark": marks.mark_of(kind, state), "reason": (reason or "").replace("_", " "), "size": size}


@register.inclusion_tag("components/status.html")
def mark(value: marks.Mark, *, reason: str = "", size: str = "") -> Values:
    """Show a mark that a presenter made."""
    return {"mark": value, "reason": reason.replace("_", " "), "size": size}


@register.inclusion_tag("components/ratio.html")
def ratio(n: int | None, of: int | None, what: str, *, alarm: str = "neutral", href: str = "") -> Values:
    """Show n/N and what it counts. `alarm` is the hue of an n above 0: "danger" for what must never be."""
    return {"ratio": numbers.ratio(n, of, what, alarm=marks.Hue(alarm)), "href": href}


@register.inclusion_tag("components/digest.html")
def digest(value: str | None, *, label: str = "") -> Values:
    """Show a digest as its pattern and twelve digits; pressing it copies the whole."""
    return {"chip": digests.chip(value) if value else None, "label": label}


@register.inclusion_tag("components/moment.html", takes_context=True)
def moment(context: Context, at: datetime | str | None, *, short: bool = False) -> Values:
    """Show a moment in UTC; the browser adds the viewer's zone and the age. `short` is for rows of a list."""
    return {"moment": moments.moment(at, context.get("now")), "short": short}


@register.inclusion_tag("components/countdown.html", takes_context=True)
def countdown(context: Context, at: datetime | str | None, *, of: int = 0) -> Values:
    """Show when something ends; the browser adds how much of it is left, by the server's clock.

    `of` is its whole length in seconds, where the share that is left is drawn too.
    """
    return {"moment": moments.moment(at, context.get("now")), "of": of}


@register.inclusion_tag("components/meter.html")
def meter(n: int, of: int, what: str = "") -> Values:
    """Show n taken of N: as pips where they can be counted, always as figures."""
    pips = [{"x": 1 + PIP * index, "is_taken": index < n} for index in range(of)] if of <= MOST_PIPS else []
    return {"n": numbers.grouped(n), "of": numbers.grouped(of), "what": what, "pips": pips, "width": PIP * of}


@register.inclusion_tag("components/sentence.html")
def sentence(text: str, *, hue: str = "") -> Values:
    """Show the sentence that opens an object."""
    return {"sentence": sentences.sentence(text), "hue": hue}


@register.inclusion_tag("components/explained.html")
def explained(value: Sentence, *, size: str = "large") -> Values:
    """Show a sentence of the core with its marks. `size` is "large" for the one that opens an object, else ""."""
    return {"sentence": value, "size": size}


@register.inclusion_tag("components/quoted.html")
def quoted(text: str | None, *, limit: int = 600, label: str = "") -> Values:
    """Show text from outside in a frame, its hidden characters spelt. `label` says whose words they are."""
    return {"quotation": spelling.quotation(text or "", limit), "label": label}


@register.simple_tag
def spelt(text: str | None) -> SafeString:
    """Show a short text from outside inside a line, its hidden characters spelt."""
    return pieces(spelling.pieces_of(text or ""))


@register.filter
def pieces(value: Iterable[spelling.Piece]) -> SafeString:
    """Write pieces without a blank between them: a template of its own would add one."""
    return format_html('<bdi class="spelt">{}</bdi>', format_html_join("", "{}", ((_piece(piece),) for piece in value)))


def _piece(piece: spelling.Piece) -> SafeString:
    if piece.is_spelt:
        return format_html('<span class="hidden-character" title="{}">{}</span>', piece.name, piece.text)
    return conditional_escape(piece.text)


@register.inclusion_tag("components/name.html")
def name(value: str | None, *, href: str = "") -> Values:
    """Show an identifier; a long one by its two ends, the whole on focus."""
    text = value or ""
    is_long = len(text) > LONG_NAME
    return {
        "href": href, "is_long": is_long, "whole": spelling.spelt(text),
        "start": spelling.pieces_of(text[:ENDS] if is_long else text),
        "end": spelling.pieces_of(text[-ENDS:]) if is_long else (),
    }  # fmt: skip


@register.inclusion_tag("components/json.html")
def json_view(value: object, *, label: str = "JSON", marked: Iterable[str] = ()) -> Values:
    """Show a parsed JSON value as lines that fold. `marked` are the pointers of members to point out."""
    return {"view": json_lines.json_view(value, frozenset(marked)), "label": label}


@register.inclusion_tag("components/facts.html")
def facts(items: Iterable[tuple[str, object]]) -> Values:
    """Show pairs of a word and a plain value. For values that are components, write the list in the template."""
    return {"items": items}


@register.inclusion_tag("components/timeline.html")
def timeline(value: timelines.Timeline, *, label: str) -> Values:
    """Show events in order, with the time between them drawn."""
    return {"timeline": value, "label": label}


@register.inclusion_tag("components/figure.html")
def figure(value: figures.Figure) -> Values:
    """Show a Plotly figure with the table of its numbers beneath."""
    return {"figure": value, "spec_id": f"{value.id}-spec"}


@register.inclusion_tag("components/empty.html")
def empty(title: str, text: str, *, href: str = "", link: str = "") -> Values:
    """Say that there is nothing, why that may be, and what to do."""
    return {"title": title, "text": text, "href": href, "link": link}


@register.inclusion_tag("components/filters.html")
def filters(bar: lists.FilterBar) -> Values:
    """Show the filters of a list."""
    return {"bar": bar}


@register.inclusion_tag("components/pager.html")
def pager(value: lists.Pager) -> Values:
    """Show where a list goes on."""
    return {"pager": value}


@register.inclusion_tag("components/act.html", takes_context=True)
def act(context: Context, value: acts.Act) -> Values:
    """Show a form behind the button that opens it."""
    return {"act": value, "csrf_token": context.get("csrf_token"), "request": context.get("request")}


@register.inclusion_tag("components/conflict.html")
def conflict(changes: Iterable[acts.Change], *, is_over: bool = False) -> Values:
    """Show what changed since a form was opened, seen beside now. `is_over`: nothing is left to decide."""
    return {"changes": list(changes), "is_over": is_over}


@register.inclusion_tag("components/field.html")
def field(bound: Any) -> Values:
    """Show one field of a form with its label, its help and what is wrong with it."""
    described = [f"{bound.auto_id}_help"] if bound.help_text else []
    described += [f"{bound.auto_id}_errors"] if bound.errors else []
    attributes = {"aria-describedby": " ".join(described)} if described else {}
    if bound.errors:
        attributes["aria-invalid"] = "true"
    is_many = isinstance(bound.field.widget, ChoiceWidget) and not isinstance(bound.field.widget, Select)
    is_check = getattr(bound.field.widget, "input_type", "") == "checkbox"
    widget = bound.as_widget(attrs=attributes)
    return {"field": bound, "widget": widget, "is_check": is_check, "is_many": is_many}


@register.inclusion_tag("components/icon.html")
def icon(value: str) -> Values:
    """Draw one of the house's icons; it is silent for screen readers, so a word has to stand beside it."""
    return {"icon": value}


@register.inclusion_tag("components/navigation.html", takes_context=True)
def navigation(context: Context) -> Values:
    """Show the rail of wide screens and the bar of narrow ones."""
    page = context.get("page")
    current = places.where(page.place) if page else ""
    bar = places.on_the_bar()
    return {
        "current": current,
        "places": places.on_the_rail(),
        "bar": bar,
        "is_elsewhere": bool(current) and current not in {place.name for place in bar},
        "user": context.get("user"),
        "csrf_token": context.get("csrf_token"),
    }


@register.simple_tag(takes_context=True)
def live_part(context: Context, name: str, *, every: int = 5, label: str = "") -> SafeString:
    """Include a live part of the page (`Page.parts`), which then refreshes itself `every` so many seconds."""
    request = context["request"]
    flat: Values = {str(key): value for key, value in context.flatten().items()}
    body = render_to_string(context["page"].parts[name], flat, request=request)
    query = urlencode([(key, value) for key, value in request.GET.items() if key != "part"] + [("part", name)])
    values: Values = {
        "id": f"live-{name}", "url": f"{request.path}?{query}", "every": every, "label": label, "body": body,
        "tag": tag_of(body.encode()), "now": moments.moment(context["now"], context["now"]),
    }  # fmt: skip
    return SafeString(render_to_string("components/live.html", values))


@register.filter
def seconds(value: float | None) -> str:
    """Write a duration in seconds for people."""
    return "no data" if value is None else numbers.seconds(value)


@register.filter
def grouped(value: int | None) -> str:
    """Write a whole number with commas."""
    return numbers.grouped(value)


@register.filter
def words(value: str | None) -> str:
    """Write a code as words: `grant_revoked` as `grant revoked`."""
    return (value or "").replace("_", " ")


@register.simple_tag
def count(number: int, one: str, many: str = "") -> str:
    """Write a count with its noun."""
    return numbers.plural(number, one, many)


@register.simple_tag
def kbd(*keys: str) -> SafeString:
    """Show the keys of a shortcut."""
    return format_html_join(" ", "<kbd>{}</kbd>", ((key,) for key in keys))
