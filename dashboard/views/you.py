"""Oneself: how one signs in, second factors, where one is signed in, and one's password."""

from __future__ import annotations

from typing import Any, Final

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access import ANYBODY, SIGNED_IN, groups_of, open_to, stranger, themself
from dashboard.confirming import is_confirmed
from dashboard.door.forms import ChangePasswordForm, NewPasswordForm
from dashboard.door.provider_views import account_of
from dashboard.door.views import at_most, door
from dashboard.pages import Page, answer
from dashboard.presenters.browsers import in_words
from dashboard.second_factors import USABLE, is_second_factor_needed
from fencing.environment import Mode
from fencing.services.people import end_sessions, note

WRONG: Final = 422
GONE: Final = 410
LINK: Final = "fence_password_link"
FORM = ["GET", "HEAD", "POST"]


@open_to(SIGNED_IN)
@door
@require_safe
def you(request: HttpRequest) -> HttpResponse:
    """Show how the person signs in, and what they can do about it."""
    person = _person(request)
    factors = list(Authenticator.objects.filter(user_id=person.pk).order_by("created_at"))
    recovery = next((each for each in factors if each.type == Authenticator.Type.RECOVERY_CODES), None)
    groups = groups_of(person)
    context: dict[str, Any] = {
        "groups": sorted(groups),
        "code": next((each for each in factors if each.type == Authenticator.Type.TOTP), None),
        "passkeys": [_passkey(each) for each in factors if each.type == Authenticator.Type.WEBAUTHN],
        "has_second_factor": any(each.type in USABLE for each in factors),
        "is_second_factor_needed": is_second_factor_needed(groups),
        "is_production": settings.FENCE_MODE is Mode.PRODUCTION,
        "recovery": recovery,
        "codes_left": len(recovery.wrap().get_unused_codes()) if recovery else 0,
        "has_password": person.has_usable_password(),
        "provider": settings.FENCE_PROVIDER,
        "account": account_of(request),
        "sessions": _sessions(request, person),
        "is_confirmed": is_confirmed(request),
    }
    return answer(request, "dashboard/you.html", Page(title="You", place="you"), context)


@open_to(SIGNED_IN)
@door
@sensitive_post_parameters()
@require_http_methods(FORM)
def change_password(request: HttpRequest) -> HttpResponse:
    """Change the person's own password; every other session of theirs ends."""
    person = _person(request)
    form = ChangePasswordForm(request, person, request.POST or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            person.set_password(form.cleaned_data["new_password"])
            person.save(update_fields=["password"])
            update_session_auth_hash(request, person)
            UserSession.objects.create_from_request(request)  # it has another number now
            note("change_password", person.get_username(), themself(request))
            end_sessions(person.get_username(), "", themself(request), but=request.session.session_key or "")
        messages.success(request, "Your password is changed, and everywhere else you are signed out.")
        return redirect("dashboard:you")
    context = {"page": Page(title="Change your password", place="you"), "form": form}
    return render(request, "dashboard/door/change_password.html", context, status=WRONG if form.is_bound else 200)


@open_to(SIGNED_IN)
@door
@require_POST
def sign_out_elsewhere(request: HttpRequest) -> HttpResponse:
    """End every session of the person but this one."""
    name = request.user.get_username()
    end_sessions(name, "", themself(request), but=request.session.session_key or "")
    messages.success(request, "You are signed out everywhere else.")
    return redirect("dashboard:you")


@open_to(ANYBODY)
@door
@at_most("30/m/ip")
@require_safe
def open_password_link(request: HttpRequest, name: str, token: str) -> HttpResponse:
    """Take a link that an administrator gave. Opening it changes nothing: a scanner may do so, and the link stays good.

    The token goes into the session and out of the address, which pages, histories and other hosts could tell on.
    """
    request.session[LINK] = {"name": name, "token": token}
    return redirect("dashboard:set_password")


@open_to(ANYBODY)
@door
@sensitive_post_parameters()
@require_http_methods(FORM)
def set_password(request: HttpRequest) -> HttpResponse:
    """Let the bearer of a link set the password, once; then they sign in with it."""
    person = _person_of_link(request)
    if person is None:
        return render(request, "dashboard/door/link_gone.html", {"page": Page(title="The link is over")}, status=GONE)
    form = NewPasswordForm(request, person, request.POST or None)
    if request.method == "POST" and form.is_valid():
        return _set(request, form)
    context = {"page": Page(title="Set your password"), "form": form, "name": person.get_username()}
    return render(request, "dashboard/door/set_password.html", context, status=WRONG if form.is_bound else 200)


def _set(request: HttpRequest, form: NewPasswordForm) -> HttpResponse:
    with transaction.atomic():
        # Two at once with one link: the second finds it used, since the link is bound to the password before it.
        User.objects.select_for_update().get(pk=form.person.pk)
        person = _person_of_link(request)
        if person is not None:
            person.set_password(form.cleaned_data["new_password"])
            person.save(update_fields=["password"])
            note("set_password", person.get_username(), stranger(request))
    request.session.pop(LINK, None)
    if person is None:
        return redirect("dashboard:set_password")
    messages.success(request, f"Your password is set. Sign in as {person.get_username()}.")
    return redirect("account_login")


def _person_of_link(request: HttpRequest) -> User | None:
    told = request.session.get(LINK)
    if not isinstance(told, dict):
        return None
    person = User.objects.filter(username=told["name"], is_active=True).first()
    is_good = person is not None and default_token_generator.check_token(person, told["token"])
    return person if is_good else None


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - the middleware lets no stranger in
    return request.user


def _passkey(factor: Authenticator) -> dict[str, Any]:
    wrapped = factor.wrap()
    return {
        "id": factor.pk,
        "name": wrapped.name,
        "is_alone": wrapped.is_passwordless,
        "created_at": factor.created_at,
        "last_used_at": factor.last_used_at,
    }


def _sessions(request: HttpRequest, person: User) -> list[dict[str, Any]]:
    known = UserSession.objects.purge_and_list(person)
    return [
        {
            "address": each.ip,
            "browser": in_words(each.user_agent),
            "since": each.created_at,
            "is_this": each.session_key == request.session.session_key,
        }
        for each in sorted(known, key=lambda each: each.created_at, reverse=True)
    ]
