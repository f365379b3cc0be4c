"""What a person fills in about where and when they are told."""

from __future__ import annotations

from datetime import time
from typing import Final
from zoneinfo import available_timezones

from django import forms

from dashboard.grant_forms import line
from dashboard.presenters.notices import kinds
from fencing.services.sending import MAX_ADDRESS

MAX_NAME: Final = 60
EXAMPLES: Final = (
    "As apprise writes it: mailtos://user:password@host, slack://…, mmosts://host/token, jsons://host/hook. Or where it"
    " stands: env:FENCE_NOTIFY_… or file:NAME. It is locked, and never shown again."
)


class TargetForm(forms.Form):
    """A new place where a person is told."""

    name = forms.CharField(label="Name", max_length=MAX_NAME, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    address = forms.CharField(
        label="Address",
        max_length=MAX_ADDRESS,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=EXAMPLES,
    )
    kinds = forms.MultipleChoiceField(
        label="Only these (none: everything that you are asked)",
        required=False,
        choices=kinds,
        widget=forms.CheckboxSelectMultiple,
    )


def clock(label: str) -> forms.TimeField:
    """Make a field of a time of day."""
    widget = forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    return forms.TimeField(label=label, required=False, widget=widget)


class QuietForm(forms.Form):
    """When a person is not to be woken for what is not urgent."""

    zone = line("Zone", help_text="Europe/Berlin, say.", list="zones")
    begin = forms.TimeField(
        label="From", required=False, widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    end = forms.TimeField(label="Until", required=False, widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"))

    def times(self) -> tuple[time | None, time | None]:
        """Read the hours."""
        return self.cleaned_data["begin"], self.cleaned_data["end"]


def zones() -> list[str]:
    """The zones that can be chosen."""
    return sorted(name for name in available_timezones() if "/" in name or name == "UTC")
