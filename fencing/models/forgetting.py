"""What was forgotten out of cold storage (U5): the reference stays, so that a page tells forgotten from lost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import models

from fencing.models import fields, triggers


class Forgotten(models.Model):
    """One text that is gone on purpose: its reference (its digest), and when. The act stands in the audit."""

    ref = models.CharField(max_length=200, primary_key=True)
    forgotten_at = fields.recorded_at()

    class Meta:
        triggers = triggers.append_only()


def forgotten_refs(refs: Iterable[str]) -> dict[str, datetime]:
    """Tell which of some references were forgotten, and when."""
    return dict(Forgotten.objects.filter(ref__in=set(refs)).values_list("ref", "forgotten_at"))
