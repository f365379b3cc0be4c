"""Sending what people are to be told: a try is written down before it is made, and settled by how it ended (N5).

No transaction is open while something is sent. A target that fails is left alone for a while, longer each time; what
else waits for it waits too, and for nobody else.
"""

from __future__ import annotations

import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
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

AT_ONCE: Final = 8
# A try is over long before: whoever took it died, or its thread hangs, and another worker may take it.
LEASE_S: Final = 60
# No batch takes longer than this, whatever its targets do; then they count as failed.
BATCH_S: Final = 20.0
TOO_LONG: Final = "It did not end in time."


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message that is about to be sent."""

    telling: uuid.UUID
    target: uuid.UUID
    number: int
    locked: str
    title: str
    body: str


def tell_due(pool: ThreadPoolExecutor) -> int:
    """Send what is due, each target once; give how many tries were made."""
    messages = _claim()
    started = time.monotonic()
    running: dict[Future[tuple[Sent, int]], Message] = {pool.submit(_timed, each): each for each in messages}
    done, late = wait(running, timeout=BATCH_S)
    for future in done:
        sent, took = future.result()
        _settle(running[future], sent, took)
    for future in late:
        future.cancel()
        _settle(running[future], Sent(is_sent=False, error=TOO_LONG), int((time.monotonic() - started) * 1000))
    return len(messages)


def _timed(message: Message) -> tuple[Sent, int]:
    started = time.monotonic()
    sent = send(message.locked, message.title, message.body)
    return sent, int((time.monotonic() - started) * 1000)


def _claim() -> list[Message]:
    """Take due tellings, one for each target, and move them ahead before anything is sent."""
    with transaction.atomic():
        now = read_clock()
        due = (
            Telling.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("target", "notice")
            .filter(due_at__lte=now)
            .order_by("due_at", "id")[: 4 * AT_ONCE]
        )
        taken: list[Message] = []
        busy: set[uuid.UUID] = set()
        for telling in due:
            if len(taken) == AT_ONCE or not _may_try(telling, busy, now):
                continue
            telling.tries += 1
            telling.due_at = now + timedelta(seconds=LEASE_S)
            telling.save(update_fields=["tries", "due_at"])
            message = _message(telling)
            busy.add(message.target)
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
