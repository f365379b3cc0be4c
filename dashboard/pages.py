"""How a view answers: with a page, or with one live part of it from the same template.

A live part is a template of its own that its page includes by `{% live_part %}`. Asked with `?part=<name>` the same
view answers with that part alone, and with 304 as long as nothing in it changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseNotFound, HttpResponseNotModified
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.cache import patch_vary_headers

# Django masks the form token anew each time; the part is the same.
_FORM_TOKEN: Final = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')
CLOCK: Final = "Fence-Now"
"""The header that tells a browser what the time is, to the microsecond: `Date` knows seconds alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the frame around a page needs: its title, the place it belongs to, and its live parts by name.

    `parts` are templates. A part refreshes itself every few seconds from the very address of its page.
    """

    title: str
    place: str = ""
    parts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def answer(
    request: HttpRequest, template: str, page: Page, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Answer with the page, or with the part of it that was asked for.

    Values of `context` may be functions without arguments: a template calls what it uses, so a part costs only its own
    queries. A page on which time decides gives the database's clock as `now` (N3); the others have this machine's.
    """
    full = {"now": timezone.now(), **context, "page": page}
    wanted = request.GET.get("part")
    if wanted is None:
        response = render(request, template, full, status=status)
    elif wanted in page.parts:
        response = _part(request, page.parts[wanted], full)
    else:
        return HttpResponseNotFound()
    response[CLOCK] = full["now"].isoformat()
    return response


def tag_of(body: bytes) -> str:
    """Give the ETag of a part: equal for equal content."""
    return f'"{sha256(_FORM_TOKEN.sub(b"", body)).hexdigest()[:32]}"'


def _part(request: HttpRequest, template: str, context: Mapping[str, Any]) -> HttpResponse:
    body = render_to_string(template, dict(context), request=request).encode()
    tag = tag_of(body)
    # Compressed on its way, an answer's tag becomes a weak one.
    if request.headers.get("If-None-Match", "").removeprefix("W/") == tag:
        response: HttpResponse = HttpResponseNotModified()
    else:
        response = HttpResponse(body)
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Cookie"])
    return response
