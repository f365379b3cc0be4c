"""Revealing what a tool calls sensitive (U5): a right of reviewers, with a reason, written down before it is shown."""

from __future__ import annotations

from django.db import transaction

from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.grants import check_readable
from fencing.services.writes import Writes


def reveal(kind: str, subject: str, reason: str, caller: Caller, *, as_evidence: bool = False) -> Refusal | None:
    """Note that somebody is about to see it; None means that they may, and that it stands in the audit.

    Refused: `forbidden_role` for everybody but reviewers, `reason_required`. Each is on record.
    """
    refusal = check_readable(reason)
    if caller.role is not Role.REVIEWER:
        detail = f"Revealing sensitive members is for reviewers; you act as {caller.role}."
        refusal = Refusal(code=Code.FORBIDDEN_ROLE, detail=detail)
    run = subject.partition("/")[0] if kind == "step" else None
    with transaction.atomic():
        writes = Writes(caller)
        if refusal is not None:
            writes.refuse(refusal, "reveal", run=run)
        else:
            after = {"as": "evidence" if as_evidence else "page"}
            writes.audit("reveal_sensitive", kind, subject, run=run, after=after, reason=reason)
        writes.send()
    return refusal
