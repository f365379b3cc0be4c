"""The views of the door: django-allauth's, with this house's pages around them and its audit within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final
from urllib.parse import urlencode

from allauth.account.internal.stagekit import clear_login
from allauth.account.views import LoginView
from allauth.core.exceptions import ReauthenticationRequired
from allauth.core.internal import ratelimit
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.views import AddWebAuthnView, EditWebAuthnView, LoginWebAuthnView, RemoveWebAuthnView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from dashboard.access import ANYBODY, SIGNED_IN, open_to, themself
from dashboard.confirming import confirm_url
from dashboard.door.adapters import SecondFactorAdapter, can_have_passkeys
from dashboard.door.guessing import Kind, Lock, LockedOut, lock_on, name_of
from dashboard.door.squares import squares
from dashboard.pages import Page
from fencing.services.people import note

TOO_MANY: Final = 429
WRONG: Final = 422

View = Callable[..., HttpResponseBase]


def door(view: View) -> View:
    """Put it around every view of the door: nothing is cached, and a lock is answered by its page."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except LockedOut as shut:
            return _locked(request, shut.lock)
        except ReauthenticationRequired:
            # Theirs would keep the whole request, cookies included, and send it again by itself.
            return redirect(confirm_url(request.get_full_path()))

    return guarded


def at_most(rate: str) -> Callable[[View], View]:
    """Limit what strangers ask for from one address (`60/m/ip`), where each time makes a session or asks a provider."""

    def decorate(view: View) -> View:
        @wraps(view)
        def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            rates = {view.__name__: rate}
            refusal: HttpResponse | None = ratelimit.consume_or_429(
                request, app="door", action=view.__name__, config=rates, limit_get=True
            )
            return refusal or view(request, *args, **kwargs)

        return limited

    return decorate


def in_one_transaction(view: View) -> View:
    """Let what a posting view changes and its audit row be written together, or not at all (U1)."""

    @wraps(view)
    def together(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        with transaction.atomic():
            response = view(request, *args, **kwargs)
            if hasattr(response, "render"):
                response.render()
            return response

    return together


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: Mapping[str, Any] | None = None
) -> HttpResponse:
    """Answer for django-axes where it, and not our own guard, found the door shut."""
    lock = lock_on(request, name_of(request, credentials))
    return _locked(request, lock) if lock is not None else response or redirect("account_login")


def _locked(request: HttpRequest, lock: Lock) -> HttpResponse:
    context = {
        "page": Page(title="The door is shut for a while"),
        "now": timezone.now(),
        "lock": lock,
        "is_name": lock.kind in (Kind.NAME, Kind.NAME_HERE),
        "is_place": lock.kind is Kind.PLACE,
        "is_busy": lock.kind is Kind.BUSY,
        "is_behind_proxy": settings.SECURE_PROXY_SSL_HEADER is not None,
    }
    response = render(request, "dashboard/door/locked.html", context, status=TOO_MANY)
    response["Retry-After"] = str(max(1, round((lock.until - timezone.now()).total_seconds())))
    return response


class SignIn(LoginView):  # type: ignore[misc]  # ships no types
    """Name and password, a passkey, or the provider."""

    template_name = "dashboard/door/sign_in.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Give the ways in, and where the person goes on to."""
        told: dict[str, Any] = super().get_context_data(**kwargs)
        told["page"] = Page(title="Sign in")
        told["next"] = self.get_next_url() or ""
        told["provider"] = settings.FENCE_PROVIDER
        told["can_have_passkeys"] = can_have_passkeys(self.request)
        return told

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        """Answer 422 where the name and password do not open the door."""
        status = WRONG if context["form"].is_bound else 200
        response: HttpResponse = super().render_to_response(context, status=status, **kwargs)
        return response


class SecondFactor(AuthenticateView):  # type: ignore[misc]  # ships no types
    """The second factor of somebody whose password was right."""

    template_name = "dashboard/door/second_factor.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Give the factors that this person has."""
        told: dict[str, Any] = super().get_context_data(**kwargs)
        person = self.stage.login.user
        types = set(Authenticator.objects.filter(user_id=person.pk).values_list("type", flat=True))
        told["page"] = Page(title="Second factor")
        told["name"] = person.get_username()
        told["has_code"] = Authenticator.Type.TOTP in types
        told["has_passkey"] = Authenticator.Type.WEBAUTHN in types
        return told

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        """Answer 422 where the code is wrong."""
        status = WRONG if self.form is not None else 200
        response: HttpResponse = super().render_to_response(context, status=status, **kwargs)
        return response


class PasskeySignIn(LoginWebAuthnView):  # type: ignore[misc]  # ships no types
    """A passkey alone: it is two factors in one, and no guess."""

    def form_invalid(self, form: Any) -> HttpResponse:
        """Go back to the door, with the way that was wanted."""
        del form
        messages.error(self.request, "That passkey does not open this door. Use your name and password.")
        way = self.request.POST.get("next", "")
        return redirect(f"{reverse('account_login')}?{urlencode({'next': way})}" if way else "account_login")


