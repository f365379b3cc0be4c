"""The forms of the door. Each that takes a secret counts its guesses (`dashboard.door.guessing`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allauth.account.forms import LoginForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.models import User
from django.http import HttpRequest

from dashboard.door.guessing import forget, guess
from fencing.protocol.usernames import plain

# What authenticators show and recovery codes are made of; blanks between are people's.
CODE: Final = {"autocomplete": "one-time-code", "inputmode": "numeric", "autocapitalize": "none", "spellcheck": "false"}
NO_PASSKEY: Final = "The browser sent no passkey that could be read."
WRONG_PASSWORD: Final = "That is not your password."  # noqa: S105 - a sentence


class SignInForm(LoginForm):  # type: ignore[misc]  # ships no types
    """Name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name, password = self.fields["login"], self.fields["password"]
        name.label, password.label = "Name", "Password"
        name.widget.attrs = {"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}
        password.widget.attrs = {"autocomplete": "current-password"}
        password.help_text = ""

    def clean_login(self) -> str:
        """Read the name as it was meant: capitals and look-alike forms of letters do not make another."""
        return plain(self.cleaned_data["login"])


class _CodeField:
    """The field of a code, for forms that check one as a guess at a person's secrets."""

    fields: dict[str, forms.Field]
    user: User

    def prepare(self, label: str, help_text: str) -> None:
        code = self.fields["code"]
        code.label, code.help_text = label, help_text
        code.widget.attrs = dict(CODE)

    def checked(self, check: Callable[[], str]) -> str:
        wrong: list[forms.ValidationError] = []

        def once() -> str | None:
            try:
                return check()
            except forms.ValidationError as error:
                wrong.append(error)
                return None

        code = guess(context.request, self.user.get_username(), once)
        if code is None:
            raise wrong[0]
        return code


class CodeForm(_CodeField, AuthenticateForm):  # type: ignore[misc]  # ships no types
    """The second factor at sign-in: a code of the authenticator, or a recovery code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.prepare("Code", "Six digits from your authenticator, or one of your recovery codes.")

    def clean_code(self) -> str:
        """Check the code, as one guess."""
        return self.checked(super().clean_code)


class ConfirmCodeForm(_CodeField, ReauthenticateForm):  # type: ignore[misc]  # ships no types
    """The second factor, asked for once more."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.prepare("Code", "Six digits from your authenticator, or one of your recovery codes.")

    def clean_code(self) -> str:
        """Check the code, as one guess."""
        code = self.checked(super().clean_code)
        forget(context.request, self.user.get_username())
        return code


class ActivateCodeForm(_CodeField, ActivateTOTPForm):  # type: ignore[misc]  # ships no types
    """The first code of a new authenticator: it shows that the secret arrived there. The page shows it: no guess."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.prepare("Code", "The six digits that it shows now.")


class _Passkey:
    """What a browser says of a passkey: anything at all, until it is checked."""

    def read(self, check: Callable[[], Any]) -> Any:
        try:
            return check()
        # The library reads a credential member by member, and fails in as many ways as there are members.
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise forms.ValidationError(NO_PASSKEY) from error


class PasskeySignInForm(_Passkey, LoginWebAuthnForm):  # type: ignore[misc]  # ships no types
    """A passkey alone."""

    def clean_credential(self) -> Authenticator:
        """Check it."""
        return self.read(super().clean_credential)


class PasskeyForm(_Passkey, AuthenticateWebAuthnForm):  # type: ignore[misc]  # ships no types
    """A passkey beside the password."""

    def clean_credential(self) -> Authenticator:
        """Check it."""
        return self.read(super().clean_credential)


class ConfirmPasskeyForm(_Passkey, ReauthenticateWebAuthnForm):  # type: ignore[misc]  # ships no types
    """A passkey, asked for once more."""

    def clean_credential(self) -> Authenticator:
        """Check it."""
        return self.read(super().clean_credential)


class AddPasskeyForm(_Passkey, AddWebAuthnForm):  # type: ignore[misc]  # ships no types
    """A new passkey."""

    def clean(self) -> dict[str, Any]:
        """Check that it was made for us, now, and as it was asked for."""
        cleaned: dict[str, Any] = self.read(super().clean)
        return cleaned


class ConfirmPasswordForm(forms.Form):
    """The person's own password once more."""

    password = forms.CharField(
        label="Password", strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )

    def __init__(self, request: HttpRequest, person: User, data: Any = None) -> None:
        super().__init__(data)
        self._request, self.person = request, person

    def clean_password(self) -> str:
        """Check the password, as one guess."""
        password: str = self.cleaned_data["password"]
        check_password(self._request, self.person, password)
        return password


class NewPasswordForm(forms.Form):
    """A password that is new, twice. `password_validation` says what it lacks."""

    new_password = forms.CharField(
        label="New password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Twelve characters or more: a sentence is good.",
    )
    again = forms.CharField(
        label="New password again", strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def __init__(self, request: HttpRequest, person: User, data: Any = None) -> None:
        super().__init__(data)
        self._request, self.person = request, person

    def clean_new_password(self) -> str:
        """Refuse one that is too short, common, or like the name."""
        password: str = self.cleaned_data["new_password"]
        password_validation.validate_password(password, self.person)
        return password

    def clean(self) -> dict[str, Any] | None:
        """Refuse two that differ."""
        cleaned = super().clean()
        told = self.cleaned_data
        if "new_password" in told and "again" in told and told["new_password"] != told["again"]:
            self.add_error("again", "The two are not the same.")
        return cleaned


class ChangePasswordForm(NewPasswordForm):
    """The password that a person has, and the one that they want."""

    password = forms.CharField(
        label="Password now", strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )
    field_order = ("password", "new_password", "again")

    def clean_password(self) -> str:
        """Check the password, as one guess."""
        password: str = self.cleaned_data["password"]
        check_password(self._request, self.person, password)
        return password


def check_password(request: HttpRequest, person: User, password: str) -> None:
    """Check a person's own password, as one guess.

    Raises:
        forms.ValidationError: it is not theirs.
        LockedOut: there were too many guesses.
    """
    name = person.get_username()
    if guess(request, name, lambda: person if person.check_password(password) else None) is None:
        raise forms.ValidationError(WRONG_PASSWORD)
    forget(request, name)
