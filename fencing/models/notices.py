"""Notices: what people are told of, where, and how far that came. Rows stay; only their progress changes (I6)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers


def _person(**options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", **options)


class Notice(models.Model):
    """One matter that people are told of, once while it is open.

    `is_watched`: the sweep that found it closes it when it is over. `told_level` is how many groups were asked;
    `due_at` when the next thing has to be done about it, null where nothing has. `asked_by` is who caused it.
    """

    id = fields.key()
    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=450)
    page = models.CharField(max_length=1000, default="")
    facts = models.JSONField(default=dict)
    asked_by = models.CharField(max_length=250, default="system")
    is_watched = models.BooleanField(default=False)
    raised_at = fields.recorded_at()
    count = models.IntegerField(default=1)
    told_level = models.SmallIntegerField(default=0)
    told_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    over_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], condition=Q(over_at__isnull=True), name="notice_open_once"
            )
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="notice_due"),
            models.Index(F("raised_at").desc(), F("id").desc(), name="notice_newest"),
            models.Index(fields=["kind", "told_at"], name="notice_told"),
        ]
        triggers = [
            *triggers.kept("facts", "page", "count", "told_level", "told_at", "due_at", "seen_at", "over_at"),
            triggers.WrittenOnce("seen_at", "over_at"),
        ]


class NoticeItem(models.Model):
    """One thing of a gathered notice, told once for ever."""

    id = fields.key()
    notice: models.ForeignKey[Any, Any] = models.ForeignKey(Notice, on_delete=models.PROTECT, related_name="items")
    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=450)
    page = models.CharField(max_length=1000, default="")
    facts = models.JSONField(default=dict)
    added_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject"], name="notice_item_once")]
        triggers = triggers.append_only()


class Target(models.Model):
    """Where a person is told: an address of theirs, locked. It is never shown again.

    `kinds` are those that they want there, all where it is empty. `failures` counts those in a row.
    """

    id = fields.key()
    person = _person()
    name = models.CharField(max_length=60)
    service = models.CharField(max_length=60)
    locked = models.TextField()
    is_reference = models.BooleanField(default=False)
    kinds = ArrayField(models.CharField(max_length=20), default=list)
    made_at = fields.recorded_at()
    ended_at = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    paused_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "name"], condition=Q(ended_at__isnull=True), name="target_named_once"
            ),
            # An address that is ended is forgotten.
            models.CheckConstraint(condition=Q(ended_at__isnull=True) | Q(locked=""), name="target_ended_is_empty"),
        ]
        triggers = [
            *triggers.kept("locked", "kinds", "ended_at", "failures", "paused_until", "sent_at", "failed_at", "error"),
            triggers.WrittenOnce("ended_at"),
        ]


class QuietHours(models.Model):
    """When a person is not to be woken for what is not urgent, in their zone."""

    id = fields.key()
    person: models.OneToOneField[Any, Any] = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="quiet_hours"
    )
    zone = models.CharField(max_length=60, default="UTC")
    begin = models.TimeField(null=True)
    end = models.TimeField(null=True)

    class Meta:
        triggers = triggers.kept("zone", "begin", "end")


class Telling(models.Model):
    """That a person is told of a notice: on their page (no target), and at each target of theirs.

    `due_at` is when it is to be tried next, null once it is settled; a try moves it ahead first, so that a worker that
    dies in it leaves the rest to another one.
    """

    class State(models.TextChoices):
        """How far it is."""

        SHOWN = "shown"
        WAITING = "waiting"
        SENT = "sent"
        FAILED = "failed"
        WITHDRAWN = "withdrawn"

    id = fields.key()
    notice: models.ForeignKey[Any, Any] = models.ForeignKey(Notice, on_delete=models.PROTECT, related_name="tellings")
    person = _person()
    target: models.ForeignKey[Any, Any] = models.ForeignKey(
        Target, on_delete=models.PROTECT, null=True, related_name="tellings"
    )
    level = models.SmallIntegerField()
    made_at = fields.recorded_at()
    state = models.CharField(max_length=9, choices=State)
    due_at = models.DateTimeField(null=True)
    tries = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["notice", "target"], condition=Q(target__isnull=False), name="telling_once_a_target"
            ),
            models.UniqueConstraint(
                fields=["notice", "person"], condition=Q(target__isnull=True), name="telling_once_a_person"
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", due_at__isnull=False) | ~Q(state="waiting") & Q(due_at__isnull=True),
                name="telling_due_while_it_waits",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="telling_due"),
            models.Index(fields=["person", "id"], condition=Q(target__isnull=True), name="telling_of_person"),
        ]
        triggers = triggers.kept("state", "due_at", "tries", "sent_at", "error")


class TellingTry(models.Model):
    """One try to send: when, how it ended, how long it took."""

    id = fields.key()
    telling: models.ForeignKey[Any, Any] = models.ForeignKey(Telling, on_delete=models.PROTECT, related_name="tried")
    number = models.IntegerField()
    tried_at = fields.recorded_at()
    is_sent = models.BooleanField()
    error = models.CharField(max_length=200, default="")
    took_ms = models.IntegerField()

    class Meta:
        triggers = triggers.append_only()


class Sighting(models.Model):
    """That a person has seen a notice: they opened its object through it, or said so."""

    id = fields.key()
    notice: models.ForeignKey[Any, Any] = models.ForeignKey(Notice, on_delete=models.PROTECT, related_name="sightings")
    person = _person()
    seen_at = fields.recorded_at()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["notice", "person"], name="sighting_once")]
        triggers = triggers.append_only()
