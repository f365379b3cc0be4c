"""The registry of tools: every change is a new version, and a step keeps the one it was proposed under (T1)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q, TextField, Value
from django.db.models.functions import Concat

from fencing.models import fields, triggers
from fencing.models.sql.tool_guards import APPROVAL_GUARD, CLOSING_GUARD, VERSION_GUARD


def _digest_of_definition() -> Q:
    """What people approve, and steps keep, is named by digest alone, so the name has to be true (T1)."""
    octets = Func(F("definition"), function="sha256")
    written = Func(octets, Value("hex"), function="encode", output_field=TextField())
    return Q(digest=Concat(Value("sha256:"), written))


class ToolVersion(models.Model):
    """One version of a tool's definition.

    `id` is at the same time the version of the whole registry: versions are added under one advisory lock, so that
    "the tools as of registry version N" are, for each tool, its newest row with an id of at most N.
    The columns beside `definition` are those that triggers and jobs read. `weakens` tells in what it fences less than
    the version before it; in production such a version needs an approved `change` (a trigger asks for it).
    """

    id = models.BigAutoField(primary_key=True)
    tool = fields.identifier()
    version = models.IntegerField()
    definition = models.BinaryField()
    digest = fields.digest()
    is_read_only = models.BooleanField()
    is_idempotent = models.BooleanField()
    is_optimistic = models.BooleanField()
    mode = models.CharField(max_length=4)
    required_paths = ArrayField(fields.identifier())
    trusted_path = fields.identifier()
    grant_approvals = models.SmallIntegerField()
    max_grant_ttl_s = models.IntegerField()
    weakens = ArrayField(models.TextField(), default=list)
    change: models.OneToOneField[Any, Any] = models.OneToOneField(
        "fencing.ToolChange", on_delete=models.PROTECT, null=True, related_name="version"
    )
    # Null where the command line did it.
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    reason = models.TextField(default="")
    added_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tool", "version"], name="tool_version_once"),
            # "Every required path voted" must not be true of no vote at all (I1).
            models.CheckConstraint(condition=Q(required_paths__len__gte=1), name="tool_requires_a_path"),
            models.CheckConstraint(condition=_digest_of_definition(), name="tool_digest_is_its_own"),
        ]
        indexes = [
            # The tool as of a step's registry: its newest version up to that id.
            models.Index(F("tool"), F("id").desc(), name="tool_as_of"),
        ]
        triggers = [
            *triggers.append_only(),
            triggers.Guard(
                name="tool_version_admissible",
                operation=pgtrigger.Insert,
                declare=[("its_last", "record"), ("its_change", "record"), ("fresh", "json"), ("last", "json")],
                func=VERSION_GUARD,
            ),
        ]


class ToolChange(models.Model):
    """A change that weakens the fence, and waits for a second administrator (T1).

    `base` is the version that it was compared with: once another one is current, the change says something else than
    what people saw, and cannot become current any more. `proposer` is null where the command line asked, which names
    nobody; then two administrators approve. `lookback` are the figures of the last week as the proposer saw them.
    """

    class Ending(models.TextChoices):
        """How a change stopped waiting."""

        APPROVED = "approved"
        REFUSED = "refused"
        WITHDRAWN = "withdrawn"
        EXPIRED = "expired"

    id = fields.key()
    tool = fields.identifier()
    base = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, db_index=False, related_name="+")
    definition = models.BinaryField()
    digest = fields.digest()
    weakens = ArrayField(models.TextField())
    lookback = models.JSONField(null=True)
    approvals_needed = models.SmallIntegerField()
    proposer: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    reason = models.TextField()
    proposed_at = fields.recorded_at()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_as = models.CharField(max_length=9, choices=Ending, null=True)
    closed_by: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    close_reason = models.TextField(default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=_digest_of_definition(), name="tool_change_digest_is_its_own"),
            models.CheckConstraint(condition=Q(weakens__len__gte=1), name="tool_change_weakens"),
            # Who is not named cannot be told from the one who approves: then it takes two.
            models.CheckConstraint(
                condition=Q(approvals_needed__gte=2) | Q(approvals_needed=1, proposer__isnull=False),
                name="tool_change_needs_a_second",
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_as__isnull=True)
                | Q(closed_at__isnull=False, closed_as__isnull=False),
                name="tool_change_closed_as_something",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(closed_at__isnull=True), name="tool_change_open"),
            models.Index(F("tool"), F("proposed_at").desc(), name="tool_change_of_tool"),
        ]
        triggers = [
            *triggers.kept("closed_at", "closed_as", "closed_by", "close_reason"),
            triggers.WrittenOnce("closed_at", "closed_as", "closed_by"),
            triggers.Guard(
                name="tool_change_begins_open",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.closed_at IS NOT NULL"),
                func=triggers.refused("tool_change_begins_open", "T1, a change begins open"),
            ),
            triggers.Guard(
                name="tool_change_closes",
                operation=triggers.update_of("closed_as", "closed_by_id"),
                func=CLOSING_GUARD,
            ),
        ]


class ToolChangeApproval(models.Model):
    """The word of an administrator for a change of another's (T1). `digest` names the definition that was shown."""

    id = fields.key()
    change = models.ForeignKey(ToolChange, on_delete=models.PROTECT, db_index=False, related_name="approvals")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    digest = fields.digest()
    reason = models.TextField()
    approved_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["change", "person"], name="tool_change_approved_once_each")]
        triggers = [
            *triggers.append_only(),
            triggers.Guard(
                name="tool_change_approval",
                operation=pgtrigger.Insert,
                declare=[("its_change", "record")],
                func=APPROVAL_GUARD,
            ),
        ]
