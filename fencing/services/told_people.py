"""Who is told of a kind of notice: the active people of groups, their targets that want it, and when."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.contrib.auth.models import User
from django.db.models import Q

from fencing.models import QuietHours, Target
from fencing.protocol.groups import Group
from fencing.protocol.notices import Kind, Quiet, told_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A person who is told: at which targets (none: on their page alone), and when."""

    id: int
    targets: tuple[uuid.UUID, ...]
    told_at: datetime


def told_people(groups: frozenset[Group], kind: Kind, now: datetime) -> list[Told]:
    """Find who is told of a kind. A superuser is in no group by that alone: nobody is asked whom nobody named."""
    people = list(
        User.objects.filter(is_active=True, groups__name__in=[group.value for group in groups])
        .distinct()
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    quiet = {row.person_id: quiet_of(row) for row in QuietHours.objects.filter(person_id__in=people)}
    targets: dict[int, list[uuid.UUID]] = defaultdict(list)
    wanting = Q(kinds=[]) | Q(kinds__contains=[kind.value])
    for person, target in (
        Target.objects.filter(wanting, person_id__in=people, ended_at__isnull=True)
        .order_by("pk")
        .values_list("person_id", "pk")
    ):
        targets[person].append(target)
    return [
        Told(id=person, targets=tuple(targets[person]), told_at=told_at(kind, quiet.get(person), now))
        for person in people
    ]


def quiet_of(row: QuietHours) -> Quiet | None:
    """Read a person's quiet hours; None where they have none, or their zone is unknown here."""
    if row.begin is None or row.end is None:
        return None
    try:
        zone = ZoneInfo(row.zone)
    except (ZoneInfoNotFoundError, ValueError):
        return None
    return Quiet(zone=zone, begin=row.begin, end=row.end)
