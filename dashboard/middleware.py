"""What holds for every page: strict headers, signed-in people in a group, and nothing kept by a browser's cache.

The API answers before any of this (`fencing.api.middleware`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from dashboard.access import ANY_GROUP, check_may_open, note_second_factor, openings_of
from dashboard.confirming import SECOND_FACTOR_SHOWN as SHOWN
from dashboard.confirming import page_of

# No inline script, no inline style, no other host. `data:` is for nobody: images are files or drawn in the page.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SIGNED_OUT: Final = 401
DEFAULT: Final = frozenset({ANY_GROUP})


class PageHeadersMiddleware:
    """Put it around everything that makes pages, static files included."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Add what an answer lacks. A page of a signed-in person is not for a cache that outlives the session."""
        response = self._get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class PeopleMiddleware(LoginRequiredMiddleware):
    """Sends strangers to the sign-in page, and stops people whom a view is not open to (`dashboard.access.open_to`)."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        """Let a request through to its view, or answer it. A view that declares nothing is for any group."""
        answer: HttpResponseBase | None = super().process_view(request, view_func, view_args, view_kwargs)
        if answer is None and getattr(view_func, "login_required", True):
            note_second_factor(request.user, is_shown=request.session.get(SHOWN) == request.user.pk)
            check_may_open(request.user, openings_of(view_func) or DEFAULT)
        return answer

    def handle_no_permission(  # type: ignore[override]  # stubs want a redirect
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        """Send a stranger to the sign-in page; a live part gets a bare 401, since a page inside it is nonsense."""
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=SIGNED_OUT)
        if request.method in ("GET", "HEAD"):
            return super().handle_no_permission(request, view_func)
        # A posted form is not repeated by a redirect: one goes on to the page that it stood on, with what was typed.
        page = page_of(request)
        return redirect(settings.LOGIN_URL) if page == "/" else redirect_to_login(page)
