"""Which counter a row of the side log belongs to (protocol 1, S2): each row to one, and none folded into another."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from fencing.protocol.admission import ESCAPES
from fencing.protocol.errors import Code

ADMISSION: Final = "admission"
STALE: Final = (Code.STALE_EPOCH.value, Code.STALE_DELIVERY.value)
# Inputs that stand in the side log without having been refused: they were taken, and what came of them is told there.
NOT_REFUSED: Final = ("late_vote", "conflicting_duplicate", "zombie_spend")
ESCAPE_CODES: Final = tuple(sorted(code.value for code in ESCAPES))


class CountedAs(StrEnum):
    """What a row counts as."""

    ATTEMPTED_ESCAPE = "attempted_escape"
    STALE_REJECT = "stale_reject"
    REFUSAL = "refusal"
    HEARD = "heard"


def counted_as(kind: str, reason: str) -> CountedAs:
    """Tell which counter a row belongs to. `heard`: it was taken, and counts as no refusal."""
    if kind == ADMISSION and reason in ESCAPE_CODES:
        return CountedAs.ATTEMPTED_ESCAPE
    if reason in STALE:
        return CountedAs.STALE_REJECT
    return CountedAs.HEARD if reason in NOT_REFUSED else CountedAs.REFUSAL
