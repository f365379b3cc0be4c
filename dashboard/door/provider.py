"""Signing in with the OpenID provider that the operator named: authorization code with PKCE, state and nonce.

A provider opens the door for people who exist here and whose account there is linked; it makes nobody, and it is no
second factor. What it says is believed only as far as `dashboard.door.id_tokens` checks it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from allauth.account.internal.flows.login import record_authentication
from allauth.account.utils import perform_login
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.models import SocialAccount, SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from requests import RequestException

from dashboard.access import stranger
from dashboard.door.id_tokens import BadIdToken, read_id_token
from fencing.environment import Provider
from fencing.protocol.errors import Refusal
from fencing.protocol.usernames import plain
from fencing.services.people import link_account

WELL_KNOWN: Final = "/.well-known/openid-configuration"
LONGEST_UID: Final = 191


class ProviderDown(Exception):
    """The provider does not answer, or not as a provider does."""


class ProviderRefused(Exception):
    """The provider's answer is not good for this sign-in; the message is for the log and the person."""


class HouseProvider(OpenIDConnectProvider):  # type: ignore[misc]  # ships no types
    """The one provider, with a nonce that ties its answer to this browser."""

    def get_oauth2_adapter(self, request: HttpRequest) -> HouseAdapter:
        """Give what asks it."""
        return HouseAdapter(request)

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, data: Any = None, **kwargs: Any
    ) -> HttpResponseBase:
        """Send the browser there; the nonce is kept beside the state."""
        nonce = secrets.token_urlsafe(24)
        response: HttpResponseBase = super().redirect(
            request, process, next_url, data, auth_params={"nonce": nonce}, nonce=nonce, **kwargs
        )
        return response


class HouseAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # ships no types
    """What is asked of the provider, and where it sends people back to."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request, provider_id())

    @property
    def openid_config(self) -> Mapping[str, Any]:
        """Read what the provider says of itself, once for a request; it must be who it should be."""
        known: Mapping[str, Any] = super().openid_config
        if known.get("issuer") != configured().issuer:
            raise ProviderDown("it names itself otherwise")
        return known

    def get_provider(self) -> HouseProvider:
        """Give the one provider."""
        return HouseProvider(self.request, app=_app())

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        """Give the address that the provider sends people back to."""
        del app
        return request.build_absolute_uri(reverse("openid_connect_callback"))


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # ships no types
    """The provider of the environment alone: none of the database, and nobody signs up."""

    def list_apps(self, request: HttpRequest, provider: Any = None, client_id: Any = None) -> list[SocialApp]:
        """Give the one provider, where there is one."""
        del request, provider, client_id
        return [_app()] if settings.FENCE_PROVIDER else []

    def get_provider(self, request: HttpRequest, provider: Any, client_id: Any = None) -> HouseProvider:
        """Give the one provider."""
        del provider, client_id
        return HouseProvider(request, app=_app())

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Say no: people are made by administrators."""
        del request, sociallogin
        return False


def configured() -> Provider:
    """Give the provider of the environment.

    Raises:
        ProviderRefused: there is none.
    """
    if settings.FENCE_PROVIDER is None:
        raise ProviderRefused("no provider is set up")
    provider: Provider = settings.FENCE_PROVIDER
    return provider


def provider_id() -> str:
    """Name the provider in our tables: another issuer is another provider, whose numbers mean other people."""
    return f"oidc-{sha256(configured().issuer.encode()).hexdigest()[:16]}"


def way_there(request: HttpRequest, *, process: str, way: str, data: Mapping[str, Any] | None = None) -> str:
    """Begin a sign-in (`login`) or the linking of an account (`connect`); give the provider's address to go to.

    Raises:
        ProviderDown: it does not answer.
    """
    try:
        response = HouseAdapter(request).get_provider().redirect(request, process, way or None, data)
    except (RequestException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProviderDown(type(error).__name__) from error
    return str(response["Location"])


def come_back(request: HttpRequest) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Take the provider's answer: give what was begun, and the claims of who came.

    Raises:
        ProviderDown: it does not answer.
        ProviderRefused: nothing was begun in this browser, the person refused, or the answer is not good.
    """
    state = statekit.unstash_state(request, provider_id=provider_id(), state_id=request.GET.get("state", ""))
    if state is None:
        raise ProviderRefused("this sign-in was begun in another browser, or too long ago")
    if "code" not in request.GET:
        raise ProviderRefused(f"it says {request.GET.get('error', 'nothing')[:60]}")
    try:
        return state, _claims(request, state)
    except BadIdToken as error:
        raise ProviderRefused(f"its answer is not good for this sign-in: {error}") from error
    except OAuth2Error as error:
        raise ProviderRefused("it does not take back the code that it gave") from error
    except (RequestException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProviderDown(type(error).__name__) from error


def person_for(request: HttpRequest, claims: Mapping[str, Any]) -> User | None:
    """Find whom an account opens the door for; link it first where the operator trusts a claim to name the person."""
    account = SocialAccount.objects.filter(provider=provider_id(), uid=uid_of(claims)).select_related("user").first()
    if account is not None:
        person: User = account.user
        return person
    found = User.objects.filter(username=_claimed(claims), is_active=True).first() if _claimed(claims) else None
    if found is None or isinstance(
        link_account(found.get_username(), provider_id(), uid_of(claims), stranger(request)), Refusal
    ):
        return None
    return found


def let_in(request: HttpRequest, person: User, way: str | None) -> HttpResponseBase:
    """Go on with a sign-in: to the second factor where there is one, else inside."""
    record_authentication(request, person, "socialaccount", provider=provider_id())
    response: HttpResponseBase = perform_login(request, person, email_verification="none", redirect_url=way)
    return response


def uid_of(claims: Mapping[str, Any]) -> str:
    """Give the account's number at the provider, as it is stored."""
    sub = str(claims["sub"])
    return sub if len(sub) <= LONGEST_UID else f"sha256:{sha256(sub.encode()).hexdigest()}"


def _claims(request: HttpRequest, state: Mapping[str, Any]) -> Mapping[str, Any]:
    adapter, provider = HouseAdapter(request), configured()
    client = adapter.get_client(request, _app())
    told = client.get_access_token(request.GET["code"], pkce_code_verifier=state["pkce_code_verifier"])
    with ProviderAdapter(request).get_requests_session() as session:
        answer = session.get(adapter.openid_config["jwks_uri"])
        answer.raise_for_status()
        keys = answer.json()
    return read_id_token(
        told["id_token"], keys=keys, issuer=provider.issuer, client_id=provider.client_id, nonce=state["nonce"]
    )


def _claimed(claims: Mapping[str, Any]) -> str:
    claim = configured().username_claim
    if not claim or (claim == "email" and claims.get("email_verified") is not True):
        return ""
    value = claims.get(claim)
    return plain(value) if isinstance(value, str) else ""


def _app() -> SocialApp:
    provider = configured()
    return SocialApp(
        provider="openid_connect",
        provider_id=provider_id(),
        name=provider.name,
        client_id=provider.client_id,
        secret=provider.client_secret,
        settings={
            "server_url": provider.issuer.rstrip("/") + WELL_KNOWN,
            "oauth_pkce_enabled": True,
            "scope": ["openid", "profile"] + (["email"] if provider.username_claim == "email" else []),
        },
    )
