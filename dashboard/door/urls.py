"""Addresses of the door. Their names are those by which django-allauth finds its own way; none of its others exists."""

from django.urls import URLPattern, path

from dashboard.access import ANYBODY, SIGNED_IN, open_to
from dashboard.door import provider_views, views
from dashboard.door.views import View, at_most, door, in_one_transaction
from dashboard.views.you import you


def _arriving(view: View) -> View:
    return open_to(ANYBODY)(door(view))


def _own(view: View) -> View:
    return open_to(SIGNED_IN)(door(in_one_transaction(view)))


urlpatterns: list[URLPattern] = [
    path("sign-in", _arriving(views.SignIn.as_view()), name="account_login"),
    path("sign-in/code", _arriving(views.SecondFactor.as_view()), name="mfa_authenticate"),
    path("sign-in/passkey", _arriving(at_most("60/m/ip")(views.PasskeySignIn.as_view())), name="mfa_login_webauthn"),
    path("sign-in/again", views.sign_in_again, name="sign_in_again"),
    path("sign-in/provider", provider_views.start, name="openid_connect_login"),
    path("sign-in/provider/back", provider_views.back, name="openid_connect_callback"),
    path("sign-out", views.sign_out, name="account_logout"),
    path("you", you, name="mfa_index"),
    path("you/code/add", _own(views.AddCode.as_view()), name="mfa_activate_totp"),
    path("you/code/remove", _own(views.RemoveCode.as_view()), name="mfa_deactivate_totp"),
    path("you/passkeys/add", _own(views.AddPasskey.as_view()), name="mfa_add_webauthn"),
    path("you/passkeys/<int:pk>/rename", _own(views.RenamePasskey.as_view()), name="mfa_edit_webauthn"),
    path("you/passkeys/<int:pk>/remove", _own(views.RemovePasskey.as_view()), name="mfa_remove_webauthn"),
    path("you/recovery-codes", _own(views.RecoveryCodes.as_view()), name="mfa_view_recovery_codes"),
    path("you/recovery-codes/new", _own(views.NewRecoveryCodes.as_view()), name="mfa_generate_recovery_codes"),
    path("you/account/link", provider_views.link, name="link_account"),
    path("you/account/unlink", provider_views.unlink, name="unlink_account"),
]
