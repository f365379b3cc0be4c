"""What a person fills in about effects, incidents and ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms

from fencing.gateway.ledger_intake import Span

MAX_TEXT: Final = 4000
Typed = Mapping[str, Any] | None


def _prose(label: str, help_text: str, *, required: str, rows: int = 3) -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": rows, "autocapitalize": "sentences"}),
        help_text=help_text,
        error_messages={"required": required},
    )


class EvidenceForm(forms.Form):
    """What a person saw that settles a doubt."""

    evidence = _prose(
        "Evidence",
        "Where you looked and what stood there: an entry's number, a statement, a name.",
        required="Say what you saw, and where: without it nobody can check this tomorrow.",
    )

    def __init__(self, data: Typed = None, *, act: str) -> None:
        super().__init__(data, label_suffix="", auto_id=f"{act}-%s")


class AdoptForm(forms.Form):
    """Which escape is the effect that was wanted, and why."""

    incident = forms.ChoiceField(label="Ledger row")
    reason = _prose("Reason", "Why these two are the same effect.", required="Say why: it stands in the audit.")

    def __init__(self, escapes: list[tuple[str, str]], data: Typed = None) -> None:
        super().__init__(data, label_suffix="", auto_id="adopt-%s")
        field = self.fields["incident"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - it is declared above
        field.choices = escapes


class NoteForm(forms.Form):
    """The note of an incident."""

    note = _prose("Note", "What is known, for whoever looks next.", required="Write something, or leave it.")

    def __init__(self, data: Typed = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id="note-%s")


class ResolveForm(forms.Form):
    """Why an incident is over."""

    reason = _prose("Reason", "What was found and done.", required="Say why it is over: the reason stays.")

    def __init__(self, data: Typed = None) -> None:
        super().__init__(data, label_suffix="", auto_id="resolve-%s")


class SpanForm(forms.Form):
    """A tool, and the span of time for which its ledger is declared complete; or for none."""

    tool = forms.ChoiceField(label="Tool")
    complete_from = forms.DateTimeField(
        label="Complete from (UTC)", required=False, help_text="2026-11-01 00:00; empty: it shows only what it shows."
    )
    complete_until = forms.DateTimeField(
        label="Complete until (UTC)", required=False, help_text="What succeeded in this time and is absent is missing."
    )
    prefix_id = "ledger"

    def __init__(self, tools: list[str], data: Typed = None, files: Any = None) -> None:
        super().__init__(data, files, label_suffix="", auto_id=f"{self.prefix_id}-%s")
        field = self.fields["tool"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - it is declared above
        field.choices = [(name, name) for name in tools]
        self.order_fields(["tool", "file", "complete_from", "complete_until"])

    def clean(self) -> dict[str, Any]:
        """Both ends or neither, in their order."""
        cleaned = dict(super().clean() or {})
        start, end = cleaned.get("complete_from"), cleaned.get("complete_until")
        if (start is None) != (end is None):
            self.add_error("complete_until", "Name both ends of the time, or neither.")
        elif start is not None and end is not None and start >= end:
            self.add_error("complete_until", "The end comes after the beginning.")
        return cleaned

    @property
    def span(self) -> Span | None:
        """The span of time, None where none is declared."""
        start, end = self.cleaned_data.get("complete_from"), self.cleaned_data.get("complete_until")
        return None if start is None or end is None else Span(start=start, end=end)


class UploadForm(SpanForm):
    """A file with a tool's ledger."""

    prefix_id = "upload"
    file = forms.FileField(
        label="File",
        help_text="CSV with a header, a JSON array, or NDJSON; members as of POST /gateway/effects.",
        error_messages={"required": "Choose a file."},
    )


class PullForm(SpanForm):
    """A push tool whose list is fetched."""

    prefix_id = "pull"
