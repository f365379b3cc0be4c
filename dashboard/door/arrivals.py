"""What is noted when somebody arrives: a sign-in in the audit, a confirmation and a beginning in the session."""

from __future__ import annotations

from typing import Any, Final

from allauth.account.authentication import get_authentication_records
from allauth.account.signals import authentication_step_completed, user_logged_in
from django.contrib import messages
from django.contrib.auth import signals
from django.contrib.auth.models import User
from django.http import HttpRequest

from dashboard.access import groups_of, themself
from dashboard.confirming import note_confirmation
from dashboard.door import sessions
from dashboard.second_factors import has_second_factor
from fencing.protocol.groups import ACTING
from fencing.services.people import note

PASSWORD: Final = "password"  # noqa: S105 - the name of a way in
SECOND_FACTOR: Final = "mfa"
RECOVERY: Final = "recovery_codes"
ASKED_FOR_SECOND: Final = (
    "Your password alone opens the door for you. Please add a second factor: it is done under You."
)


def connect() -> None:
    """Listen to django-allauth; done once, when the apps are ready."""
    authentication_step_completed.connect(_note_step, dispatch_uid="dashboard.door.step")
    user_logged_in.connect(_note_arrival, dispatch_uid="dashboard.door.arrival")
    signals.user_logged_in.connect(_begin, dispatch_uid="dashboard.door.session")


def _note_step(request: HttpRequest, user: User, method: str, **told: Any) -> None:
    """Take a password or a second factor as a confirmation. A provider's word is none: it may have asked nobody."""
    if method in (PASSWORD, SECOND_FACTOR):
        note_confirmation(request.session, user, by_second_factor=method == SECOND_FACTOR)
    if told.get("type") == RECOVERY:
        note("use_recovery_code", user.get_username(), themself(request, user))


def _begin(request: HttpRequest, user: User, **_: Any) -> None:
    sessions.begin(request, user)


def _note_arrival(request: HttpRequest, user: User, **_: Any) -> None:
    sessions.sweep_sessions()
    ways = [each.get("type") or each["method"] for each in get_authentication_records(request, user)]
    note("sign_in", user.get_username(), themself(request, user), after={"by": ways})
    if groups_of(user) & ACTING and not has_second_factor(user):
        messages.warning(request, ASKED_FOR_SECOND)
