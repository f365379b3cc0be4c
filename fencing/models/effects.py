"""Effects as the tools' own ledgers tell them (L8): rows that are added, and what a person made of an escape."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from fencing.models import counts, fields, triggers
from fencing.models.deliveries import Delivery
from fencing.models.intents import Intent
from fencing.models.runs import Run

# I2, I3: what an effect is said to belong to was delivered, and only an intent of its tool can adopt it.
EFFECT_GUARD = """
SELECT min(CASE
    WHEN (delivery.intent_id, delivery.run_id) IS DISTINCT FROM (effect.intent_id, effect.run_id)
        THEN 'effect_of_its_delivery: L8, run, intent and delivery are those of one delivery'
END) INTO wrong
FROM new_rows AS effect
LEFT JOIN LATERAL (SELECT intent_id, run_id FROM fencing_delivery WHERE id = effect.delivery_id LIMIT 1)
    AS delivery ON true
WHERE effect.intent_id IS NOT NULL;
"""


class ObservedEffect(models.Model):
    """One row of a tool's ledger, by the tool's own id of it, and what it was matched with when it came.

    `digest` is the payload's, null where the ledger tells neither action nor digest. An escape is open until a reviewer
    adopts it for an intent, lets it stand, or it was undone: while it is, the same action does not leave again.
    """

    class Match(models.TextChoices):
        """What the row was found to be."""

        INTENT = "intent"
        COMPENSATION = "compensation"
        ESCAPE = "escape"
        DOUBLED = "doubled"

    class Source(models.TextChoices):
        """How the row came here."""

        PUSH = "push"
        UPLOAD = "upload"
        PULL = "pull"
        RECORD = "record"

    id = fields.key()
    tool = fields.identifier()
    external_id = fields.identifier()
    digest = fields.digest(null=True)
    idempotency_key = models.CharField(max_length=255, null=True)
    occurred_at = models.DateTimeField(null=True)
    match = models.CharField(max_length=12, choices=Match)
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, null=True, db_index=False, related_name="effects"
    )
    intent: models.ForeignKey[Any, Any] = models.ForeignKey(
        Intent, on_delete=models.PROTECT, null=True, related_name="effects"
    )
    delivery: models.ForeignKey[Any, Any] = models.ForeignKey(
        Delivery, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    resources = ArrayField(models.TextField(), default=list)
    source = models.CharField(max_length=6, choices=Source)
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    observed_at = fields.recorded_at()
    is_open = models.BooleanField()
    adopted_by: models.OneToOneField[Any, Any] = models.OneToOneField(
        Intent, on_delete=models.PROTECT, null=True, related_name="adopted"
    )
    adopted_at = models.DateTimeField(null=True)
    adopter: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    adopt_reason = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tool", "external_id"], name="effect_once"),
            # L8: a second effect of one delivery key is doubled, whoever tells of both at once.
            models.UniqueConstraint(fields=["intent"], condition=Q(match="intent"), name="effect_of_an_intent_once"),
            models.CheckConstraint(
                condition=Q(match__in=["intent", "compensation", "escape", "doubled"]), name="effect_match_known"
            ),
            models.CheckConstraint(
                condition=Q(match="intent", intent__isnull=False, delivery__isnull=False, is_open=False)
                | Q(match="compensation", intent__isnull=True, is_open=False)
                | Q(match="escape", intent__isnull=True, delivery__isnull=True)
                | Q(match="doubled"),
                name="effect_matched_with_what_was_delivered",
            ),
            models.CheckConstraint(
                condition=Q(adopted_by__isnull=True, adopted_at__isnull=True, adopter__isnull=True)
                | Q(
                    match="escape",
                    is_open=False,
                    adopted_by__isnull=False,
                    adopted_at__isnull=False,
                    adopter__isnull=False,
                    adopt_reason__isnull=False,
                ),
                name="effect_adopted_by_a_person",
            ),
        ]
        indexes = [
            models.Index(F("observed_at").desc(), F("id").desc(), include=["tool", "match"], name="effect_newest"),
            # L8: what holds the same action back.
            models.Index(fields=["digest"], condition=Q(match="escape", is_open=True), name="effect_open_escape"),
            models.Index(fields=["idempotency_key"], condition=~Q(idempotency_key=None), name="effect_by_key"),
            GinIndex(fields=["resources"], name="effect_by_resource"),
        ]
        triggers = [
            *triggers.kept("is_open", "adopted_by", "adopted_at", "adopter", "adopt_reason"),
            triggers.WrittenOnce("adopted_by", "adopted_at", "adopter", "adopt_reason"),
            triggers.Unchanged(
                name="effect_closed_for_good",
                fields=["is_open"],
                sentence="L8, what a person made of an escape stays",
                where="NOT OLD.is_open",
            ),
            counts.EFFECTS,
            triggers.StatementGuard(name="effect_of_its_delivery", operation=pgtrigger.Insert, func=EFFECT_GUARD),
        ]
