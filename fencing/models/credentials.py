"""Credentials of machines and people's keys (H1), and the public halves of the signing keys (K2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, Value

from fencing.models import fields, triggers

PERSONAL_LIFE = timedelta(hours=12, minutes=1)


class Credential(models.Model):
    """A bearer key: shown once, stored as the SHA-256 of its 256 random bits.

    Its role and what it is bound to are the authority of who shows it (N8).
    """

    class Role(models.TextChoices):
        """What the key may do (H1)."""

        PLANNER = "planner"
        PATH = "path"
        GATEWAY = "gateway"
        SCORER = "scorer"
        PUBLISHER = "publisher"
        GATE = "gate"
        AUDITOR = "auditor"
        ONCALL = "oncall"
        REVIEWER = "reviewer"

    id = fields.key()
    name = fields.identifier(unique=True)
    role = models.CharField(max_length=9, choices=Role)
    key_hash = models.BinaryField(max_length=32, unique=True)
    hint = models.CharField(max_length=12)
    path = fields.identifier(null=True)
    # Planner keys of one group share their runs (H1); a key alone is a group of its own.
    group = fields.identifier()
    tools = ArrayField(fields.identifier(), null=True)
    lanes = ArrayField(fields.identifier(), null=True)
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="credentials"
    )
    # A rotated key is another row, with the same bindings: the old one ends by its own clock, wherever a key is judged.
    rotated_from: models.OneToOneField[Any, Any] = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, related_name="rotated_to"
    )
    rate_per_s = models.IntegerField(default=2000)
    created_at = fields.recorded_at()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(role="path", path__isnull=False) | (~Q(role="path") & Q(path__isnull=True)),
                name="credential_path_bound",
            ),
            models.CheckConstraint(
                condition=Q(role__in=["oncall", "reviewer"], person__isnull=False)
                | ~Q(role__in=["oncall", "reviewer"]),
                name="credential_person_bound",
            ),
            # H1: a person's key lives twelve hours at most. A minute is room for the two readings of the clock.
            models.CheckConstraint(
                condition=Q(
                    role__in=["oncall", "reviewer"],
                    expires_at__isnull=False,
                    expires_at__lte=F("created_at") + Value(PERSONAL_LIFE),
                )
                | ~Q(role__in=["oncall", "reviewer"]),
                name="credential_person_life",
            ),
        ]
        triggers = [
            # Who a key speaks for is its authority, and never changes (N8): another authority is another key, and so is
            # another secret.
            *triggers.kept(
                "group",
                "tools",
                "lanes",
                "rate_per_s",
                "expires_at",
                "revoked_at",
                "last_used_at",
            ),
            triggers.WrittenOnce("revoked_at"),
        ]


class SigningKey(models.Model):
    """The public half of an Ed25519 key. Keys rotate; old ones stay, so that old tokens can still be checked."""

    kid = models.CharField(max_length=64, primary_key=True)
    use = models.CharField(max_length=6, choices=[("commit", "commit"), ("permit", "permit"), ("seal", "seal")])
    public = models.JSONField()
    created_at = fields.recorded_at()
    retired_at = models.DateTimeField(null=True)

    class Meta:
        triggers = [*triggers.kept("retired_at"), triggers.WrittenOnce("retired_at")]
