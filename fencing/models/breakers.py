"""What is known of push tools while they are called: circuit breakers and rates. Working state, not history."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from fencing.models import fields, triggers


class Breaker(models.Model):
    """One push tool's circuit breaker, and how many calls its rate still allows.

    What opened and closed it stands in the audit.
    """

    class State(models.TextChoices):
        """Whether the tool is called."""

        CLOSED = "closed"
        OPEN = "open"
        PROBING = "probing"

    id = fields.key()
    tool = fields.identifier(unique=True)
    state = models.CharField(max_length=7, choices=State, default=State.CLOSED)
    faults = models.IntegerField(default=0)
    until = models.DateTimeField(null=True)
    # The last fault, in words of our own.
    says = models.TextField(default="")
    tokens = models.FloatField(default=0)
    tokens_at = models.DateTimeField(null=True)
    changed_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["closed", "open", "probing"]), name="breaker_state_known"),
        ]
        triggers = triggers.kept("state", "faults", "until", "says", "tokens", "tokens_at", "changed_at")
