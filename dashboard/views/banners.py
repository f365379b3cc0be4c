"""The live part at the top of every page."""

from __future__ import annotations

from functools import cache
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to
from dashboard.announcing import banners_for
from dashboard.pages import Page, answer

PAGE: Final = Page(title="Banners", parts={"banners": "components/banner_lines.html"})


@open_to(ANY_GROUP)
@require_safe
def banners(request: HttpRequest) -> HttpResponse:
    """Answer with what stands at the top of every page now. There is no page of its own: it is read as a part."""
    if request.GET.get("part") is None:
        return redirect("dashboard:overview")
    where = request.GET.get("on", "")
    context = {"banners": cache(lambda: banners_for(request.user, where))}
    return answer(request, "components/banner_lines.html", PAGE, context)
