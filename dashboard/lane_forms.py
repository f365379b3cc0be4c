"""What a reviewer fills in about a lane: what is asked of it, and why.

What is right and wrong about thresholds is said once, by the form that reads the API's bodies; here its words are
brought to the fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from django import forms

from dashboard.grant_forms import MAX_REASON, line, whole
from fencing.api.forms import Form as Body
from fencing.protocol.errors import Refusal
from fencing.services.requests import SetThresholds

BODY: Final = Body(SetThresholds)
# Neither a sign for thousands nor a comma: what could be read in two ways is no number here.
DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class ThresholdsForm(forms.Form):
    """What is asked of a lane (A5). A field that is left empty asks nothing."""

    min_published = line("Published grades, at least", inputmode="numeric")
    min_mean = line("Mean score, at least", inputmode="decimal")
    max_reject_ratio = line(
        "Rejected of all fragments, at most", help_text="From 0 to 1: 0.02 is two of a hundred.", inputmode="decimal"
    )
    max_unacknowledged = line("Rejects that nobody acknowledged, at most", inputmode="numeric")
    reason = forms.CharField(
        label="Reason",
        max_length=MAX_REASON,
        widget=forms.Textarea(attrs={"rows": 2, "autocapitalize": "sentences"}),
        help_text="In your own words; it stands beside the thresholds and in the audit.",
        error_messages={"required": "Say why, in your own words."},
    )

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, initial: MutableMapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id="thresholds-%s")

    def clean(self) -> dict[str, Any]:
        """Read it as the API reads a body; what is wrong stands beside its field."""
        cleaned = dict(super().clean() or {})
        read = None if self.errors else BODY.read(_body_of(cleaned))
        if isinstance(read, Refusal):
            member = (read.pointer or "").rpartition("/")[2]
            self.add_error(member if member in self.fields else None, read.detail)
        self.request = read if isinstance(read, SetThresholds) else None
        return cleaned


def _body_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    readers = {
        "min_published": whole,
        "min_mean": _decimal,
        "max_reject_ratio": _decimal,
        "max_unacknowledged": whole,
    }
    read = {name: reader(typed.get(name)) for name, reader in readers.items()}
    thresholds = {name: value for name, value in read.items() if value is not None}
    return {"thresholds": thresholds, "reason": typed.get("reason", "")}


def _decimal(text: object) -> float | str | None:
    """Read a number with a decimal point; text that is none comes back as it is."""
    told = str(text or "").strip()
    return float(told) if DECIMAL.fullmatch(told) else (told or None)
