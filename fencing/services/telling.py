"""Sending what people are to be told: a try is written down before it is made, and settled by how it ended (N5).

No transaction is open while something is sent. A target that fails is left alone for a while, longer each time; what
else waits for it waits too, and for nobody else. One that hangs is waited for beside the others, never before them.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F

from fencing.models import Notice, Target, Telling, TellingTry
from fencing.models.facts import read_clock
from fencing.protocol.notices import MOST_TRIES, Kind, pause_s, sentence_of
from fencing.services.notices import facts_of, link_of
from fencing.services.sending import Sent, send

AT_ONCE: Final = 16
# A try is over long before: whoever took it died, or its thread hangs, and another worker may take it.
LEASE_S: Final = 60
# No try takes longer than this, whatever its target does; then it counts as failed.
TRY_S: Final = 20.0
TOO_LONG: Final = "It did not end in time."
# How long one that hangs is waited for, before it is looked whether something else is due.
LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message that is about to be sent."""

    telling: uuid.UUID
    target: uuid.UUID
    number: int
    locked: str
    title: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A message on its way, since when (seconds of `time.monotonic`)."""

    message: Message
    since: float


Running = dict[Future[tuple[Sent, int]], Try]


def tell_due(
    pool: ThreadPoolExecutor, *, meanwhile: Callable[[], object] = lambda: None, until: float = math.inf
) -> int:
    """Send what is due, one message at a time to each target, until none is due or on its way; give the tries.

    `meanwhile` is called before each look at what is due, and may make more so. From `until` on (`time.monotonic`)
    nothing more is begun.
    """
    running: Running = {}
    tries = 0
    while True:
        if time.monotonic() < until:
            meanwhile()
            for message in _claim(AT_ONCE - len(running), {each.message.target for each in running.values()}):
                running[pool.submit(_timed, message)] = Try(message=message, since=time.monotonic())
                tries += 1
        if not running:
            return tries
        _settle_ended(running)


def _settle_ended(running: Running) -> None:
    """Settle what has ended or takes too long, and leave it out of what is on its way."""
    wait(running, timeout=LOOK_S, return_when=FIRST_COMPLETED)
    for future, each in list(running.items()):
        age = time.monotonic() - each.since
        if future.done():
            sent, took = future.result()
        elif age > TRY_S:
            future.cancel()
            sent, took = Sent(is_sent=False, error=TOO_LONG), int(age * 1000)
        else:
            continue
        del running[future]
        _settle(each.message, sent, took)


def _timed(message: Message) -> tuple[Sent, int]:
    started = time.monotonic()
    sent = send(message.locked, message.title, message.body)
    return sent, int((time.monotonic() - started) * 1000)


def _claim(room: int, busy: Collection[uuid.UUID]) -> list[Message]:
    """Take due tellings, one for each target that is not busy, and move them ahead before anything is sent."""
    if room <= 0:
        return []
    with transaction.atomic():
        now = read_clock()
        due = (
            Telling.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("target", "notice")
            .filter(due_at__lte=now)
            .exclude(target__in=busy)
            .order_by("due_at", "id")[: 2 * AT_ONCE]
        )
        taken: list[Message] = []
        taken_by: set[uuid.UUID] = set()
        for telling in due:
            if len(taken) == room or not _may_try(telling, taken_by, now):
                continue
            telling.tries += 1
            telling.due_at = now + timedelta(seconds=LEASE_S)
            telling.save(update_fields=["tries", "due_at"])
            message = _message(telling)
            taken_by.add(message.target)
            taken.append(message)
    return taken


def _may_try(telling: Telling, busy: set[uuid.UUID], now: datetime) -> bool:
    """Whether a telling is tried now; what cannot be is settled, or put off until its target may be tried again."""
    target = telling.target
    if target is None or target.ended_at is not None:
        Telling.objects.filter(pk=telling.pk).update(state="withdrawn", due_at=None)
        return False
    if target.paused_until is not None and target.paused_until > now:
        Telling.objects.filter(pk=telling.pk).update(due_at=target.paused_until)
        return False
    return telling.target_id not in busy


def _message(telling: Telling) -> Message:
    notice, target = telling.notice, telling.target
    title, body = message_of(notice)
    return Message(
        telling=telling.pk, target=target.pk, number=telling.tries, locked=target.locked, title=title, body=body
    )


def message_of(notice: Notice) -> tuple[str, str]:
    """Write what is sent: the sentence of the notice, and the link that opens its object."""
    sentence = sentence_of(Kind(notice.kind), facts_of(notice.facts), notice.count)
    head = "".join(part.text for part in sentence.head)
    return f"Fence: {head}", f"{sentence.text}\n\n{link_of(notice)}"


def _settle(message: Message, sent: Sent, took_ms: int) -> None:
    with transaction.atomic():
        target = Target.objects.select_for_update().get(pk=message.target)
        # Whoever was thought dead and another one who took over both come here: the first one settles.
        telling = Telling.objects.select_for_update().get(pk=message.telling)
        now = read_clock()
        TellingTry.objects.create(
            telling=telling,
            number=message.number,
            tried_at=now,
            is_sent=sent.is_sent,
            error=sent.error,
            took_ms=took_ms,
        )
        if sent.is_sent:
            _note_sent(target, telling, now)
        else:
            _note_failed(target, telling, message, sent.error, now)


def _note_sent(target: Target, telling: Telling, now: datetime) -> None:
    Target.objects.filter(pk=target.pk).update(failures=0, paused_until=None, sent_at=now, error="")
    if telling.state != Telling.State.SENT:
        Telling.objects.filter(pk=telling.pk).update(state="sent", due_at=None, sent_at=now, error="")


def _note_failed(target: Target, telling: Telling, message: Message, error: str, now: datetime) -> None:
    again = now + timedelta(seconds=pause_s(target.failures + 1))
    Target.objects.filter(pk=target.pk).update(
        failures=F("failures") + 1, paused_until=again, failed_at=now, error=error
    )
    if telling.state != Telling.State.WAITING or telling.tries != message.number:
        return
    changes: dict[str, Any] = {"error": error, "due_at": again}
    if telling.tries >= MOST_TRIES:
        changes = {"error": error, "state": "failed", "due_at": None}
    Telling.objects.filter(pk=telling.pk).update(**changes)
