"""Verifying the audit (U3): every seal in its chain, every row in its seal, every head that stands outside.

The core says what a fault is (`protocol.audit_faults`); here the rows are fetched for it, one seal at a time. Bytes are
made by PostgreSQL's own functions out of what it stores, and hashed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from django.db import connection

from fencing.models import AuditEvent, Seal
from fencing.models.facts import read_clock
from fencing.models.seals import ENTRIES, TABLE
from fencing.protocol import seal as protocol
from fencing.protocol.audit_faults import Fault, Kind, fault_of_link, fault_of_rows, unsigned
from fencing.services.heads import BadHead, read_heads
from fencing.services.signing import SEAL, public_keys

CHUNK: Final = 1000
# A seal is committed before its head is written: so long may one be on its way.
ON_ITS_WAY: Final = timedelta(minutes=1)
ELSEWHERE: Final = "SELECT min(number) FROM fencing_seal WHERE number <> %s AND position(%s::bytea IN entries) > 0"
BEYOND: Final = f"SELECT max(id) FROM {TABLE}"  # noqa: S608 - a name of our own
HANDED_OUT: Final = f"SELECT pg_sequence_last_value(pg_get_serial_sequence('{TABLE}', 'id')::regclass)"

Keys = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How far a verification is: the last good seal (None before the first), its last row, and how many rows it was."""

    seal: protocol.Seal | None = None
    rows: int = 0
    fault: Fault | None = None

    @property
    def last(self) -> int:
        """The last row that was found good."""
        return 0 if self.seal is None else self.seal.last


def trusted_keys() -> Keys:
    """The public keys that seals are signed with, as this system knows them."""
    return public_keys(SEAL)


def check_seals(begin: Checked, up_to: int, keys: Keys) -> Iterator[Checked]:
    """Check seal after seal up to a number; the last one that is given carries the fault, where there is one."""
    good = begin
    if good.seal is None and (before := AuditEvent.objects.filter(pk__lte=0).order_by("pk").first()) is not None:
        says = f"Row {before.pk} stands before the first number that was ever handed out."
        yield Checked(fault=Fault(kind=Kind.INSERTED, row=before.pk, says=says))
        return
    while (number := 1 if good.seal is None else good.seal.number + 1) <= up_to:
        row = Seal.objects.filter(number__gte=number, number__lte=up_to).defer("facets", "moments").order_by("number")
        if (stored := row.first()) is None:
            says = f"Seal {number} is not there, nor any that follows."
            fault: Fault | None = Fault(kind=Kind.DELETED, row=good.last + 1, seal=number, says=says)
        else:
            fault = _fault_of(stored, good.seal, keys)
        if fault is not None or stored is None:
            yield Checked(seal=good.seal, rows=good.rows, fault=fault)
            return
        good = Checked(seal=stored.pure, rows=good.rows + stored.count)
        yield good


def check_end() -> Fault | None:
    """Find rows behind the last seal that nobody can have written: with numbers that were never handed out."""
    # In this order: a number is handed out before its row is seen.
    top, handed_out = _one(BEYOND), _one(HANDED_OUT)
    if top is None or top <= max(
        handed_out or 0, Seal.objects.order_by("-number").values_list("last", flat=True).first() or 0
    ):
        return None
    says = f"Row {top} has a number that was never handed out."
    return Fault(kind=Kind.INSERTED, row=top, says=says)


def check_heads(files: Sequence[Path], keys: Keys) -> Fault | None:
    """Compare the seals with their heads outside the database: each has to be there, and be the same.

    Several files, of several machines or witnesses, make up for what each of them does not have.
    """
    newest = last_seal()
    found: list[tuple[int, int]] = []
    for path in files:
        try:
            fault = _fault_in(path, found, newest, keys)
        except FileNotFoundError:
            continue
        except BadHead as bad:
            fault = Fault(kind=Kind.BAD_SIGNATURE, says=str(bad))
        if fault is not None:
            return fault
    missing = _first_uncovered(found)
    if newest is None or missing > newest.number:
        return None
    seal = Seal.objects.defer("entries").filter(number=missing).first()
    if (
        seal is not None
        and seal.sealed_at > read_clock() - ON_ITS_WAY
        and missing == max((to for _, to in found), default=0) + 1
    ):
        return None
    names = ", ".join(path.name for path in files) or "no file"
    says = f"The head of seal {missing} does not stand outside the database ({names})."
    return Fault(kind=Kind.HEAD_MISSING, seal=missing, row=None if seal is None else seal.after + 1, says=says)


