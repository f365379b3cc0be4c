"""Verifications that somebody asked for: kept with how far they are and what they found, worked at slice by slice."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from django.db import IntegrityError, connection, transaction

from fencing.models import Seal, Verification
from fencing.models.facts import read_clock
from fencing.protocol.audit_faults import Fault, Kind
from fencing.protocol.callers import SYSTEM, Caller
from fencing.services import verifying
from fencing.services.heads import heads_file
from fencing.services.verifying import Checked
from fencing.services.writes import Writes

log = structlog.get_logger(__name__)

EVERY: Final = timedelta(days=1)
LOCK: Final = 0x66656E63766572  # "fencver"
MOST_UNSEALED: Final = 100_000
OPEN: Final = (Verification.State.ASKED, Verification.State.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A verification that is under way; `is_new` is false where one was already."""

    id: str
    is_new: bool


def ask(caller: Caller) -> Asked:
    """Ask for a verification of everything that is sealed now; where one is under way it is that one."""
    try:
        with transaction.atomic():
            row = Verification(asked_by=caller.actor)
            row.save(force_insert=True)
            writes = Writes(caller)
            writes.audit("ask_verification", "verification", str(row.id))
            writes.wake("verify")
            writes.send()
    except IntegrityError:
        under_way = Verification.objects.filter(state__in=OPEN).first()
        # It may have ended in this very moment; then the newest one is what was asked for.
        found = under_way or Verification.objects.latest("asked_at")
        return Asked(id=str(found.id), is_new=False)
    return Asked(id=str(row.id), is_new=True)


def ask_if_due() -> bool:
    """Ask once a day by itself, where there is anything to verify."""
    newest = Verification.objects.order_by("-asked_at").values_list("asked_at", flat=True).first()
    if (newest is not None and newest > read_clock() - EVERY) or not Seal.objects.exists():
        return False
    return ask(SYSTEM).is_new


def note_found(kind: Kind, says: str, *, row: int, seal: int) -> None:
    """Keep what the sealer found wrong as a failed verification, once: whoever is told of those is told of it."""
    newest = Verification.objects.filter(finished_at__isnull=False).order_by("-asked_at", "-id").first()
    if newest is not None and newest.says == says:
        return
    now, failed = read_clock(), Verification.State.FAILED
    fault = {"fault_kind": kind.value, "fault_row": row, "fault_seal": seal}
    Verification.objects.create(asked_by="sealer", state=failed, worked_at=now, finished_at=now, says=says, **fault)


def is_wanted() -> bool:
    """Tell whether one is asked for or under way."""
    return Verification.objects.filter(state__in=OPEN).exists()


def work_on(within_s: float) -> bool:
    """Work at the open verification for about so long; True where there is more to do. One worker at a time."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        ((is_mine,),) = cursor.fetchall()
    if not is_mine:
        return False
    try:
        row = Verification.objects.filter(state__in=OPEN).first()
        return row is not None and _work(row, time.monotonic() + within_s)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def _work(row: Verification, until: float) -> bool:
    up_to, begin = _begun(row)
    checked, is_done = begin, False
    for checked in verifying.check_seals(begin, up_to, verifying.trusted_keys()):
        if checked.fault is not None or time.monotonic() > until:
            break
    is_done = checked.fault is not None or (0 if checked.seal is None else checked.seal.number) >= up_to
    if not is_done:
        _note(row, checked, up_to, state=Verification.State.RUNNING)
        return True
    _end(row, checked, up_to, checked.fault or _fault_beyond(checked))
    return False


def _begun(row: Verification) -> tuple[int, Checked]:
    """Where it goes on: with the seal after the last good one. How far it goes is fixed when it begins."""
    if row.state == Verification.State.ASKED:
        newest = verifying.last_seal()
        return (0 if newest is None else newest.number), Checked()
    seal = Seal.objects.defer("entries").filter(number=row.seal).first()
    return (row.up_to, Checked()) if seal is None else (row.up_to, Checked(seal=seal.pure, rows=row.rows))


def _fault_beyond(checked: Checked) -> Fault | None:
    keys = verifying.trusted_keys()
    fault = verifying.check_heads([heads_file()], keys) or verifying.check_end()
    if fault is None and not checked.rows:
        return verifying.nothing(unsealed=verifying.count_unsealed(MOST_UNSEALED))
    return fault


def _note(row: Verification, checked: Checked, up_to: int, **values: object) -> None:
    Verification.objects.filter(pk=row.pk, finished_at__isnull=True).update(
        seal=0 if checked.seal is None else checked.seal.number,
        rows=checked.rows,
        up_to=up_to,
        worked_at=read_clock(),
        **values,
    )


def _end(row: Verification, checked: Checked, up_to: int, fault: Fault | None) -> None:
    state = Verification.State.HELD if fault is None else Verification.State.FAILED
    says = f"{checked.rows:,} rows are as they were sealed." if fault is None else fault.says
    kind = "" if fault is None else fault.kind.value
    with transaction.atomic():
        _note(
            row,
            checked,
            up_to,
            state=state,
            finished_at=read_clock(),
            unsealed=verifying.count_unsealed(MOST_UNSEALED),
            fault_kind=kind,
            fault_row=None if fault is None else fault.row,
            fault_seal=None if fault is None else fault.seal,
            says=says,
        )
        writes = Writes(SYSTEM)
        after = {"state": state.value, "rows": checked.rows, "seal": 0 if checked.seal is None else checked.seal.number}
        told = {} if fault is None else {"fault": kind, "row": fault.row}
        writes.audit("end_verification", "verification", str(row.id), after={**after, **told}, reason=says)
        writes.send()
    if fault is not None:
        log.error("audit_verification_failed", kind=kind, row=fault.row, seal=fault.seal, says=says)
