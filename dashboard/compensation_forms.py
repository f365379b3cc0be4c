"""What a person fills in about compensations."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.grant_forms import line

MAX_WORDS = 4000


def words(label: str, help_text: str) -> forms.CharField:
    """Make a field of a person's own words."""
    return forms.CharField(
        label=label,
        max_length=MAX_WORDS,
        widget=forms.Textarea(attrs={"rows": 3, "autocapitalize": "sentences"}),
        help_text=help_text,
        error_messages={"required": "Say it in your own words."},
    )


class WordsForm(forms.Form):
    """A reason, or evidence: the words that stay with a decision."""

    reason = words("Reason", "")

    def __init__(self, *arguments: Any, act: str = "approve", **options: Any) -> None:
        super().__init__(*arguments, **{"auto_id": f"id_{act}_%s", **options})
        label, help_text = LABELS.get(act, LABELS["approve"])
        self.fields["reason"].label = label
        self.fields["reason"].help_text = help_text


class RecordForm(WordsForm):
    """What was done by hand."""

    external_id = line("The tool's own name of it", help_text="So that its ledger tells nothing new about it later.")


LABELS = {
    "approve": ("Reason", "Why it should be undone; it stays with the approval."),
    "waive": ("Reason", "Why the effect may stand; it stays with the decision."),
    "record": ("Evidence", "What was done by hand, and where that can be seen."),
    "happened": ("Evidence", "Where it can be seen that it was undone."),
    "not_happened": ("Evidence", "Where it can be seen that it was not undone."),
    "bulk": ("Reason", "One reason for all that are listed; it stays with each."),
}
