"""Ledgers of tools that were uploaded or fetched, and how far their matching has come (L8)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers


class Ledger(models.Model):
    """One reading of a tool's own ledger: a file that a person uploaded, or what the tool lists.

    Where it is declared complete for a span of time, effects of that span that it does not show are missing. Its rows
    are `ObservedEffect`; the numbers here tell what each row came to, in the order in which they were read.
    """

    class Source(models.TextChoices):
        """How it comes here."""

        UPLOAD = "upload"
        PULL = "pull"

    class State(models.TextChoices):
        """How far it is."""

        WAITING = "waiting"
        MATCHING = "matching"
        DONE = "done"
        FAILED = "failed"

    id = fields.key()
    tool = fields.identifier()
    source = models.CharField(max_length=6, choices=Source)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    # The file as the person named it, and where it lies until it is read; the cursor of what is fetched.
    file_name = models.TextField(default="")
    place = models.TextField(default="")
    cursor = models.TextField(default="")
    size = models.BigIntegerField(default=0)
    complete_from = models.DateTimeField(null=True)
    complete_until = models.DateTimeField(null=True)
    rows = models.BigIntegerField(default=0)
    matched = models.BigIntegerField(default=0)
    undone = models.BigIntegerField(default=0)
    escapes = models.BigIntegerField(default=0)
    doubled = models.BigIntegerField(default=0)
    known = models.BigIntegerField(default=0)
    refused = models.BigIntegerField(default=0)
    wanted = models.BigIntegerField(default=0)
    missing = models.BigIntegerField(default=0)
    # Why it failed, or the first row that was refused, in words.
    says = models.TextField(default="")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    asked_at = fields.recorded_at()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(complete_from__isnull=True, complete_until__isnull=True)
                | Q(complete_from__isnull=False, complete_until__gt=F("complete_from")),
                name="ledger_complete_for_a_span",
            ),
        ]
        indexes = [
            models.Index(F("asked_at").desc(), F("id").desc(), name="ledger_newest"),
            models.Index(fields=["asked_at"], condition=Q(state__in=["waiting", "matching"]), name="ledger_to_match"),
        ]
        triggers = [
            *triggers.kept(
                "state", "place", "cursor", "rows", "matched", "undone", "escapes", "doubled", "known", "refused",
                "wanted", "missing", "says", "finished_at",
            ),
            triggers.Unchanged(
                name="ledger_finished_once",
                fields=["state", "rows", "matched", "escapes", "doubled", "missing"],
                sentence="I6, what was found in a ledger stays",
                where="OLD.finished_at IS NOT NULL",
            ),
        ]  # fmt: skip
