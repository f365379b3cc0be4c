"""The way to the provider and back: pages for when it does not answer, and for who is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANYBODY, SIGNED_IN, confirmed_recently, open_to, themself
from dashboard.door import provider
from dashboard.door.views import at_most, door
from dashboard.pages import Page
from fencing.protocol.errors import Refusal
from fencing.services.people import link_account, unlink_account

LOGIN, CONNECT = "login", "connect"
UNAVAILABLE: Final = 503
REFUSED: Final = 403

log = structlog.get_logger(__name__)


@open_to(ANYBODY)
@door
@at_most("30/m/ip")
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Go to the provider to sign in."""
    return _go(request, process=LOGIN, way=_ours(request, request.POST.get("next", "")))


@open_to(SIGNED_IN)
@confirmed_recently("link your account at the provider")
@door
@require_POST
def link(request: HttpRequest) -> HttpResponse:
    """Go to the provider to show which account there is one's own."""
    return _go(request, process=CONNECT, way="", data={"person": request.user.pk})


@open_to(SIGNED_IN)
@confirmed_recently("unlink your account at the provider")
@door
@require_POST
def unlink(request: HttpRequest) -> HttpResponse:
    """Let the provider open the door no more."""
    if not isinstance(request.user, User) or not request.user.has_usable_password():
        messages.error(request, "You have no password here: without the provider you could not sign in.")
        return redirect("mfa_index")
    unlink_account(request.user.get_username(), "", themself(request))
    messages.success(request, "Unlinked. The provider opens this door for you no more.")
    return redirect("mfa_index")


@open_to(ANYBODY)
@door
@at_most("30/m/ip")
@require_safe
def back(request: HttpRequest) -> HttpResponseBase:
    """Take the provider's answer. It is a GET by the protocol; its state is good once, in the browser that began."""
    if settings.FENCE_PROVIDER is None:
        raise Http404("No provider is set up.")
    try:
        begun, claims = provider.come_back(request)
    except provider.ProviderDown as fault:
        return _failed(request, UNAVAILABLE, fault)
    except provider.ProviderRefused as fault:
        return _failed(request, REFUSED, fault)
    if begun.get("process") == CONNECT:
        return _link(request, begun, claims)
    person = provider.person_for(request, claims)
    if person is None:
        return _unknown(request, claims)
    if request.user.is_authenticated:
        logout(request)
    return provider.let_in(request, person, _ours(request, begun.get("next") or "") or None)


def _go(request: HttpRequest, *, process: str, way: str, data: Mapping[str, Any] | None = None) -> HttpResponse:
    """Answer with a page that goes on by itself: browsers let no posted form be redirected to another host here."""
    if settings.FENCE_PROVIDER is None:
        raise Http404("No provider is set up.")
    try:
        url = provider.way_there(request, process=process, way=way, data=data)
    except provider.ProviderDown as fault:
        return _failed(request, UNAVAILABLE, fault, way)
    page = Page(title=f"On to {settings.FENCE_PROVIDER.name}")
    return render(
        request, "dashboard/door/onward.html", {"page": page, "url": url, "provider": settings.FENCE_PROVIDER}
    )


def _link(request: HttpRequest, begun: Mapping[str, Any], claims: Mapping[str, Any]) -> HttpResponse:
    begun_by = (begun.get("data") or {}).get("person")
    if not request.user.is_authenticated or request.user.pk != begun_by:
        return _failed(request, REFUSED, provider.ProviderRefused("somebody else began to link an account"))
    name = request.user.get_username()
    done = link_account(name, provider.provider_id(), provider.uid_of(claims), themself(request))
    if isinstance(done, Refusal):
        messages.error(request, done.detail)
    else:
        messages.success(request, f"Linked. {provider.configured().name} opens this door for you from now on.")
    return redirect("mfa_index")


def _unknown(request: HttpRequest, claims: Mapping[str, Any]) -> HttpResponse:
    context = {
        "page": Page(title="Nobody here has that account"),
        "provider": settings.FENCE_PROVIDER,
        "account": provider.uid_of(claims),
        "called": str(claims.get("preferred_username") or claims.get("name") or ""),
    }
    return render(request, "dashboard/door/unknown_account.html", context, status=REFUSED)


def _failed(request: HttpRequest, status: int, fault: Exception, way: str = "") -> HttpResponse:
    log.warning("provider_failed", fault=type(fault).__name__, why=str(fault))
    is_down = status == UNAVAILABLE
    name = provider.configured().name
    context = {
        "page": Page(title=f"{name} does not answer" if is_down else f"{name} did not let you in"),
        "provider": settings.FENCE_PROVIDER,
        "is_down": is_down,
        "why": str(fault),
        "next": way,
        "request_id": getattr(request, "request_id", ""),
    }
    return render(request, "dashboard/door/provider_failed.html", context, status=status)


def _ours(request: HttpRequest, url: str) -> str:
    is_ours = url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return url if url and is_ours else ""


def account_of(request: HttpRequest) -> str:
    """Give the signed-in person's account at the provider; empty where none is linked, or there is no provider."""
    if settings.FENCE_PROVIDER is None:
        return ""
    accounts = SocialAccount.objects.filter(user_id=request.user.pk, provider=provider.provider_id())
    return str(accounts.values_list("uid", flat=True).first() or "")
