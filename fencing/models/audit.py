"""The audit, every transition and act, and the feed that planners follow. Both append-only (protocol 14, `/events`)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import F
from django.db.models.expressions import Func

from fencing.models import fields, triggers
from fencing.models.runs import Run
from fencing.models.steps import Step


class TransactionId(Func):
    """The writing transaction's number: lets a reader stop below the oldest one that is still open (design 10)."""

    template = "(pg_current_xact_id()::text::bigint)"
    output_field = models.BigIntegerField()


class AuditEvent(models.Model):
    """One transition or act, written in the transaction of what it tells (U1).

    Its subject is text: the row outlives what it tells of.
    """

    id = models.BigAutoField(primary_key=True)
    at = fields.recorded_at()
    actor = models.CharField(max_length=250)
    role = models.CharField(max_length=20)
    verb = models.CharField(max_length=40)
    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=450)
    run = models.TextField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(default="")
    source = models.CharField(max_length=64, default="")
    request = models.CharField(max_length=64, default="")

    class Meta:
        indexes = [
            models.Index(F("run"), F("id").desc(), name="audit_of_run"),
            models.Index(F("kind"), F("subject"), F("id").desc(), name="audit_of_subject"),
        ]
        triggers = triggers.append_only()


FEED_GUARD = """
SELECT min('feed_in_its_run: N2, the step lies in another run') INTO wrong
FROM new_rows AS line
LEFT JOIN LATERAL (SELECT run_id FROM fencing_step WHERE id = line.step_id LIMIT 1) AS step ON true
WHERE step.run_id IS DISTINCT FROM line.run_id;
"""


class FeedEvent(models.Model):
    """One line of `GET /events`: a step was decided, replayed, revoked or compensated."""

    class What(models.TextChoices):
        """What happened to the step."""

        DECIDED = "decided"
        REPLAYED = "replayed"
        REVOKED = "revoked"
        COMPENSATED = "compensated"

    id = models.BigAutoField(primary_key=True)
    at = fields.recorded_at()
    what = models.CharField(max_length=11, choices=What)
    # References without a constraint: `feed_in_its_run` looks them up, and what it finds never goes.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    step: models.ForeignKey[Any, Any] = models.ForeignKey(
        Step, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    owner_group = fields.identifier()
    # Numbers are handed out before commit: a reader takes only rows whose transaction is below the snapshot's xmin.
    transaction = models.BigIntegerField(db_default=TransactionId())

    class Meta:
        indexes = [models.Index(fields=["owner_group", "transaction", "id"], name="feed_of_group")]
        triggers = [
            *triggers.append_only(),
            triggers.StatementGuard(name="feed_in_its_run", operation=pgtrigger.Insert, func=FEED_GUARD),
        ]
