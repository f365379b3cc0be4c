"""Sessions that end: after a while without a person, at the latest some hours after sign-in, and all at once on demand.

Pages that refresh themselves ask every few seconds: they do not keep a session alive.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

TIMES: Final = "fence_times"
# The last use is written at most this often (seconds): a row less for each page.
WRITE_EVERY_S: Final = 60
ENDED: Final = "Your session has ended. Sign in again; you go on where you were."
MOST_SWEPT: Final = 500
MOST_APART_S: Final = 900


class SessionLimitsMiddleware:
    """Signs out whose session is too old, or was left alone for too long. Put it behind the authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """End the session or note its use, then go on."""
        if request.user.is_authenticated:
            _check(request)
        return self._get_response(request)


def _check(request: HttpRequest) -> None:
    now = time.time()
    times = request.session.get(TIMES)
    if not isinstance(times, dict) or times.get("person") != request.user.pk:
        begin(request)
        return
    # Web processes on machines whose clocks differ must not end each other's sessions; nothing else hangs on this.
    is_over = not -MOST_APART_S <= now - times["since"] < settings.FENCE_SESSION_MAX_S
    if is_over or now - times["used"] >= settings.FENCE_SESSION_IDLE_S:
        logout(request)
        messages.info(request, ENDED)
    elif not is_refresh(request) and now - times["used"] >= WRITE_EVERY_S:
        request.session[TIMES] = {**times, "used": now}


def is_refresh(request: HttpRequest) -> bool:
    """Tell whether a page asks by itself, and no person does."""
    return request.headers.get("HX-Request") == "true" and "part" in request.GET


def begin(request: HttpRequest, person: AbstractBaseUser | AnonymousUser | None = None) -> None:
    """Note that a session of its person begins now."""
    now = time.time()
    request.session[TIMES] = {"since": now, "used": now, "person": (person or request.user).pk}


def sweep_sessions() -> None:
    """Remove some sessions that are over: as many with each sign-in as keeps the table small."""
    over = Session.objects.filter(expire_date__lt=timezone.now()).values_list("pk", flat=True)[:MOST_SWEPT]
    Session.objects.filter(pk__in=list(over)).delete()
