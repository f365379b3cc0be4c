"""Where and when a person is told: their targets and quiet hours. An address is locked, and told to nobody again."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction

from fencing.models import QuietHours, Target, Telling
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.notices import Kind
from fencing.services.notices import send_test
from fencing.services.sending import lock_address, read_address
from fencing.services.writes import Writes

KIND: Final = "target"
MOST_TARGETS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTarget:
    """What a person asks for: a name for it, its address, and which kinds they want there (none: all)."""

    name: str
    address: str
    kinds: tuple[Kind, ...] = ()


def add_target(request: AddTarget, caller: Caller) -> uuid.UUID | Refusal:
    """Give a person one more place where they are told."""
    address = read_address(request.address)
    if isinstance(address, Refusal):
        return address
    with transaction.atomic():
        mine = Target.objects.select_for_update().filter(person_id=caller.person_id, ended_at__isnull=True)
        names = [row.name for row in mine]
        if request.name in names:
            return _refused("/name", "You have a place of that name already.")
        if len(names) >= MOST_TARGETS:
            return _refused("/name", f"Nobody has more than {MOST_TARGETS} places. End one first.")
        target = Target.objects.create(
            person_id=caller.person_id or 0,
            name=request.name,
            service=address.service,
            locked=lock_address(address),
            is_reference=address.is_reference,
            kinds=[kind.value for kind in request.kinds],
        )
        told = {"name": target.name, "service": target.service, "kinds": list(target.kinds)}
        _note("add_target", target, caller, after=told)
    return target.pk


def end_target(target_id: uuid.UUID, caller: Caller) -> bool:
    """End a place of the person's own: its address is forgotten, and what waited for it is not sent."""
    with transaction.atomic():
        target = _own(target_id, caller)
        if target is None:
            return False
        Target.objects.filter(pk=target.pk).update(ended_at=read_clock(), locked="", paused_until=None)
        Telling.objects.filter(target=target, state="waiting").update(state="withdrawn", due_at=None)
        _note("end_target", target, caller, before={"name": target.name, "service": target.service})
    return True


def try_target(target_id: uuid.UUID, caller: Caller) -> bool:
    """Send a test to a place of the person's own."""
    target = _own(target_id, caller)
    if target is None or caller.person_id is None:
        return False
    # Whoever asks for a test wants to know now.
    Target.objects.filter(pk=target.pk).update(paused_until=None)
    send_test(target.pk, caller.person_id)
    return True


def set_quiet_hours(zone: str, begin: time | None, end: time | None, caller: Caller) -> Refusal | None:
    """Say when a person is not to be woken for what is not urgent; None and None: never quiet."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return _refused("/zone", "There is no such zone: write it like Europe/Berlin.")
    if (begin is None) is not (end is None):
        return _refused("/end", "Quiet hours have a beginning and an end, or neither.")
    with transaction.atomic():
        row, _ = QuietHours.objects.select_for_update().get_or_create(person_id=caller.person_id)
        before = {"zone": row.zone, "begin": _said(row.begin), "end": _said(row.end)}
        row.zone, row.begin, row.end = zone, begin, end
        row.save()
        after = {"zone": zone, "begin": _said(begin), "end": _said(end)}
        if after != before:
            writes = Writes(caller)
            writes.audit("set_quiet_hours", "person", caller.person or caller.name, before=before, after=after)
            writes.send()
    return None


def known_kinds(values: Sequence[str]) -> tuple[Kind, ...]:
    """Read the kinds that somebody chose; what is none is left out."""
    known = {kind.value: kind for kind in Kind if kind is not Kind.TEST}
    return tuple(known[value] for value in values if value in known)


def _own(target_id: uuid.UUID, caller: Caller) -> Target | None:
    rows = Target.objects.filter(pk=target_id, person_id=caller.person_id, ended_at__isnull=True)
    return rows.first()


def _note(verb: str, target: Target, caller: Caller, *, before: object = None, after: object = None) -> None:
    writes = Writes(caller)
    writes.audit(verb, KIND, str(target.pk), before=before, after=after)
    writes.send()


def _said(moment: time | None) -> str | None:
    return None if moment is None else f"{moment:%H:%M}"


def _refused(pointer: str, detail: str) -> Refusal:
    return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer=pointer)