def last_seal() -> protocol.Seal | None:
    """The newest seal."""
    row = Seal.objects.defer("entries", "facets", "moments").order_by("-number").first()
    return None if row is None else row.pure


def nothing(*, unsealed: int) -> Fault:
    """There was not one row to verify, and nobody said that there would be none."""
    says = f"Not one sealed row was found; {unsealed} wait for a seal." if unsealed else "Not one row was found."
    return Fault(kind=Kind.NOTHING, says=says)


def count_unsealed(most: int) -> int:
    """Count the rows that no seal covers yet, up to `most`."""
    after = last_seal()
    return AuditEvent.objects.filter(pk__gt=0 if after is None else after.last)[:most].count()


def _fault_of(stored: Seal, before: protocol.Seal | None, keys: Keys) -> Fault | None:
    seal = stored.pure
    if (fault := fault_of_link(seal, before, stored.hash)) is not None:
        return fault
    if not protocol.is_signed(seal, keys):
        return unsigned(seal)
    found = bytes(_one(ENTRIES, [seal.after, seal.last]))
    kept = bytes(stored.entries)
    if found == kept and protocol.root_of(kept) == seal.root and len(kept) == seal.count * protocol.ENTRY:
        return None
    is_end = not AuditEvent.objects.filter(pk__gt=seal.last).exists()
    fault = fault_of_rows(seal, kept, found, is_end=is_end)
    return fault if fault is None or fault.kind is not Kind.EDITED else _of_another_seal(fault, seal, found)


def _of_another_seal(fault: Fault, seal: protocol.Seal, found: bytes) -> Fault:
    """Tell an edited row from one that changed places with a row of another seal."""
    content = dict(protocol.entries_in(found)).get(fault.row or 0)
    other = None if content is None else _one(ELSEWHERE, [seal.number, content])
    if other is None:
        return fault
    says = f"Row {fault.row} says what a row of seal {other} said: their order was changed."
    return replace(fault, kind=Kind.REORDERED, says=says)


def _fault_in(path: Path, found: list[tuple[int, int]], newest: protocol.Seal | None, keys: Keys) -> Fault | None:
    heads = read_heads(path)
    while batch := list(islice(heads, CHUNK)):
        # Read after the heads: a seal is committed before its head is written.
        stored = dict(Seal.objects.filter(number__in=[head.number for head in batch]).values_list("number", "hash"))
        for head in batch:
            if stored.get(head.number) != head.hash:
                return _told(head, path, keys, is_there=head.number in stored, newest=newest)
            if found and found[-1][1] == head.number - 1:
                found[-1] = (found[-1][0], head.number)
            else:
                found.append((head.number, head.number))
    return None


def _told(head: protocol.Seal, path: Path, keys: Keys, *, is_there: bool, newest: protocol.Seal | None) -> Fault:
    where: dict[str, Any] = {"row": head.after + 1, "seal": head.number}
    if not protocol.is_signed(head, keys):
        says = f"{path.name} tells of a seal {head.number} that carries no good signature."
        return Fault(kind=Kind.BAD_SIGNATURE, says=says, **where)
    if is_there:
        says = f"Seal {head.number} is another one than the one whose head stands outside: the audit was made anew."
        return Fault(kind=Kind.FORKED, says=says, **where)
    tail = "There is no seal left" if newest is None else f"The last seal is {newest.number}"
    says = (
        f"{tail}, but {path.name} tells of seal {head.number}: row {head.after + 1} and all that followed were cut off."
    )
    return Fault(kind=Kind.CUT, says=says, **where)


def _first_uncovered(found: list[tuple[int, int]]) -> int:
    number = 1
    for start, to in sorted(found):
        if start > number:
            break
        number = max(number, to + 1)
    return number


def _one(statement: str, values: list[Any] | None = None) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        ((found,),) = cursor.fetchall()
    return found
