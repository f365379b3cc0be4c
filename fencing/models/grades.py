"""Grades: what was published of an attempt, and what was found wrong with it since (A4, I4)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from fencing.models import counts, fields, triggers
from fencing.models.attempts import MAX_FLOAT, Attempt
from fencing.models.credentials import Credential
from fencing.models.lanes import Lane
from fencing.protocol.grades import Flaw

# I4, in the database: a grade names one fragment for each seq, all of the attempt's open epoch, and says their mean.
# The attempt is locked as a whole, then the lane: no restart, no fragment and no halt slips in between.
GRADE_GUARD = """
PERFORM 1 FROM fencing_attempt WHERE id = NEW.attempt_id FOR UPDATE;
PERFORM 1 FROM fencing_lane WHERE id = NEW.lane_id FOR NO KEY UPDATE;
SELECT CASE
    WHEN attempt.lane_id <> NEW.lane_id THEN 'grade_whole: A5, the attempt is of another lane'
    WHEN attempt.state <> 'open' THEN 'grade_whole: A4, the attempt is published'
    WHEN attempt.epoch <> NEW.epoch THEN 'grade_whole: I4, the grade is not of the open epoch'
    WHEN lane.state <> 'running' THEN 'grade_whole: A4, the lane is halted'
    WHEN lane.published + 1 <> NEW.place THEN 'grade_whole: I4, grades have their places one after the other'
    WHEN cardinality(NEW.fragments) <> attempt.expected OR held.count <> attempt.expected
        THEN 'grade_whole: I4, a grade holds every fragment of its epoch, and no other'
    WHEN held.scored <> NEW.scored OR (held.mean IS NULL) <> (NEW.mean IS NULL)
        OR abs(held.mean - NEW.mean::numeric) > 1e-9 * greatest(abs(held.mean), held.largest)
        THEN 'grade_whole: I4, a grade says the mean of its fragments'
END INTO wrong
FROM fencing_attempt AS attempt, fencing_lane AS lane, LATERAL (
    SELECT count(*), count(fragment.score) AS scored, max(abs(fragment.score))::numeric AS largest,
        avg(fragment.score::numeric) AS mean
    FROM unnest(NEW.fragments) WITH ORDINALITY AS named(id, place)
    CROSS JOIN LATERAL (SELECT * FROM fencing_fragment WHERE id = named.id LIMIT 1) AS fragment
    WHERE fragment.attempt_id = NEW.attempt_id AND fragment.epoch = NEW.epoch AND fragment.seq = named.place - 1
) AS held
WHERE attempt.id = NEW.attempt_id AND lane.id = NEW.lane_id;
"""
PUBLISHED_GUARD = """
SELECT 'grade_published: A4, an attempt with a grade is published' INTO wrong
FROM fencing_attempt AS attempt, fencing_lane AS lane
WHERE attempt.id = NEW.attempt_id AND lane.id = NEW.lane_id
    AND (attempt.state <> 'published' OR lane.published < NEW.place);
"""


class Grade(models.Model):
    """The published result of an attempt. `fragments` are those that it holds, in the order of seq."""

    id = fields.key()
    attempt: models.OneToOneField[Any, Any] = models.OneToOneField(
        Attempt, on_delete=models.PROTECT, related_name="grade"
    )
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="grades")
    place = models.BigIntegerField()
    epoch = models.BigIntegerField()
    fragments = ArrayField(models.UUIDField())
    mean = models.FloatField(null=True)
    scored = models.IntegerField()
    digest = fields.digest()
    by = models.ForeignKey(Credential, on_delete=models.PROTECT, db_index=False, related_name="+")
    published_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lane", "place"], name="grade_place_once"),
            models.CheckConstraint(
                condition=Q(mean__isnull=True) | Q(mean__gte=-MAX_FLOAT, mean__lte=MAX_FLOAT), name="grade_mean_finite"
            ),
        ]
        triggers = [
            *triggers.append_only(),
            counts.GRADES,
            triggers.LookupGuard(name="grade_whole", operation=pgtrigger.Insert, func=GRADE_GUARD),
            triggers.Guard(
                name="grade_published",
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                operation=pgtrigger.Insert,
                func=PUBLISHED_GUARD,
            ),
        ]


class GradeFinding(models.Model):
    """Something wrong that was found with a published grade, or with what was about to become one (then without it)."""

    id = fields.key()
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, db_index=False, related_name="findings")
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, db_index=False, related_name="findings")
    grade: models.ForeignKey[Any, Any] = models.ForeignKey(
        Grade, on_delete=models.PROTECT, null=True, db_index=False, related_name="findings"
    )
    flaw = models.CharField(max_length=10, choices=[(each.value, each.value) for each in Flaw])
    detail = models.TextField()
    found_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "flaw"], name="grade_finding_once"),
        ]
        indexes = [models.Index(F("lane"), F("found_at").desc(), F("id").desc(), name="grade_finding_of_lane")]
        triggers = [*triggers.append_only(), counts.FINDINGS]
