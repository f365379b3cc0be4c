"""The outermost middleware: gives every request its id, and answers for the API without the machinery of pages.

API requests end here. They never reach sessions, cookies, CSRF or messages, and no fault of theirs is answered in HTML.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import Final

import structlog
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import Resolver404, URLResolver, get_resolver, set_urlconf

from fencing.api import faults, metrics
from fencing.api.problems import internal, method_not_allowed, not_found, unavailable
from fencing.services.unavailable import why_unavailable

PREFIXES: Final = ("/api/", "/healthz", "/readyz", "/metrics", "/.well-known/")
URLS: Final = "fencing.api.urls"
SLOW_S: Final = 1.0
API_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
# The page of the document: its scripts and styles come from here, and it asks nobody else. Its library sets styles.
PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " frame-ancestors 'none'"
)
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = structlog.get_logger(__name__)

Next = Callable[[HttpRequest], HttpResponseBase]


class ApiMiddleware:
    """Put it first."""

    def __init__(self, get_response: Next) -> None:
        self._pages = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer an API request; hand every other on to the pages."""
        request.request_id = request_id = request_id_of(request)  # type: ignore[attr-defined]
        is_api = request.path_info.startswith(PREFIXES)
        response = self._answer(request, request_id) if is_api else self._pages(request)
        response["X-Request-ID"] = request_id
        return response

    @cached_property
    def _resolver(self) -> URLResolver:
        return get_resolver(URLS)

    def _answer(self, request: HttpRequest, request_id: str) -> HttpResponseBase:
        started = time.perf_counter()
        is_head = request.method == "HEAD"
        if is_head:
            # Whoever carries the answer leaves its body out.
            request.method = "GET"
        route, response = self._run(request, request_id)
        if is_head:
            request.method = "HEAD"
        for name, value in API_HEADERS.items():
            response.headers.setdefault(name, value)
        if response.get("Content-Type", "").startswith("text/html"):
            response["Content-Security-Policy"] = PAGE_POLICY
        # Django warns of every 4xx: here a refusal is a result, and is counted and logged as one.
        response._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
        note(request, route, response, time.perf_counter() - started)
        return response

    def _run(self, request: HttpRequest, request_id: str) -> tuple[str, HttpResponseBase]:
        """Run the view of an address, whatever becomes of it; the route is its pattern, without names."""
        route = "unknown"
        # Addresses that a view makes are the API's own: the pages may be absent, or at fault.
        set_urlconf(URLS)
        try:
            match = self._resolver.resolve(request.path_info)
            if match.url_name == "api-root":  # the framework's own, which has nothing to show
                return route, not_found()
            route = match.route
            request.resolver_match = match
            response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        except Resolver404:
            return route, not_found()
        except (DatabaseError, InterfaceError) as error:
            return route, self._failed(request_id, route, error)
        except Exception:
            log.exception("request_failed", request_id=request_id, route=route)
            return route, internal(request_id)
        if isinstance(response, HttpResponseNotAllowed):
            return route, method_not_allowed(request.method or "", response["Allow"])
        return route, response

    def _failed(self, request_id: str, route: str, error: Exception) -> HttpResponseBase:
        why = why_unavailable(error)
        if why is None:
            log.error("request_failed", request_id=request_id, route=route, exc_info=error)
            return internal(request_id)
        log.warning(
            "database_unavailable",
            request_id=request_id,
            route=route,
            why=why,
            error=type(error.__cause__ or error).__name__,
        )
        faults.RECENT.note(why)
        return unavailable(f"The database {why}. Nothing was decided; send the same call again.")


def request_id_of(request: HttpRequest) -> str:
    """The id under which logs and audit know a request: the caller's own, where it is a plain one."""
    return new_request_id(request.META.get("HTTP_X_REQUEST_ID", ""))


def new_request_id(given: str) -> str:
    """The caller's own id where it is a plain one, else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def note(request: HttpRequest, route: str, response: HttpResponseBase, seconds: float) -> None:
    """Measure a request; log it where it failed or took long. Never its body, its key or its token."""
    metrics.observe(request.method or "", route, response.status_code, seconds)
    if response.status_code >= 500 or seconds >= SLOW_S:  # noqa: PLR2004 - the class of a fault of ours
        told = {"method": request.method, "route": route, "status": response.status_code, "seconds": round(seconds, 4)}
        log.warning("request", request_id=request.request_id, **told)  # type: ignore[attr-defined]
