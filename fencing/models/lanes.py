"""Lanes of grades: who publishes into one, what a reviewer asks of it, when it was halted, and what its gate said."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers
from fencing.models.credentials import Credential
from fencing.protocol.gate import Gate
from fencing.protocol.grades import LANE_TRANSITIONS, LaneState

# A4: a lane halts and runs again by an act on record, and what it counts as published are its grades. The acts stand
# before the lane says so, in the same transaction.
LANE_GUARD = """
wrong := CASE
    WHEN OLD.state <> NEW.state AND NOT {moves}
        THEN 'lane_moves: A4, a lane is halted or resumed'
    WHEN OLD.state <> NEW.state AND (
        SELECT CASE what WHEN 'halted' THEN 'halted' ELSE 'running' END FROM fencing_laneevent
        WHERE lane_id = NEW.id ORDER BY number DESC LIMIT 1) IS DISTINCT FROM NEW.state
        THEN 'lane_moves: A4, a lane halts and is resumed by an act on record'
    WHEN OLD.thresholds_version <> NEW.thresholds_version AND (NEW.thresholds_version <> OLD.thresholds_version + 1
        OR NOT EXISTS (SELECT FROM fencing_lanethresholds
            WHERE lane_id = NEW.id AND version = NEW.thresholds_version))
        THEN 'lane_thresholds: A5, thresholds change by a next version on record'
    WHEN OLD.published <> NEW.published AND (NEW.published <> OLD.published + 1
        OR NOT EXISTS (SELECT FROM fencing_grade WHERE lane_id = NEW.id AND place = NEW.published))
        THEN 'lane_published: I4, what a lane counts as published are its grades'
END;
"""


class Lane(models.Model):
    """A set of attempts, and the one publisher whose grades it holds (A5).

    `published` is the place of its newest grade: grades have their places in the order of their commits.
    """

    id = fields.key()
    name = fields.identifier(unique=True)
    owner = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    # The group survives a rotation of the key; a publisher's key alone is a group of its own.
    owner_group = fields.identifier()
    content_digest = fields.digest()
    state = models.CharField(max_length=7, choices=[(each.value, each.value) for each in LaneState], default="running")
    halt_reason = models.TextField(null=True)
    halted_at = models.DateTimeField(null=True)
    thresholds_version = models.IntegerField(default=1)
    published = models.BigIntegerField(default=0)
    # Until when its grades were read again, by place; the auditor goes round and round.
    audited = models.BigIntegerField(default=0)
    audited_at = models.DateTimeField(null=True)
    made_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state="halted", halted_at__isnull=False, halt_reason__isnull=False)
                | Q(state="running", halted_at__isnull=True, halt_reason__isnull=True),
                name="lane_halted_with_a_reason",
            ),
        ]
        indexes = [
            models.Index(F("made_at").desc(), F("id").desc(), name="lane_newest"),
            # The auditor takes the one that nobody has read for longest.
            models.Index(F("audited_at").asc(nulls_first=True), F("id"), name="lane_to_audit"),
        ]
        triggers = [
            *triggers.kept(
                "state", "halt_reason", "halted_at", "thresholds_version", "published", "audited", "audited_at"
            ),
            triggers.Guard(
                name="lane_begins_running",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.state <> 'running' OR NEW.published <> 0"),
                func=triggers.refused("lane_begins_running", "A4, a new lane runs and has published nothing"),
            ),
            triggers.LookupGuard(
                name="lane_moves",
                operation=triggers.update_of("state", "thresholds_version", "published"),
                func=LANE_GUARD.format(moves=triggers.moves(LANE_TRANSITIONS, "state")),
            ),
        ]


class LaneThresholds(models.Model):
    """What is asked of a lane, by version (A5). The publisher gives the first one, a reviewer every other."""

    id = fields.key()
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="versions")
    version = models.IntegerField()
    thresholds = models.JSONField()
    reason = models.TextField(default="")
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    set_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lane", "version"], name="lane_thresholds_version_once"),
            models.CheckConstraint(
                condition=Q(version=1) | Q(version__gt=1, person__isnull=False), name="lane_thresholds_by_a_person"
            ),
        ]
        triggers = triggers.append_only()


class LaneEvent(models.Model):
    """A lane was halted, by the system, or resumed, by a reviewer with a reason (A4)."""

    class What(models.TextChoices):
        """What happened to the lane."""

        HALTED = "halted"
        RESUMED = "resumed"

    id = fields.key()
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="events")
    number = models.IntegerField()
    what = models.CharField(max_length=7, choices=What)
    reason = models.TextField()
    attempt = fields.identifier(null=True)
    person: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lane", "number"], name="lane_event_once"),
            models.CheckConstraint(
                condition=Q(what="halted") | Q(what="resumed", person__isnull=False), name="lane_resumed_by_a_person"
            ),
        ]
        triggers = triggers.append_only()


class GateReading(models.Model):
    """What the gate said to somebody, when, and what it had read: the grades up to a place, but for those excluded."""

    id = fields.key()
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="readings")
    gate = models.CharField(max_length=5, choices=[(each.value, each.value) for each in Gate])
    reasons = models.JSONField()
    figures = models.JSONField()
    snapshot = fields.digest()
    thresholds_version = models.IntegerField()
    upto = models.BigIntegerField()
    excluded = ArrayField(models.UUIDField(), default=list)
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    read_at = fields.recorded_at()

    class Meta:
        indexes = [
            models.Index(F("lane"), F("read_at").desc(), F("id").desc(), name="gate_reading_newest"),
            models.Index(F("lane"), F("by"), F("read_at").desc(), name="gate_reading_of_key"),
        ]
        triggers = triggers.append_only()
