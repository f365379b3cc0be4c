"""The forms of people: what an administrator types about somebody."""

from __future__ import annotations

from typing import Any, Final

from django import forms

from fencing.protocol.groups import Group
from fencing.protocol.usernames import MAX_LENGTH

DOES: Final = {
    Group.VIEWER: "viewer: sees every page, changes nothing",
    Group.AUDITOR: "auditor: sees every page, and reads through the interface",
    Group.ONCALL: "on-call: issues, approves and revokes grants, freezes",
    Group.REVIEWER: "reviewer: replays, judges divergences, resolves doubts, undoes",
    Group.ADMINISTRATOR: "administrator: people, keys, tools",
}


class ReasonForm(forms.Form):
    """Why something is done to somebody's account."""

    reason = forms.CharField(
        label="Reason",
        max_length=4000,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="In your own words; it stands in the audit.",
        error_messages={"required": "Say why: the reason stands in the audit."},
    )


class GroupsForm(ReasonForm):
    """The groups that somebody is in."""

    groups = forms.MultipleChoiceField(
        label="Groups",
        required=False,
        choices=[(group.value, DOES[group]) for group in Group],
        widget=forms.CheckboxSelectMultiple,
    )
    field_order = ("groups", "reason")

    def wanted(self) -> frozenset[Group]:
        """Read what was ticked."""
        return frozenset(Group(name) for name in self.cleaned_data["groups"])


class PersonForm(forms.Form):
    """A new person."""

    name = forms.CharField(
        label="Name",
        max_length=MAX_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
        help_text="Small letters, digits and . _ @ - ; it stays for ever, and no other name may look like it.",
    )
    groups = forms.MultipleChoiceField(
        label="Groups",
        required=False,
        choices=[(group.value, DOES[group]) for group in Group],
        widget=forms.CheckboxSelectMultiple,
    )

    def wanted(self) -> frozenset[Group]:
        """Read what was ticked."""
        return frozenset(Group(name) for name in self.cleaned_data["groups"])


class AccountForm(forms.Form):
    """Somebody's number at the OpenID provider."""

    account = forms.CharField(
        label="Number of the account",
        max_length=191,
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
        help_text="The claim `sub`: the page that refuses them shows it.",
    )


def groups_in(text: Any) -> frozenset[Group]:
    """Read groups out of the hidden field that says what was seen."""
    known = {group.value: group for group in Group}
    return frozenset(known[name] for name in str(text).split(",") if name in known)
