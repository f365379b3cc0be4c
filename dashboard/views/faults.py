"""Pages for what went wrong. None of them asks the database for anything: it may be what is away."""

from __future__ import annotations

import sys
from typing import Final

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

RETRY_AFTER_S: Final = 10
TOO_MANY_FOR_S: Final = 60
NO_ROW_TELLS: Final = "There is no such page, or the object that it showed has another name."


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say what is not allowed, with the reason of the rule."""
    reason = str(exception) if exception and str(exception) else "You may not do this."
    return _fault(request, 403, "Not allowed", reason)


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Say that a form came without the token of this session, and that nothing happened."""
    del reason  # Django's words are for developers
    told = "The form was older than your session, or came from another site. Nothing was done; open the page again."
    return _fault(request, 403, "Nothing was done", told)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say that there is nothing here."""
    told = exception.args[0] if exception and exception.args and isinstance(exception.args[0], str) else NO_ROW_TELLS
    return _fault(request, 404, "Nothing here", told)


def too_many(request: HttpRequest) -> HttpResponse:
    """Say that too much was asked at once."""
    response = _fault(request, 429, "Too many at once", "That was asked too often from where you are. Wait a minute.")
    response["Retry-After"] = str(TOO_MANY_FOR_S)
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that the page failed; 503 where the database is away. Nothing of the fault itself is shown."""
    error = sys.exc_info()[1]
    if isinstance(error, OperationalError | InterfaceError):
        told = "The database is away or full. Nothing commits meanwhile, and nothing that was acknowledged is lost."
        response = _fault(request, 503, "Not now", told)
        response["Retry-After"] = str(RETRY_AFTER_S)
        return response
    told = "This page failed. Nothing was decided by it. The id below finds the fault in the log."
    return _fault(request, 500, "A fault of ours", told)


def _fault(request: HttpRequest, status: int, title: str, told: str) -> HttpResponse:
    context = {"status": status, "title": title, "told": told, "request_id": getattr(request, "request_id", "")}
    # Rendered without context processors: they would ask the session, and so the database.
    return HttpResponse(render_to_string("dashboard/fault.html", context), status=status)
