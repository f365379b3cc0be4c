"""How django-allauth is bent to this house: nobody signs up, guesses are counted here, a confirmation is ours."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth import authenticate
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.access import groups_of
from dashboard.confirming import is_confirmed
from dashboard.door import guessing
from dashboard.second_factors import is_last_second_factor, is_second_factor_needed
from fencing.api.access import address_of
from fencing.services import locked_text

NO_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a column that takes nothing else, no socket
NAMELESS: Final = "That name and password do not open the door."


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # ships no types
    """Names and passwords."""

    error_messages: Mapping[str, Any] = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": NAMELESS,
        "incorrect_code": "That code is wrong, was used already, or is over.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Say no: people are made by administrators."""
        del request
        return False

    def authenticate(self, request: HttpRequest, **credentials: Any) -> AbstractBaseUser | None:
        """Check a name and password, as one guess."""
        name = str(credentials.get("username") or "")
        return guessing.guess(
            request, name, lambda: authenticate(request, **credentials), is_counted_there=True
        )  # Django tells of a failure by itself

    def respond_user_inactive(self, request: HttpRequest, user: AbstractBaseUser) -> HttpResponse:
        """Say of somebody who was shut out no more than of a wrong password."""
        del user
        messages.error(request, NAMELESS)
        return redirect("account_login")

    def is_safe_url(self, url: str | None) -> bool:
        """Let a sign-in lead to this host alone, never to others that are only trusted to send forms."""
        request = context.request
        return bool(url) and url_has_allowed_host_and_scheme(
            url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
        )

    def get_client_ip(self, request: HttpRequest) -> str:
        """Give the address as the rest of the system reads it."""
        return address_of(request) or NO_ADDRESS

    def is_reauthentication_required(self, *, app: str, **_: Any) -> bool:
        """Ask for a confirmation before second factors and accounts change, like before any grave act."""
        del app
        return not is_confirmed(context.request)

    def get_reauthentication_methods(self, user: AbstractBaseUser | AnonymousUser) -> list[dict[str, Any]]:
        """Send everybody who has to confirm to the one page that asks."""
        return [{"id": "confirm", "description": "Confirm", "url": reverse("dashboard:confirm")}] if user.pk else []

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing by itself: the pages say what they show, and the views what they did."""

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """Send no mail: the audit tells, and a machine on call may have none."""


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # ships no types
    """Codes, passkeys and recovery codes."""

    error_messages: Mapping[str, Any] = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "That code is wrong, was used already, or is over.",
        "cannot_delete_authenticator": "In production people who act keep a second factor: add another one first.",
    }

    def encrypt(self, text: str) -> str:
        """Lock a secret before it is stored."""
        return locked_text.lock(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Read a stored secret."""
        return locked_text.unlock(encrypted_text)

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Keep the last second factor of whoever acts in production: without it they could not act, nor add another."""
        return not (is_second_factor_needed(groups_of(authenticator.user)) and is_last_second_factor(authenticator))

    def build_totp_svg(self, url: str) -> str:
        """Draw nothing: theirs has styles in it, which the pages' policy forbids (`dashboard.door.squares` draws)."""
        del url
        return ""

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:  # noqa: A002 - theirs
        """Name a passkey that its owner did not."""
        return f"passkey {Authenticator.objects.filter(user_id=user.pk, type=type).count() + 1}"

    def _get_site_name(self) -> str:
        return "Fence"


def can_have_passkeys(request: HttpRequest) -> bool:
    """Tell whether browsers make passkeys for this host: they do for names, over HTTPS or on this very machine."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return request.is_secure() or host == "localhost" or host.endswith(".localhost")
    return False


def named(person: AbstractBaseUser | AnonymousUser) -> User:
    """Give a person of a request as what they are behind the door.

    Raises:
        ImmediateHttpResponse: it is nobody.
    """
    if not isinstance(person, User):
        raise ImmediateHttpResponse(redirect("account_login"))
    return person
