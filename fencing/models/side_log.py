"""The side log: every input that was refused or ignored, and why (protocol, section 13), and plain tallies."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from fencing.models import counts, fields, triggers
from fencing.models.audit import TransactionId


def newest(name: str, *columns: str, condition: Q | None = None) -> models.Index:
    """Make the index of a list that is filtered by `columns` and paged by keyset, newest first."""
    named = [F(column) for column in columns]
    return models.Index(*named, F("recorded_at").desc(), F("id").desc(), name=name, condition=condition)


class SideLogRow(models.Model):
    """One input without effect. Its subject is text, not keys: what was refused may name what does not exist."""

    id = fields.key()
    kind = models.CharField(max_length=30)
    reason = models.CharField(max_length=40)
    run = models.TextField(null=True)
    step = models.TextField(null=True)
    epoch = models.BigIntegerField(null=True)
    path = models.TextField(null=True)
    attempt = models.TextField(null=True)
    seq = models.BigIntegerField(null=True)
    lane = models.TextField(null=True)
    tool = models.TextField(null=True)
    resources = ArrayField(models.TextField(), default=list)
    digest = fields.digest(null=True)
    detail = models.TextField(default="")
    body_sha256 = models.CharField(max_length=64, null=True)
    body_length = models.BigIntegerField(null=True)
    body_ref = models.CharField(max_length=200, null=True)
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    # Who acted in the browser, or through a key of their own. Found by an index alone, and never goes (PROTECT).
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    recorded_at = fields.recorded_at()
    # Moments are taken before the commit: a reader who pages by them has to know what was still open (design 10).
    transaction = models.BigIntegerField(db_default=TransactionId())

    class Meta:
        indexes = [
            newest("side_log_newest"),
            newest("side_log_of_run", "run"),
            newest("side_log_by_reason", "reason"),
            newest("side_log_of_tool", "tool", condition=Q(tool__isnull=False)),
            newest("side_log_of_key", "by", condition=Q(by__isnull=False)),
            newest("side_log_of_person", "person", condition=Q(person__isnull=False)),
            newest("side_log_of_attempt", "attempt", condition=Q(attempt__isnull=False)),
            # How many fragments a lane rejected is asked by its gate (A7).
            newest("side_log_of_lane", "lane", condition=Q(lane__isnull=False)),
            models.Index(fields=["transaction"], name="side_log_by_transaction"),
            GinIndex(fields=["resources"], name="side_log_by_resource"),
        ]
        triggers = [*triggers.append_only(), counts.SIDE_LOG]


class Acknowledgement(models.Model):
    """That a person has seen a row of the side log, with who and why: a row of its own (S1)."""

    id = fields.key()
    row = models.OneToOneField(SideLogRow, on_delete=models.PROTECT, related_name="acknowledgement")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    reason = models.TextField()
    acknowledged_at = fields.recorded_at()

    class Meta:
        triggers = [*triggers.append_only(), counts.ACKNOWLEDGED]


class Tally(models.Model):
    """A count of what leaves no row of its own: duplicates, repeated and exempt admissions, requests without a key.

    Spread over shards, so that concurrent transactions do not queue for one row.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=60)
    shard = models.SmallIntegerField()
    count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "shard"], name="tally_once")]
