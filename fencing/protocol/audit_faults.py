"""What can be wrong with a sealed audit (U3): the kinds of fault, and how the first bad row of a seal is found."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fencing.protocol.seal import ENTRY, GENESIS, Seal, entries_in, root_of


class Kind(StrEnum):
    """A kind of fault."""

    EDITED = "edited"
    DELETED = "deleted"
    INSERTED = "inserted"
    REORDERED = "reordered"
    CUT = "cut"
    FORKED = "forked"
    BAD_SIGNATURE = "bad_signature"
    HEAD_MISSING = "head_missing"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first thing that is wrong: which kind, at which row, in which seal (None where it is about neither)."""

    kind: Kind
    says: str
    row: int | None = None
    seal: int | None = None


def fault_of_link(seal: Seal, before: Seal | None, stored_hash: str) -> Fault | None:
    """Find what is wrong with how a seal hangs on the one before it."""
    number, previous, after = (1, GENESIS, 0) if before is None else (before.number + 1, before.hash, before.last)
    if seal.number != number:
        return Fault(
            kind=Kind.DELETED,
            row=after + 1,
            seal=number,
            says=f"Seal {number} is not there; after seal {number - 1} comes {seal.number}.",
        )
    if stored_hash != seal.hash:
        return Fault(
            kind=Kind.EDITED,
            row=seal.after + 1,
            seal=seal.number,
            says=f"Seal {seal.number} itself was edited: it has another hash than it was stored with.",
        )
    if seal.previous != previous:
        return Fault(
            kind=Kind.FORKED,
            row=seal.after + 1,
            seal=seal.number,
            says=f"Seal {seal.number} hangs on another seal than the one that stands before it.",
        )
    if seal.after != after or seal.last <= seal.after:
        return Fault(
            kind=Kind.FORKED,
            row=after + 1,
            seal=seal.number,
            says=f"Seal {seal.number} does not begin where seal {seal.number - 1} ends.",
        )
    return None


def unsigned(seal: Seal) -> Fault:
    """A seal without a good signature."""
    return Fault(
        kind=Kind.BAD_SIGNATURE,
        row=seal.after + 1,
        seal=seal.number,
        says=f"Seal {seal.number} carries no good signature of the key that it names.",
    )


def fault_of_rows(seal: Seal, stored: bytes, found: bytes, *, is_end: bool) -> Fault | None:
    """Find the first bad row of a seal; `found` are the entries of the rows that are there now, by number.

    `stored` are the entries that were kept with the seal; `is_end`: there is no row behind this seal's.
    """
    is_kept = bool(stored) and root_of(stored) == seal.root
    if found and root_of(found) == seal.root and len(found) == seal.count * ENTRY:
        if is_kept:
            return None
        return Fault(
            kind=Kind.EDITED,
            seal=seal.number,
            row=seal.after + 1,
            says=f"The rows of seal {seal.number} are as they were; the list of their hashes beside it was edited.",
        )
    if not is_kept:
        return Fault(
            kind=Kind.EDITED,
            seal=seal.number,
            row=seal.after + 1,
            says=(
                f"Rows {seal.after + 1} to {seal.last} are not what seal {seal.number} was made over, and the list of "
                "their hashes was changed with them: which of them it was can no longer be told."
            ),
        )
    return _first_difference(seal, dict(entries_in(stored)), dict(entries_in(found)), is_end=is_end)


def _first_difference(
    seal: Seal, stored: Mapping[int, bytes], found: Mapping[int, bytes], *, is_end: bool
) -> Fault | None:
    differing = sorted(number for number in stored.keys() | found.keys() if stored.get(number) != found.get(number))
    if not differing:
        return None
    row = differing[0]
    missing = [number for number in stored if number not in found]
    kind, says = _told(row, stored, found)
    if kind is Kind.DELETED and is_end and missing == [number for number in stored if number >= row]:
        kind = Kind.CUT
        says = f"Row {row} and all that followed it were cut off."
    return Fault(kind=kind, row=row, seal=seal.number, says=says)


def _told(row: int, stored: Mapping[int, bytes], found: Mapping[int, bytes]) -> tuple[Kind, str]:
    was: Container[bytes] = set(stored.values())
    now: Container[bytes] = set(found.values())
    if row not in found:
        if stored[row] in now:
            return Kind.REORDERED, f"Row {row} stands under another number."
        return Kind.DELETED, f"Row {row} is gone."
    if row not in stored:
        if found[row] in was:
            return Kind.REORDERED, f"Row {row} stood under another number."
        return Kind.INSERTED, f"Row {row} was not there when its seal was made."
    if found[row] in was and stored[row] in now:
        return Kind.REORDERED, f"Row {row} says what another row said: their order was changed."
    return Kind.EDITED, f"Row {row} does not say what it said when its seal was made."
