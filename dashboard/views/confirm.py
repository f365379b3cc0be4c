"""Confirming that it is really the person who is signed in: by a passkey, a code, or their password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from allauth.account.internal.flows.reauthentication import reauthenticate_by_password
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import begin_authentication
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from dashboard.access import SIGNED_IN, open_to
from dashboard.confirming import asked_for, takes_second_factor
from dashboard.door.forms import ConfirmCodeForm, ConfirmPasskeyForm, ConfirmPasswordForm
from dashboard.door.views import door
from dashboard.pages import Page

WRONG: Final = 422
CODES: Final = frozenset({Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How a person can confirm."""

    password: bool
    code: bool
    passkey: bool

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return self.password or self.code or self.passkey


@open_to(SIGNED_IN)
@door
@sensitive_post_parameters("password", "code", "credential")
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest) -> HttpResponse:
    """Ask once more who it is, and go back to the form that was kept."""
    assert isinstance(request.user, User)  # noqa: S101 - the middleware lets no stranger in
    way = _way(request)
    asked = asked_for(request, way)
    ways = _ways(request.user, by_second_factor=asked is not None and asked.by_second_factor)
    forms = _forms(request, ways)
    if request.method == "POST" and _is_confirmed(request, forms):
        return redirect(way)
    context = {
        "page": Page(title="Confirm that it is you"),
        "next": way,
        "asked": asked,
        "ways": ways,
        "forms": forms,
        "passkey": {"request_options": begin_authentication(request.user)} if ways.passkey else None,
    }
    return render(request, "dashboard/confirm.html", context, status=WRONG if request.method == "POST" else 200)


def _way(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and is_ours else reverse("dashboard:overview")


def _ways(person: User, *, by_second_factor: bool) -> Ways:
    types = set(Authenticator.objects.filter(user_id=person.pk).values_list("type", flat=True))
    is_password_enough = not by_second_factor or not takes_second_factor(person)
    return Ways(
        password=person.has_usable_password() and is_password_enough,
        code=bool(types & CODES),
        passkey=Authenticator.Type.WEBAUTHN in types,
    )


def _forms(request: HttpRequest, ways: Ways) -> dict[str, Any]:
    """Make the forms of the ways that there are; the one that was sent is bound."""
    sent, person = request.POST, request.user
    assert isinstance(person, User)  # noqa: S101 - asked above
    made: dict[str, Any] = {}
    if ways.passkey:
        made["passkey"] = ConfirmPasskeyForm(user=person, data=sent if "credential" in sent else None)
    if ways.code:
        made["code"] = ConfirmCodeForm(user=person, data=sent if "code" in sent else None)
    if ways.password:
        made["password"] = ConfirmPasswordForm(request, person, sent if "password" in sent else None)
    return made


def _is_confirmed(request: HttpRequest, forms: Mapping[str, Any]) -> bool:
    for way, form in forms.items():
        if form.is_bound and form.is_valid():
            # Both tell django-allauth, whose signal writes the confirmation into the session.
            if way == "password":
                reauthenticate_by_password(request)
            else:
                form.save()
            return True
    return False