class AddCode(ActivateTOTPView):  # type: ignore[misc]  # ships no types
    """An authenticator that shows codes."""

    template_name = "dashboard/door/add_code.html"
    success_url = reverse_lazy("mfa_index")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Give the secret to scan and to type."""
        told: dict[str, Any] = super().get_context_data(**kwargs)
        secret = told["form"].secret
        told["path"], told["width"] = squares(told["totp_url"])
        told["secret"] = " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
        told["page"] = Page(title="Add an authenticator", place="you")
        return told

    def form_valid(self, form: Any) -> HttpResponse:
        """Add it, and write that down."""
        response: HttpResponse = super().form_valid(form)
        _note(self.request, "add_second_factor", after={"second_factor": "totp"})
        return response


class RemoveCode(DeactivateTOTPView):  # type: ignore[misc]  # ships no types
    """No codes any more."""

    template_name = "dashboard/door/remove_code.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Name the page."""
        return {**super().get_context_data(**kwargs), "page": Page(title="Remove the authenticator", place="you")}

    def form_valid(self, form: Any) -> HttpResponse:
        """Remove it, and write that down."""
        response: HttpResponse = super().form_valid(form)
        _note(self.request, "remove_second_factor", before={"second_factor": "totp"})
        messages.success(self.request, "The authenticator is removed. Its codes open nothing any more.")
        return response


class AddPasskey(AddWebAuthnView):  # type: ignore[misc]  # ships no types
    """A passkey or a security key."""

    template_name = "dashboard/door/add_passkey.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Say whether this address can have passkeys at all."""
        told: dict[str, Any] = super().get_context_data(**kwargs)
        told["form"].fields["passwordless"].label = "It may open the door alone, without name and password"
        told["form"].fields["passwordless"].help_text = "Then it asks for your finger, face or PIN."
        told["form"].fields["name"].label = "What you call it"
        told["can_have_passkeys"] = can_have_passkeys(self.request)
        told["page"] = Page(title="Add a passkey", place="you")
        return told

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        """Answer 422 where the passkey was not made as asked."""
        status = WRONG if context["form"].is_bound else 200
        response: HttpResponse = super().render_to_response(context, status=status, **kwargs)
        return response

    def form_valid(self, form: Any) -> HttpResponse:
        """Add it, and write that down."""
        response: HttpResponse = super().form_valid(form)
        told = {"second_factor": "webauthn", "name": form.cleaned_data["name"]}
        _note(self.request, "add_second_factor", after=told)
        return response


class RenamePasskey(EditWebAuthnView):  # type: ignore[misc]  # ships no types
    """Another name for a passkey."""

    template_name = "dashboard/door/rename_passkey.html"
    success_url = reverse_lazy("mfa_index")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Name the page."""
        told: dict[str, Any] = super().get_context_data(**kwargs)
        told["form"].fields["name"].label = "What you call it"
        return {**told, "page": Page(title="Rename a passkey", place="you")}


class RemovePasskey(RemoveWebAuthnView):  # type: ignore[misc]  # ships no types
    """One passkey less."""

    template_name = "dashboard/door/remove_passkey.html"
    success_url = reverse_lazy("mfa_index")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Tell which one, and why it may have to stay."""
        told: dict[str, Any] = super().get_context_data(**kwargs)
        return {**told, "why_not": self._why_not(), "page": Page(title="Remove a passkey", place="you")}

    def form_valid(self, form: Any) -> HttpResponse:
        """Remove it, and write that down."""
        why_not, passkey = self._why_not(), self.object.wrap().name
        if why_not:
            messages.error(self.request, why_not)
            return redirect("mfa_index")
        response: HttpResponse = super().form_valid(form)
        _note(self.request, "remove_second_factor", before={"second_factor": "webauthn", "name": passkey})
        messages.success(self.request, f"The passkey {passkey} is removed. It opens nothing any more.")
        return response

    def _why_not(self) -> str:
        adapter = SecondFactorAdapter()
        is_kept = not adapter.can_delete_authenticator(self.object)
        return str(adapter.error_messages["cannot_delete_authenticator"]) if is_kept else ""


class RecoveryCodes(ViewRecoveryCodesView):  # type: ignore[misc]  # ships no types
    """The codes for the day when the second factor is lost."""

    template_name = "dashboard/door/recovery_codes.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Name the page."""
        return {**super().get_context_data(**kwargs), "page": Page(title="Recovery codes", place="you")}


class NewRecoveryCodes(GenerateRecoveryCodesView):  # type: ignore[misc]  # ships no types
    """Other recovery codes instead of those that there are."""

    template_name = "dashboard/door/new_recovery_codes.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Name the page."""
        return {**super().get_context_data(**kwargs), "page": Page(title="New recovery codes", place="you")}

    def form_valid(self, form: Any) -> HttpResponse:
        """Make them, and write that down."""
        response: HttpResponse = super().form_valid(form)
        _note(self.request, "make_recovery_codes")
        return response


@open_to(ANYBODY)
@door
@require_POST
def sign_in_again(request: HttpRequest) -> HttpResponse:
    """Give up a sign-in that waits for its second factor."""
    clear_login(request)
    return redirect("account_login")


@open_to(SIGNED_IN)
@door
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect("account_login")


def _note(request: HttpRequest, verb: str, *, before: object = None, after: object = None) -> None:
    note(verb, request.user.get_username(), themself(request), before=before, after=after)
