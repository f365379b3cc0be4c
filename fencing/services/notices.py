"""Notices: raising one, telling the groups in turn, and closing it. Each is told once while it is open.

Raising writes a row in the caller's transaction, and nothing else: who is told, where and when is worked out by the
`notify` job, so that no target and no long list of people holds up what the notice is about.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Max, Q

from fencing.models import Notice, NoticeItem, Telling
from fencing.models.facts import read_clock
from fencing.models.fields import uuid7
from fencing.protocol.callers import Caller
from fencing.protocol.groups import Group
from fencing.protocol.notices import PLANS, Facts, Kind, gathered_until
from fencing.services.told_people import told_people
from fencing.services.wakeups import wake

NOTIFY: Final = "notify"
SPREAD_AT_ONCE: Final = 100
_NO_FACTS: Final[Facts] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """One matter that people are to be told of.

    `page` leads to its object: the name of a page and the names in its address ("grant night-shift-3"), or an address
    from its first slash on. The pages read it when somebody opens it, so that the engine knows no address of theirs.
    """

    kind: Kind
    subject: str
    page: str = ""
    facts: Facts = field(default_factory=lambda: _NO_FACTS)
    asked_by: str = "system"


def raise_notice(
    kind: Kind, subject: str, *, page: str = "", facts: Facts = _NO_FACTS, asked_by: str = "system"
) -> None:
    """Have people told of a matter, in the caller's transaction. While it is open, raising it again changes nothing.

    `facts` are names and codes for its sentence (`protocol.notices`): nothing sensitive, nobody's free words.
    """
    raise_all([Matter(kind=kind, subject=subject, page=page, facts=facts, asked_by=asked_by)])


def raise_all(matters: Iterable[Matter], *, is_watched: bool = False) -> int:
    """Raise several; give how many are new. `is_watched`: the sweep that found them tells when they are over."""
    fresh = 0
    with transaction.atomic():
        for matter in _unknown(list(matters)):
            is_new = _gather(matter) if PLANS[matter.kind].gathers_s else _raise(matter, is_watched=is_watched)
            fresh += is_new
    if fresh:
        transaction.on_commit(lambda: wake(NOTIFY))
    return fresh


def settle_notice(kind: Kind, subject: str) -> None:
    """Say that a matter is over: nobody is asked any more, and what was not sent yet is not sent."""
    _close(Notice.objects.filter(kind=kind, subject=subject, over_at__isnull=True))


def keep_only(standing: Mapping[Kind, Collection[str]]) -> None:
    """Close the watched notices of these kinds whose subjects are not among those that still stand."""
    watched = Notice.objects.filter(kind__in=list(standing), is_watched=True, over_at__isnull=True)
    stale = [
        pk for pk, kind, subject in watched.values_list("pk", "kind", "subject") if subject not in standing[Kind(kind)]
    ]
    if stale:
        _close(watched.filter(pk__in=stale))


def see(notice: Notice, caller: Caller) -> bool:
    """Note that a person has seen a notice; who was told ends its asking. Give whether that is new."""
    with transaction.atomic():
        row = Notice.objects.select_for_update().get(pk=notice.pk)
        was_told = Telling.objects.filter(notice=row, person_id=caller.person_id).exists()
        if not was_told and not _is_asked(row, caller):
            return False
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO fencing_sighting (id, notice_id, person_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [uuid7(), row.pk, caller.person_id],
            )
            is_new = bool(cursor.rowcount == 1)
        if row.seen_at is None:
            row.seen_at = read_clock()
            if row.told_level:
                row.due_at = None
            row.save(update_fields=["seen_at", "due_at"])
    return is_new


def spread_due() -> int:
    """Ask the next group of every notice that is due; give how many were. Several workers take different ones."""
    done = 0
    while done < SPREAD_AT_ONCE and _spread_one():
        done += 1
    return done


def has_due() -> bool:
    """Whether anything is to be done: a group to be asked, or a message to be sent."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM fencing_notice WHERE due_at <= clock.now)"
            " OR EXISTS (SELECT FROM fencing_telling WHERE due_at <= clock.now)"
            " FROM (SELECT clock_timestamp() AS now) clock"
        )
        ((found,),) = cursor.fetchall()
    return bool(found)


def _unknown(matters: Sequence[Matter]) -> list[Matter]:
    """Leave out what was raised already: a sweep finds the same again and again."""
    if not matters:
        return []
    subjects = [matter.subject[:450] for matter in matters]
    kinds = {matter.kind.value for matter in matters}
    named = {"kind__in": kinds, "subject__in": subjects}
    known = set(Notice.objects.filter(over_at__isnull=True, **named).values_list("kind", "subject"))
    known |= set(NoticeItem.objects.filter(**named).values_list("kind", "subject"))
    return [matter for matter in matters if (matter.kind.value, matter.subject[:450]) not in known]


