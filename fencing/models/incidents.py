"""Incidents: what a person must look at (F8, L8)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers
from fencing.models.intents import Intent
from fencing.models.runs import Run
from fencing.models.steps import Step


class Incident(models.Model):
    """Something that should not have happened, open until a reviewer resolves it with a reason."""

    class Kind(models.TextChoices):
        """What happened."""

        LANDED_ESCAPE = "landed_escape"
        LATE_DIVERGENCE = "late_divergence"
        DOUBLED = "doubled"
        MISSING = "missing"
        OUTCOME_CONFLICT = "outcome_conflict"
        LANE_HALTED = "lane_halted"

    class State(models.TextChoices):
        """Whether it waits for a person."""

        OPEN = "open"
        RESOLVED = "resolved"

    id = fields.key()
    kind = models.CharField(max_length=20, choices=Kind)
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, null=True, related_name="incidents"
    )
    step: models.ForeignKey[Any, Any] = models.ForeignKey(
        Step, on_delete=models.PROTECT, null=True, related_name="incidents"
    )
    intent: models.ForeignKey[Any, Any] = models.ForeignKey(
        Intent, on_delete=models.PROTECT, null=True, related_name="incidents"
    )
    # The ledger row that it is about (L8).
    effect: models.ForeignKey[Any, Any] = models.ForeignKey(
        "fencing.ObservedEffect", on_delete=models.PROTECT, null=True, related_name="incidents"
    )
    lane = fields.identifier(null=True)
    note = models.TextField(default="")
    resources = ArrayField(models.TextField(), default=list)
    owner: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    opened_at = fields.recorded_at()
    resolved_at = models.DateTimeField(null=True)
    resolved_by: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    resolution = models.TextField(null=True)

    class Meta:
        constraints = [
            # One incident of a kind for a step's commit or an intent: a repeated divergent vote opens no second one.
            models.UniqueConstraint(
                fields=["kind", "step"], condition=Q(kind="late_divergence"), name="incident_late_divergence_once"
            ),
            # L8: an effect is missing once, however many complete ledgers lack it.
            models.UniqueConstraint(
                fields=["kind", "intent"], condition=Q(kind="missing"), name="incident_missing_once"
            ),
            models.CheckConstraint(
                condition=Q(state="open", resolved_at__isnull=True)
                | Q(state="resolved", resolved_at__isnull=False, resolution__isnull=False),
                name="incident_resolved_with_a_reason",
            ),
        ]
        indexes = [
            models.Index(F("opened_at").desc(), F("id").desc(), name="incident_newest"),
            models.Index(fields=["opened_at"], condition=Q(state="open"), name="incident_open"),
            GinIndex(fields=["resources"], name="incident_by_resource"),
        ]
        triggers = [
            *triggers.kept("state", "note", "resources", "owner", "resolved_at", "resolved_by", "resolution"),
            triggers.Unchanged(
                name="incident_resolved_once",
                fields=["state", "resolved_at", "resolved_by", "resolution"],
                sentence="I6, a resolved incident stays resolved, for the reason that was given",
                where="OLD.state = 'resolved'",
            ),
        ]
