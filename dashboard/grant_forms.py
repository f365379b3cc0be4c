"""What a person fills in about grants and freezes.

What is right and wrong about it is said once, by the form that reads the API's bodies and by the services; here its
words are brought to the fields.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

from django import forms

from fencing.api.forms import Form as Body
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.grants import REASON_LENGTH
from fencing.queries.preview import Wanted
from fencing.services.requests import IssueGrant

MAX_REASON: Final = 4000
MAX_NAME: Final = 200
MINUTE_S: Final = 60
MAX_DIGITS: Final = 15
TAIL: Final = 4
# Without the letters and digits that are read one for the other.
ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"
BODY: Final = Body(IssueGrant)
# Members of the body whose field has another name.
FIELDS: Final = MappingProxyType({"ttl_s": "minutes"})
Typed = Mapping[str, Any] | None
Given = MutableMapping[str, Any] | None
SCOPE: Final = ("run", "step", "tool", "epoch", "path", "digest", "max_uses", "minutes")


def line(label: str, *, help_text: str = "", **attrs: str) -> forms.CharField:
    """Make a field of one line that a machine's word stands in: no capitals, no correction, no surprises."""
    widget = forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false", **attrs})
    return forms.CharField(label=label, required=False, max_length=MAX_NAME, widget=widget, help_text=help_text)


def reason_field(help_text: str, *, rows: int = 3, label: str = "Reason") -> forms.CharField:
    """Make the one field that is always asked for. How long it must be is the rule's to say (G1), not the form's."""
    return forms.CharField(
        label=label,
        max_length=MAX_REASON,
        widget=forms.Textarea(attrs={"rows": rows, "autocapitalize": "sentences"}),
        help_text=help_text,
        error_messages={"required": f"Say why in your own words, with {REASON_LENGTH} visible characters or more."},
    )


class GrantForm(forms.Form):
    """A grant to be issued. `name` is made when the form is shown, so that a second click finds what the first made."""

    reason = reason_field("Why production has to act alone now; the reviewer reads it tomorrow.")
    run = line("Run")
    step = line("Step", help_text="Empty: every step of the run that asks for the tool.")
    tool = line("Tool", help_text="Empty: whatever the step asks for.", list="tools")
    epoch = line("Epoch", help_text="Empty: the one that is open now.", inputmode="numeric")
    max_uses = line("How often", inputmode="numeric")
    minutes = line("For how many minutes", inputmode="decimal")
    path = line("The path that may act alone", help_text="production, unless only the replica can answer.")
    digest = line("The only digest that it may commit", help_text="A witness needs it; production may have it.")
    name = line("Name of the grant", help_text="Sent twice by this name, it is issued once.")
    shown_epoch = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Typed = None, *, initial: Given = None, is_filled: bool = False) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id="grant-%s")
        # Nobody looks for the field that is still empty, or wrong.
        wrong = next(iter(self.errors), "") if self.is_bound else ""
        focused = wrong if wrong in self.fields else "reason" if is_filled or self.is_bound else "run"
        self.fields[focused].widget.attrs["autofocus"] = True

    @property
    def has_wrong_scope(self) -> bool:
        """Tell whether a field of the scope has to be seen."""
        return any(name in self.errors for name in SCOPE)

    def clean(self) -> dict[str, Any]:
        """Read it as the API reads a body; what is wrong stands beside its field."""
        cleaned = dict(super().clean() or {})
        read = None if self.errors else BODY.read(body_of(cleaned))
        if isinstance(read, Refusal):
            self.refuse(read)
        self.request = read
        return cleaned

    def refuse(self, refusal: Refusal) -> None:
        """Put a refusal beside the field that it is about, above the form where it is about none."""
        member = (refusal.pointer or "").removeprefix("/")
        field = FIELDS.get(member, member)
        if refusal.code is Code.REASON_REQUIRED:
            field = "reason"
        self.add_error(field if field in self.fields else None, refusal.detail)


class ReasonForm(forms.Form):
    """The reason of an act."""

    reason = reason_field("In your own words; it stands in the trail.")

    def __init__(self, data: Typed = None, *, act: str, initial: Given = None) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id=f"{act}-%s")


class FreezeForm(forms.Form):
    """A freeze: of what, and why."""

    scope = forms.ChoiceField(label="What stands still")
    reason = reason_field("Short, in your own words; everybody reads it while the freeze stands.", rows=2)

    def __init__(self, choices: list[tuple[str, str]], data: Typed = None, *, initial: Given = None) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id="freeze-%s")
        field = self.fields["scope"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - it is declared above
        field.choices = choices
        if len(choices) == 1:
            field.widget = forms.HiddenInput()
            field.initial = choices[0][0]


class BatchForm(forms.Form):
    """What holds for every step of an outage's list."""

    reason = reason_field("Why these steps cannot wait; it stands on each grant.")
    minutes = line("For how many minutes", inputmode="decimal")
    batch = forms.CharField(max_length=MAX_NAME, widget=forms.HiddenInput)

    def __init__(self, data: Typed = None, *, initial: Given = None) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id="batch-%s")


def body_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Write what was typed as the API's body; what cannot be a number stays text, for the form to name it."""
    text = {name: str(typed.get(name) or "").strip() for name in ("run", "step", "tool", "path", "digest", "name")}
    epoch = typed.get("epoch") or typed.get("shown_epoch")
    numbers = {
        "epoch": whole(epoch),
        "max_uses": whole(typed.get("max_uses")),
        "ttl_s": seconds_of(typed.get("minutes")),
    }
    body = {**text, **numbers, "reason": str(typed.get("reason") or "").strip()}
    # What is missing is told as missing, and what has a default gets it.
    return {name: value for name, value in body.items() if value not in ("", None) or name == "reason"}


def wanted_of(typed: Mapping[str, Any]) -> Wanted:
    """Read what a form holds so far, for the preview: what is no number yet is as if it were not there."""
    body = body_of({name: str(typed.get(name) or "").replace("\x00", "")[:MAX_NAME] for name in SCOPE})
    numbers = {name: body[name] for name in ("epoch", "max_uses", "ttl_s") if isinstance(body.get(name), int)}
    words = {name: body[name] for name in ("step", "tool", "path", "digest") if name in body}
    return Wanted(run=body.get("run", ""), **words, **numbers)


def whole(text: object) -> int | str | None:
    """Read a whole number; text that is none comes back as it is."""
    told = str(text or "").strip()
    return int(told) if told.isascii() and told.isdecimal() and len(told) <= MAX_DIGITS else (told or None)


def seconds_of(minutes: object) -> int | str | None:
    """Read minutes, whole or with a decimal point, as seconds; text that is no number comes back as it is."""
    told = str(minutes or "").strip().replace(",", ".")
    if not told or len(told) > MAX_DIGITS:
        return told or None
    try:
        value = Decimal(told) * MINUTE_S
    except InvalidOperation:
        return told
    return int(value) if value.is_finite() else told


def minutes_of(ttl_s: int) -> str:
    """Write seconds as minutes."""
    return f"{Decimal(ttl_s) / MINUTE_S:.2f}".rstrip("0").rstrip(".") if ttl_s % MINUTE_S else str(ttl_s // MINUTE_S)


def fresh_name(word: str, now: datetime) -> str:
    """Make a name that a tired person can say on the phone: what, when, and four letters against chance."""
    start = "".join(each for each in word[:40] if each.isascii() and (each.isalnum() or each in "._-")).lstrip("._-")
    tail = "".join(secrets.choice(ALPHABET) for _ in range(TAIL))
    return f"{start or 'grant'}-{now.astimezone(UTC):%H%M}-{tail}"
