"""The grades' part of each tick: published grades are read again, and a lane is halted for what is wrong (A4)."""

from __future__ import annotations

from fencing.services.grade_audit import audit_due


def sweep() -> None:
    """Read again what is due."""
    audit_due()
