"""Whether a person has a second factor, and where one is asked for. Recovery codes alone are none."""

from __future__ import annotations

from typing import Final

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from fencing.environment import Mode
from fencing.protocol.groups import ACTING, Group

USABLE: Final = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_second_factor(person: AbstractBaseUser | AnonymousUser) -> bool:
    """Tell whether a person has set up codes or a passkey."""
    return bool(Authenticator.objects.filter(user_id=person.pk, type__in=USABLE).exists())


def is_second_factor_needed(groups: frozenset[Group]) -> bool:
    """Tell whether people of these groups act only with a second factor: in production, those who act for the house."""
    return settings.FENCE_MODE is Mode.PRODUCTION and bool(groups & ACTING)


def is_last_second_factor(factor: Authenticator) -> bool:
    """Tell whether nothing would be left to sign in with beside the password."""
    others = Authenticator.objects.filter(user_id=factor.user_id, type__in=USABLE).exclude(pk=factor.pk)
    return factor.type in USABLE and not others.exists()
