"""Every component in every state with ugly data: for those who build pages, and for the tests that look at them."""

from datetime import timedelta
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import samples
from dashboard.access import ANY_GROUP, open_to
from dashboard.pages import Page, answer

SECTIONS: Final = (
    "sentences",
    "states",
    "marks",
    "texts",
    "json",
    "time",
    "figures",
    "acts",
    "lists",
    "nothing",
    "live",
    "thousands",
)
PAGE = Page(
    title="Gallery",
    place="gallery",
    parts={"rows": "dashboard/gallery/rows.html", "clock": "dashboard/gallery/clock.html"},
)


@open_to(ANY_GROUP)
@require_safe
def gallery(request: HttpRequest) -> HttpResponse:
    """Show the components; `?show=json,acts` shows those sections alone."""
    now = timezone.now()
    url = reverse("dashboard:gallery")
    wanted = request.GET.get("show", "").split(",")
    context = {
        "sections": [f"dashboard/gallery/{one}.html" for one in SECTIONS if one in wanted or wanted == [""]],
        "samples": samples,
        "states": samples.states,
        "digests": samples.digests,
        "names": ["pay-invoice", samples.LONG_NAME, samples.SCRIPT],
        "texts": samples.texts,
        "action": samples.action,
        "marked": ("/args/cents", "/args/lines/58/sku", "/args/note"),
        "long_ago": now - timedelta(days=400),
        "soon": now + timedelta(seconds=79),
        "timeline": lambda: samples.events(now),
        "plots": lambda: samples.plots(now),
        "acts": lambda: samples.acts(url),
        "bar": samples.filter_bar(url),
        "pagers": samples.pagers(url),
        "ticking": lambda: samples.ticking_rows(now),
        "thousand": range(1000),
    }  # fmt: skip
    return answer(request, "dashboard/gallery.html", PAGE, context)
