"""Authority: who may do what until when, through which grant or key, now and at a moment of the past."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import Group, open_to, reader_of
from dashboard.pages import Page, answer
from dashboard.presenters import authority as presenter
from fencing.protocol.errors import Refusal
from fencing.protocol.moments import read_moment
from fencing.queries.authority import Authority, read_authority

PAGE: Final = Page(title="Authority", place="authority")
NO_TIME: Final = "That is no time: write it as 2026-11-30 02:14, in UTC. This is as of now."
TO_COME: Final = "That moment has not come yet, and nobody knows who may do what then. This is as of now."
UNPROCESSABLE: Final = 422


@open_to(Group.AUDITOR, Group.ONCALL, Group.REVIEWER, Group.ADMINISTRATOR)
@require_safe
def authority(request: HttpRequest) -> HttpResponse:
    """Show who may do what, as of a moment in UTC; as of now where none is named."""
    reader_of(request)
    typed = request.GET.get("at", "").strip()
    found, fault = _read(typed)
    context = {
        "now": found.now,
        "found": found,
        "typed": presenter.exact(found.at) if typed and not fault else typed,
        "fault": fault,
        "sentence": presenter.sentence_of(found),
        "grants": presenter.grants_of(found),
        "keys": presenter.keys_of(found),
    }
    return answer(request, "dashboard/authority.html", PAGE, context, status=UNPROCESSABLE if fault else 200)


def _read(typed: str) -> tuple[Authority, str]:
    """Read authority as of what was typed; as of now, with the reason, where that is no moment of the past."""
    at = read_moment(typed) if typed else None
    fault = NO_TIME if typed and at is None else ""
    found = read_authority(at)
    if isinstance(found, Refusal):
        found, fault = read_authority(None), TO_COME
    assert isinstance(found, Authority)  # noqa: S101 - the present is never refused
    return found, fault
