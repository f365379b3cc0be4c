"""Every place of the product on one page: what the bar of a phone has no room for."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import places
from dashboard.access import SIGNED_IN, groups_of, open_to
from dashboard.pages import Page, answer


@open_to(SIGNED_IN)
@require_safe
def more(request: HttpRequest) -> HttpResponse:
    """List the places with the question that each answers, and who is signed in."""
    context = {"places": places.existing(), "groups": sorted(groups_of(request.user))}
    return answer(request, "dashboard/more.html", Page(title="All pages", place="more"), context)
