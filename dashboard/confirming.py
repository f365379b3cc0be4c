"""Recent confirmation (G7): a grave act asks that the person show within five minutes that it is really them.

What was typed is kept in the session, and shown again afterwards for the person to press the button once more. Nothing
is sent by anybody but the person (`fencing/decisions/0012-forms-are-kept-never-replayed.md`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.db import connection
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.pages import Page
from dashboard.second_factors import has_second_factor
from fencing.environment import Mode

CONFIRMED_FOR_S: Final = 300
KEPT_FOR_S: Final = 900
MAX_KEPT: Final = 3
# What is kept lies in the session's row: as large as a form of three hundred steps, and no larger.
MAX_KEPT_BYTES: Final = 256 * 1024
CONFIRMED: Final = "fence_confirmed"
KEPT: Final = "fence_kept"
ASKED: Final = "fence_asked"
SECOND_FACTOR_SHOWN: Final = "fence_second_factor"
GONE: Final = 410
NEVER_KEPT: Final = frozenset({"csrfmiddlewaretoken", "password", "address"})

View = Callable[..., HttpResponseBase]
Show = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a confirmation is asked for: it completes "Confirm that it is you, to …"."""

    says: str
    by_second_factor: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A form that was sent before the person had confirmed."""

    path: str
    back: str
    typed: QueryDict


def confirmed_recently(
    says: str, *, show: Show | None = None, by_second_factor: bool = False
) -> Callable[[View], View]:
    """Let a posting view run only within five minutes of a confirmation. Outermost, above `require_POST`.

    Without one, what was posted is kept, the person confirms ("Confirm that it is you, to `says`"), and comes back to
    the same address: there `show(request, typed, **names)` shows the page with the form as it was typed, or a page of
    its own lists the fields. Neither acts; the person presses the button again.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method in ("GET", "HEAD") and "kept" in request.GET:
                return _show_again(request, says, show, args, kwargs)
            if request.method != "POST" or is_confirmed(request, by_second_factor=by_second_factor):
                return view(request, *args, **kwargs)
            return _ask(request, says, by_second_factor=by_second_factor)

        return guarded

    return decorate


def note_confirmation(
    session: SessionBase, person: AbstractBaseUser | AnonymousUser, *, by_second_factor: bool
) -> None:
    """Write into the session that its person has just shown who they are, by the database's clock."""
    now = database_now().timestamp()
    known = session.get(CONFIRMED)
    before = known.get("second") if isinstance(known, dict) and known.get("person") == person.pk else None
    session[CONFIRMED] = {"person": person.pk, "at": now, "second": now if by_second_factor else before}
    if by_second_factor:
        session[SECOND_FACTOR_SHOWN] = person.pk


def is_confirmed(request: HttpRequest, *, by_second_factor: bool = False) -> bool:
    """Tell whether an act would go through now: this session's person showed who they are within five minutes.

    A confirmation belongs to one session and one person, and a clock that steps back revives nothing.
    """
    told = request.session.get(CONFIRMED)
    if not isinstance(told, dict) or not request.user.is_authenticated or told.get("person") != request.user.pk:
        return False
    at = told["second"] if by_second_factor and takes_second_factor(request.user) else told["at"]
    return at is not None and 0 <= database_now().timestamp() - at < CONFIRMED_FOR_S


def takes_second_factor(person: AbstractBaseUser | AnonymousUser) -> bool:
    """Tell whether a confirmation by second factor takes one: outside production mode a password does, without any."""
    return settings.FENCE_MODE is Mode.PRODUCTION or has_second_factor(person)


def asked_for(request: HttpRequest, way: str) -> Asked | None:
    """Tell for what the person who goes on to `way` is asked. It is from the session: a link could say anything."""
    told = request.session.get(ASKED)
    if not isinstance(told, dict) or not way or told.get("next") != way:
        return None
    return Asked(says=told["says"], by_second_factor=bool(told["second"]))


def confirm_url(way: str) -> str:
    """Give the address of the page that asks, and goes on to `way`."""
    return f"{reverse('dashboard:confirm')}?{urlencode({'next': way})}"


def database_now() -> datetime:
    """Read the one clock that decides (N3)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        ((now,),) = cursor.fetchall()
    moment: datetime = now
    return moment


def _ask(request: HttpRequest, says: str, *, by_second_factor: bool) -> HttpResponse:
    token = _keep(request)
    if token is None:
        told = (
            "The form is too large to be kept while you confirm. Nothing was done. Confirm, then go back with your"
            " browser and send it again."
        )
        messages.error(request, told)
    way = page_of(request) if token is None else f"{request.path}?{urlencode({'kept': token})}"
    request.session[ASKED] = {"next": way, "says": says, "second": by_second_factor}
    url = confirm_url(way)
    if request.headers.get("HX-Request") == "true":
        response = HttpResponse(status=204)
        response["HX-Redirect"] = url
        return response
    answer = redirect(url)
    answer.status_code = 303
    return answer


def _keep(request: HttpRequest) -> str | None:
    fields = [(name, values) for name, values in request.POST.lists() if name not in NEVER_KEPT]
    if request.FILES or len(json.dumps(fields)) > MAX_KEPT_BYTES:
        return None
    token = secrets.token_urlsafe(12)
    now = database_now().timestamp()
    kept = {name: one for name, one in request.session.get(KEPT, {}).items() if 0 <= now - one["at"] < KEPT_FOR_S}
    newest = sorted(kept.items(), key=lambda item: item[1]["at"])[-(MAX_KEPT - 1) :]
    one = {"path": request.path, "back": page_of(request), "fields": fields, "at": now}
    request.session[KEPT] = {**dict(newest), token: one}
    return token


def page_of(request: HttpRequest) -> str:
    """Give the page that a posted form stood on, where the browser tells it and it is ours; else the overview."""
    told = request.headers.get("Referer", "")
    is_ours = url_has_allowed_host_and_scheme(
        told, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    parts = urlsplit(told)
    way = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return way if told and is_ours and way.startswith("/") else "/"


def kept_form(request: HttpRequest, path: str, token: str) -> Kept | None:
    """Find what this session keeps for an address; None where it is gone or was never there."""
    one = request.session.get(KEPT, {}).get(token)
    if one is None or one["path"] != path or not 0 <= database_now().timestamp() - one["at"] < KEPT_FOR_S:
        return None
    typed = QueryDict(mutable=True)
    for name, values in one["fields"]:
        typed.setlist(name, values)
    typed._mutable = False  # noqa: SLF001 - Django's own way to close one
    return Kept(path=one["path"], back=one["back"], typed=typed)


def _show_again(
    request: HttpRequest, says: str, show: Show | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> HttpResponseBase:
    kept = kept_form(request, request.path, request.GET["kept"])
    if kept is None:
        return render(request, "dashboard/not_kept.html", {"page": Page(title="The form is gone")}, status=GONE)
    if show is not None:
        return show(request, kept.typed, *args, **kwargs)
    context = {
        "page": Page(title="Send it now?"),
        "says": says,
        "kept": kept,
        "fields": [(name, value) for name, values in kept.typed.lists() for value in values],
    }
    return render(request, "dashboard/kept.html", context)
