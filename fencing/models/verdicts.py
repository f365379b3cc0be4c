"""What reviewers said about divergences: whoever changes their mind writes another row, and the newest counts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F

from fencing.models import fields, triggers
from fencing.models.runs import Run
from fencing.models.steps import Step


class Verdict(models.Model):
    """A person's word about which path was right on a step that diverged. It decides nothing; it teaches."""

    class Choice(models.TextChoices):
        """Who was right."""

        PRODUCTION_RIGHT = "production_right", "production was right"
        REPLICA_RIGHT = "replica_right", "the replica was right"
        BOTH_WRONG = "both_wrong", "both were wrong"
        SAME_MEANING = "same_meaning", "both mean the same"

    id = fields.key()
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    step = models.ForeignKey(Step, on_delete=models.PROTECT, db_index=False, related_name="verdicts")
    verdict = models.CharField(max_length=20, choices=Choice)
    note = models.TextField(default="")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    given_at = fields.recorded_at()

    class Meta:
        indexes = [models.Index(F("step"), F("given_at").desc(), F("id").desc(), name="verdict_of_step")]
        triggers = triggers.append_only()
