"""What tests of pages do with people: sign them in as they would, give them second factors, confirm for them."""

from __future__ import annotations

import time
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.contrib.auth.models import User
from django.test import Client

from dashboard.confirming import note_confirmation

PASSWORD = "correct horse battery"


def confirm(client: Client, *, by_second_factor: bool = False) -> None:
    """Let the signed-in person of a test client have confirmed this moment."""
    session = client.session
    person = User.objects.get(pk=session["_auth_user_id"])
    note_confirmation(session, person, by_second_factor=by_second_factor)
    session.save()


def give_authenticator(person: User) -> str:
    """Give a person an authenticator that shows codes, and recovery codes; give its secret."""
    secret: str = generate_totp_secret()
    TOTP.activate(person, secret)
    RecoveryCodes.activate(person)
    return secret


def code_of(secret: str, *, ahead: int = 0) -> str:
    """Give the code that an authenticator shows now, or some periods later."""
    code: str = format_hotp_value(hotp_value(secret, int(time.time()) // 30 + ahead))
    return code


def recovery_codes_of(person: User) -> list[str]:
    """Give the recovery codes that a person has left."""
    row = Authenticator.objects.get(user=person, type=Authenticator.Type.RECOVERY_CODES)
    codes: list[str] = row.wrap().get_unused_codes()
    return codes


def knock(client: Client, name: str = "lena", password: str = PASSWORD, **more: Any) -> Any:
    """Send a name and password to the door."""
    return client.post("/sign-in", {"login": name, "password": password, **more})
