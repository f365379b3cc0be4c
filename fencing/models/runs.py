"""Runs and the epochs that were opened in them (protocol, section 5)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers


class Run(models.Model):
    """One request of the outside world.

    `epoch` is where it started or the last restart, `counter` the highest number that was given (R1).
    """

    id = fields.key()
    name = fields.identifier(unique=True)
    epoch = models.BigIntegerField()
    counter = models.BigIntegerField()
    first_epoch = models.BigIntegerField()
    labels = models.JSONField(default=dict)
    content_digest = fields.digest()
    owner = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, related_name="+")
    owner_group = fields.identifier()
    opened_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(epoch__gte=1, counter__gte=F("epoch")), name="run_counter_not_below_epoch"
            ),
            models.CheckConstraint(condition=Q(epoch__gte=F("first_epoch")), name="run_epoch_only_grows"),
        ]
        # Lists page by keyset, newest first (H6).
        indexes = [
            models.Index(F("opened_at").desc(), F("id").desc(), name="run_newest"),
            # A planner sees those of its group (H1).
            models.Index(F("owner_group"), F("opened_at").desc(), F("id").desc(), name="run_of_group"),
        ]
        triggers = [
            *triggers.kept("epoch", "counter"),
            triggers.Guard(
                name="run_numbers_grow",
                operation=triggers.update_of("epoch", "counter"),
                condition=pgtrigger.Condition("NEW.epoch < OLD.epoch OR NEW.counter < OLD.counter"),
                func=triggers.refused("run_numbers_grow", "R1, the numbers of a run only grow"),
            ),
        ]


class EpochOpening(models.Model):
    """A number that was handed out: at the start of a run, by a restart (R2), or to one step by a replay (R4)."""

    class Kind(models.TextChoices):
        """By what it was opened."""

        START = "start"
        RESTART = "restart"
        REPLAY = "replay"

    id = fields.key()
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, related_name="openings"
    )
    number = models.BigIntegerField()
    kind = models.CharField(max_length=7, choices=Kind)
    step_name = fields.identifier(null=True)
    from_epoch = models.BigIntegerField(null=True)
    reason = models.TextField(default="")
    content_digest = fields.digest(null=True)
    answer = models.JSONField(default=dict)
    # A key, or in the browser a person.
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    opened_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="epoch_number_once"),
            models.CheckConstraint(
                condition=Q(by__isnull=False) | Q(person__isnull=False), name="epoch_opened_by_somebody"
            ),
            # Of two replays from the same epoch one opens the new one (R4); the other finds this row.
            models.UniqueConstraint(
                fields=["run", "step_name", "from_epoch"], condition=Q(kind="replay"), name="epoch_replay_once"
            ),
            models.UniqueConstraint(
                fields=["run", "from_epoch"], condition=Q(kind="restart"), name="epoch_restart_once"
            ),
        ]
        triggers = triggers.append_only()