def _raise(matter: Matter, *, is_watched: bool) -> bool:
    now = read_clock()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fencing_notice"
            " (id, kind, subject, page, facts, asked_by, is_watched, raised_at, due_at, count, told_level)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, 1, 0)"
            " ON CONFLICT (kind, subject) WHERE over_at IS NULL DO NOTHING",
            [uuid7(), matter.kind.value, matter.subject[:450], matter.page[:1000], json.dumps(dict(matter.facts)),
             matter.asked_by[:250], is_watched, now, now],
        )  # fmt: skip
        return bool(cursor.rowcount == 1)


def _gather(matter: Matter) -> bool:
    """Put a matter into the notice of its kind that gathers, or begin one. What was told once is never told again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"fence notice {matter.kind.value}"])
    if NoticeItem.objects.filter(kind=matter.kind, subject=matter.subject[:450]).exists():
        return False
    plan, now = PLANS[matter.kind], read_clock()
    notice = Notice.objects.select_for_update().filter(kind=matter.kind, told_level=0, over_at__isnull=True).first()
    if notice is None:
        last = Notice.objects.filter(kind=matter.kind).aggregate(last=Max("told_at"))["last"]
        notice = Notice.objects.create(
            kind=matter.kind, subject=f"gathered {uuid7()}", page=matter.page[:1000], facts=dict(matter.facts),
            asked_by=matter.asked_by[:250], raised_at=now, due_at=gathered_until(plan, now, last),
        )  # fmt: skip
    else:
        # The page and the names of one would stand for all.
        Notice.objects.filter(pk=notice.pk).update(count=notice.count + 1, facts={}, page="divergences ?verdict=none")
    NoticeItem.objects.create(
        notice=notice, kind=matter.kind, subject=matter.subject[:450], page=matter.page[:1000], facts=dict(matter.facts)
    )
    return True


def _spread_one() -> bool:
    with transaction.atomic():
        notice = (
            Notice.objects.select_for_update(skip_locked=True)
            .filter(due_at__lte=read_clock())
            .order_by("due_at")
            .first()
        )
        if notice is None:
            return False
        now, plan = read_clock(), PLANS[Kind(notice.kind)]
        level, is_told = notice.told_level, False
        # A group without anybody in it is passed over at once: waiting for nobody helps nobody.
        while not is_told and level < len(plan.asks) and notice.over_at is None:
            is_told = bool(_tell(notice, plan.asks[level], level, now))
            level += 1
        notice.told_level, notice.told_at = level, notice.told_at or now
        asks_on = level < len(plan.asks) and notice.seen_at is None and notice.over_at is None
        notice.due_at = now + timedelta(seconds=plan.unseen_s) if asks_on else None
        if plan.gathers_s:
            notice.over_at = now
        notice.save(update_fields=["told_level", "told_at", "due_at", "over_at"])
    return True


def _tell(notice: Notice, groups: frozenset[Group], level: int, now: datetime) -> int:
    """Write down who is told of a notice, and where; give how many people that is."""
    people = told_people(groups, Kind(notice.kind), now)
    rows = []
    for person in people:
        rows.append(Telling(notice=notice, person_id=person.id, level=level, state="shown", made_at=now))
        rows += [
            Telling(notice=notice, person_id=person.id, target_id=target, level=level, state="waiting",
                    made_at=now, due_at=person.told_at)
            for target in person.targets
        ]  # fmt: skip
    # Who was asked before, in another group, is not asked again.
    Telling.objects.bulk_create(rows, ignore_conflicts=True)
    return len(people)


def _close(notices: object) -> None:
    now = read_clock()
    with transaction.atomic():
        rows = list(notices.select_for_update().values_list("pk", flat=True))  # type: ignore[attr-defined]
        Telling.objects.filter(notice_id__in=rows, state="waiting").update(state="withdrawn", due_at=None)
        Notice.objects.filter(pk__in=rows, over_at__isnull=True).update(over_at=now, due_at=None)


def _is_asked(notice: Notice, caller: Caller) -> bool:
    """Whether a person is in a group that the notice has asked so far."""
    asked = [group for groups in PLANS[Kind(notice.kind)].asks[: max(1, notice.told_level)] for group in groups]
    return User.objects.filter(pk=caller.person_id or 0, is_active=True).filter(
        Q(is_superuser=True) | Q(groups__name__in=[group.value for group in asked])
    ).exists()  # fmt: skip


def send_test(target_id: uuid.UUID, person_id: int) -> None:
    """Have one target of a person sent a test, by the same way as everything else."""
    now = read_clock()
    with transaction.atomic():
        notice = Notice.objects.create(
            kind=Kind.TEST, subject=f"test {uuid7()}", raised_at=now, told_at=now, told_level=1, over_at=now
        )
        Telling.objects.create(
            notice=notice, person_id=person_id, target_id=target_id, level=0, state="waiting", due_at=now, made_at=now
        )
    transaction.on_commit(lambda: wake(NOTIFY))


def link_of(notice: Notice) -> str:
    """The address in a message: it opens the object after sign-in, and marks the notice as seen."""
    return f"{settings.FENCE_PUBLIC_URL.rstrip('/')}/notices/{notice.pk}/open"


def facts_of(row: Mapping[str, object]) -> Facts:
    """Read stored facts as what a sentence takes."""
    return {str(name): str(value) for name, value in row.items()}
