"""Whether a grant may be issued as things stand (L10, G4, G6): one order of questions, for the service and the form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fencing.protocol import fence, grants, intake
from fencing.protocol.errors import Refusal
from fencing.protocol.freezes import Freeze, check_frozen
from fencing.protocol.intake import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The state of things that a grant is asked in.

    `own` is the number of its step, or of the run for a grant by tool (R5); `known` what is on record for the step
    there; `others` the run's grants; `overdue` the issuer's grants whose review is overdue.
    """

    run: str
    own: int
    known: Known | None
    others: Iterable[grants.Grant]
    freezes: Iterable[Freeze]
    overdue: Iterable[str]
    now: datetime


def check_circumstances(wanted: grants.Grant, those: Circumstances) -> Refusal | None:
    """Refuse by a freeze, the epoch, what is left to let through, overlap, and debts, in this order."""
    tool = wanted.tool or (None if those.known is None else fence.tool_of(those.known.step))
    return (
        check_frozen(those.freezes, run=those.run, tool=tool)
        or intake.check_grant_place(those.known, epoch=wanted.epoch, own=those.own)
        or grants.check_overlap(wanted, those.others, those.now)
        or grants.check_debts(those.overdue)
    )
